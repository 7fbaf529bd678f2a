import { expectedTags } from '../http/core/reply.js'
import type { ProjectScope } from '../model/access.js'
import { json } from '../http/core/route.js'
import type { Actor } from '../model/audit.js'
import type { Proof } from '../auth/proof.js'
import { changesCommands } from '../model/commands.js'
import { bulkActions, maxBulk, type BulkAction, type BulkOutcome } from '../model/bulk.js'
import { newProjectFields, projectFields } from '../model/project-fields.js'
import {
  projectReaders,
  type Project,
  type RecentScripts,
  type NewProject,
  type ProjectFields
} from '../model/project.js'
import { oneLine } from '../base/text.js'
import { invalid } from '../base/errors.js'
import { flag, line, list, nullable, oneOf, optional, readFields } from '../base/fields.js'
import { queryText } from './query.js'
import { shownProject } from './masks.js'
import { type ApiRequest, type Handler, param } from './route.js'

const id = line({ min: 1, max: 100 })
const ids = list(id, { max: 200 })
const emptyIsNull = (given: string | null | undefined) => (given === '' ? null : given)

/** Fields of `PUT /api/projects/:id/pin`. */
export const pinFields = {
  /** Whether the overview shows the project. */
  pinned: flag
}

/** Fields of `POST /api/projects/bulk`. */
export const bulkFields = {
  /** Ids of the projects. */
  ids: list(id, { min: 1, max: maxBulk }),
  /** The change to make. */
  action: oneOf(bulkActions),
  /** For `setCategory`: the id of the category. Null means the default category. */
  categoryId: nullable(id),
  /** For `addTags` and `removeTags`: the ids of the tags. */
  tagIds: optional(ids),
  /** For `setClientScripts`: whether clients may send scripts. Null uses the setting of the server. */
  allowClientScripts: optional(nullable(flag))
}

/** Dependencies of the handlers of projects. */
export interface ProjectsNeeds {
  projects: {
    list(filter: { tagIds: string[]; scope: ProjectScope }): Project[]
    get(id: string): Project
    create(fields: NewProject, actor: Actor): Promise<Project>
    update(id: string, fields: ProjectFields, actor: Actor): Promise<Project>
    remove(id: string, actor: Actor): Promise<void>
    regenerateToken(id: string, actor: Actor): Promise<string>
  }
  bulk(action: BulkAction, ids: string[], actor: Actor): Promise<BulkOutcome>
  recentScripts(projectId: string): RecentScripts
  proof: Pick<Proof, 'check' | 'isRecent'>
}

/** Handlers of projects (§4.3), and of the panel's pin, bulk and recent scripts. */
export function projectHandlers({ projects, bulk, recentScripts, proof }: ProjectsNeeds) {
  const answer = (project: Project, { actor }: ApiRequest, ignored: readonly string[] = []) => {
    const warnings = ignored.map(name => `The field "${oneLine(name)}" is unknown and was ignored`)
    const answered = { success: true, project: shownProject(project, actor, proof) }
    return json(warnings.length === 0 ? answered : { ...answered, warnings })
  }

  return {
    list: ({ query, actor }) => {
      const tagIds = (queryText(query, 'tagIds') ?? '').split(',').filter(Boolean)
      return json(projects.list({ tagIds, scope: actor.projects }).map(project => shownProject(project, actor, proof)))
    },

    create: async request => {
      const { body, ignored } = knownFields(await request.json())
      const fields = readFields(body, newProjectFields)
      const project = await projects.create({ ...fields, categoryId: emptyIsNull(fields.categoryId) }, request.actor)
      return answer(project, request, ignored)
    },

    get: request => json(shownProject(projects.get(param(request, 'id')), request.actor, proof)),

    update: async request => {
      const { body, ignored } = knownFields(await request.json())
      const fields = readFields(body, projectFields)
      const id = param(request, 'id')
      if (changesCommands(projects.get(id), fields)) proof.check(request.actor.provenAt)
      const patch = { ...fields, categoryId: emptyIsNull(fields.categoryId), seen: expectedTags(request.headers) }
      return answer(await projects.update(id, patch, request.actor), request, ignored)
    },

    remove: async request => {
      await projects.remove(param(request, 'id'), request.actor)
      return json({ success: true, message: 'The project was deleted' })
    },

    regenerateToken: async request =>
      json({ success: true, token: await projects.regenerateToken(param(request, 'id'), request.actor) }),

    pin: async request => {
      const { pinned } = readFields(await request.json(), pinFields)
      return answer(await projects.update(param(request, 'id'), { pinned }, request.actor), request)
    },

    bulk: async request => {
      const { ids: chosen, ...action } = readFields(await request.json(), bulkFields)
      if (action.action === 'setClientScripts') proof.check(request.actor.provenAt)
      return json({ success: true, ...(await bulk(action, chosen, request.actor)) })
    },

    recentScripts: request => json(recentScripts(param(request, 'id')))
  } satisfies Record<string, Handler>
}

/** Names that programs of the same family use for a field. */
const otherNames: Readonly<Record<string, keyof typeof projectFields>> = {
  allowCliHooks: 'allowClientScripts',
  allow_cli_hooks: 'allowClientScripts'
}

/** Returns a body with the names of this API, and the names of its fields that no record has. */
function knownFields(given: unknown): { body: unknown; ignored: string[] } {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return { body: given, ignored: [] }
  const body: Record<string, unknown> = { ...given }
  for (const [other, name] of Object.entries(otherNames)) {
    if (!Object.hasOwn(body, other)) continue
    if (Object.hasOwn(body, name) && body[name] !== body[other])
      throw invalid(other, `"${other}" and "${name}" have different values: they are two names of the same field`)
    body[name] = body[other]
    delete body[other]
  }
  // A client may send a whole record back, so the other fields of a record are not worth a warning.
  const ignored = Object.keys(body).filter(name => !Object.hasOwn(projectReaders.fields, name))
  return { body, ignored }
}
