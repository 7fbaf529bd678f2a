/* The log sources of a project of a plan. */
import type { Client } from '../client/client.js'
import { beyondDefaults, changes } from '../../model/changes.js'
import { logSourceReaders } from '../../operate/logs/sources.js'
import { add, checkStill, idIn, isOf, keyOf, order, type Planning, type ProjectWish, type Server } from './planning.js'
import type { KeptSource } from './state.js'

/** Plans the log sources of a project, in the order of the file. */
export function planSources(planning: Planning, wish: ProjectWish): void {
  const { name: project, logSources = [] } = wish.wanted
  const sources = wish.kept?.sources ?? []
  const { isMoved, paths } = orderOf(planning, wish)
  const isInFile = (path: string): boolean => logSources.some(each => each.filePath === path)
  const others = paths.filter(path => !isInFile(path)).map(filePath => ({ filePath }))
  for (const source of [...logSources, ...(isMoved ? others : [])]) {
    const { filePath, ...fields } = source
    const before = sources.find(each => each.fields.filePath === filePath)
    const usual = { label: filePath.replace(/^.*\//, ''), kind: 'plain' as const }
    const isReset = planning.prune && isInFile(filePath)
    const sortOrder = isMoved ? paths.indexOf(filePath) : (before?.sortOrder ?? 0)
    const shown = { ...usual, ...(isReset ? {} : before?.fields), ...fields, filePath, sortOrder }
    const run = async ({ call, ids }: Server): Promise<void> => {
      const id = idIn({ ids }, 'project', project)
      const { label, kind } = shown
      const body = { label, kind, ...(isMoved && { sortOrder }) }
      if (before !== undefined) {
        await checkSource(call, id, before)
        await call('PATCH /api/log-sources/:sourceId', { sourceId: before.id, body })
        return
      }
      const { items } = await call('POST /api/projects/:id/log-sources', { id, body: { items: [source] } })
      const sourceId = items[0]?.id as string
      ids.set(keyOf('source', project, filePath), sourceId)
      if (isMoved) await call('PATCH /api/log-sources/:sourceId', { sourceId, body })
    }
    const fieldsOf =
      before === undefined
        ? beyondDefaults({ ...usual, filePath, sortOrder: 0 }, shown, logSourceReaders)
        : changes({ ...(before.fields as typeof shown), sortOrder: before.sortOrder }, shown, logSourceReaders)
    const action = before === undefined ? 'create' : 'change'
    const name = `${project}: ${filePath}`
    add(planning, { action, kind: 'log source', name, fields: fieldsOf, order: order.sources, run })
  }
  if (!planning.prune) return
  for (const source of sources.filter(({ fields }) => !isInFile(fields.filePath))) {
    const run = async ({ call }: Server): Promise<void> => {
      await checkSource(call, wish.kept?.id as string, source)
      await call('DELETE /api/log-sources/:sourceId', { sourceId: source.id })
    }
    const name = `${project}: ${source.fields.filePath}`
    add(planning, { action: 'delete', kind: 'log source', name, fields: [], order: order.deleted, run })
  }
}

/** Returns the paths in their new order: the file orders those that it names, and the others keep their places. */
function orderOf({ prune }: Planning, { wanted, kept }: ProjectWish): { isMoved: boolean; paths: string[] } {
  const inFile = (wanted.logSources ?? []).map(({ filePath }) => filePath)
  const there = (kept?.sources ?? []).map(({ fields }) => fields.filePath)
  const left = there.filter(path => !prune || inFile.includes(path))
  const added = [...left, ...inFile.filter(path => !there.includes(path))]
  const next = inFile.values()
  const paths = added.map(path => (inFile.includes(path) ? (next.next().value as string) : path))
  return { isMoved: paths.some((path, index) => path !== added[index]), paths }
}

async function checkSource(
  call: Client['call'],
  id: string,
  { id: sourceId, seen, fields }: KeptSource
): Promise<void> {
  const { items } = await call('GET /api/projects/:id/log-sources', { id })
  checkStill(`The log source "${fields.filePath}"`, seen, items.find(isOf(sourceId))?.updatedAt)
}
