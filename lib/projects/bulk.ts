import { Refusal, invalid } from '../base/errors.js'
import type { Actor } from '../model/audit.js'
import type { BulkAction, BulkOutcome } from '../model/bulk.js'
import type { Projects } from './projects.js'

type Needs = Pick<Projects, 'get' | 'update' | 'remove'>

/** Applies an action to many projects. A refusal for one project does not stop the others. */
export async function applyToProjects(
  projects: Needs,
  { action, ids, actor }: { action: BulkAction; ids: string[]; actor: Actor }
): Promise<BulkOutcome> {
  const apply = operationOf(projects, action, actor)
  const outcome: BulkOutcome = { done: 0, failed: [] }
  for (const id of new Set(ids)) {
    try {
      await apply(id)
      outcome.done++
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      outcome.failed.push({ id, error: error.message })
    }
  }
  return outcome
}

function operationOf(
  projects: Needs,
  { action, categoryId, tagIds, allowClientScripts }: BulkAction,
  actor: Actor
): (id: string) => Promise<unknown> {
  if (action === 'delete') return id => projects.remove(id, actor)
  if (action === 'setCategory') return id => projects.update(id, { categoryId }, actor)
  if (action === 'setClientScripts') {
    if (allowClientScripts === undefined) throw missing('allowClientScripts', action)
    return id => projects.update(id, { allowClientScripts }, actor)
  }
  if (tagIds === undefined) throw missing('tagIds', action)
  return id => {
    const had = projects.get(id).tagIds
    const tags = action === 'addTags' ? [...had, ...tagIds] : had.filter(tagId => !tagIds.includes(tagId))
    return projects.update(id, { tagIds: tags }, actor)
  }
}

function missing(field: string, action: string): Refusal {
  return invalid(field, `"${field}" is missing: "${action}" requires it`)
}
