/* The nodes of a project of a plan. */
import { isSameName, nameKey } from '../../model/project.js'
import { add, checkStill, idIn, order, type Planning, type ProjectWish, type Server } from './planning.js'
import type { KeptPlacement, KeptProject } from './state.js'

/** A project on a node, as the file or the server has it. */
interface Place extends KeptPlacement {
  project: string
  /** Its path in the file; null if the file does not name it. */
  path: string | null
}

/** Refuses nodes that do not exist, a placement in another directory, and directories of a node that overlap. */
export function checkPlaces(planning: Planning, wishes: readonly ProjectWish[], others: readonly KeptProject[]): void {
  const { state, refusal, prune } = planning
  const left = others.filter(() => !prune).flatMap(({ fields: { name }, placements }) => placesOf(name, placements))
  const all = [...wishes.flatMap(wish => placesAfter(planning, wish)), ...left]
  const nodes = new Map(state.nodes.map((name): [string, Place[]] => [nameKey(name), []]))
  for (const place of all) nodes.get(nameKey(place.node))?.push(place)
  for (const { node, deployPath, project, path } of all) {
    if (path === null) continue
    const places = nodes.get(nameKey(node))
    if (places === undefined) throw refusal(path, `There is no node "${node}". "svc fleet enroll" adds a machine`)
    const other = places.find(each => each.project !== project && overlaps(each, deployPath))
    const where = other && `"${other.project}" is placed in "${other.deployPath}"`
    if (where !== undefined) throw refusal(path, `Cannot place the project in "${deployPath}" of "${node}": ${where}`)
  }
  for (const { wanted, kept, path } of wishes) {
    wanted.placements?.forEach(({ node, deployPath }, index) => {
      const before = kept?.placements.find(each => isSameName(each.node, node))
      if (before === undefined || deployPath === undefined || deployPath === before.deployPath) return
      const sentence = `The project is placed in "${before.deployPath}" of "${node}". Remove it there first`
      throw refusal(`${path}.placements[${index}]`, `${sentence}: svc fleet unplace`)
    })
  }
}

function placesOf(project: string, placements: readonly KeptPlacement[]): Place[] {
  return placements.map(each => ({ ...each, project, path: null }))
}

/** Returns where a project is placed once the file was applied. */
function placesAfter({ prune }: Planning, { wanted, kept, path }: ProjectWish): Place[] {
  const { name: project, deployPath: usual, placements = [] } = wanted
  const there = kept?.placements ?? []
  const named = placements.map(({ node, deployPath }, index): Place => {
    const before = there.find(each => isSameName(each.node, node))
    const at = deployPath ?? before?.deployPath ?? usual
    return { node, deployPath: at, project, path: `${path}.placements[${index}]` }
  })
  const isNamed = ({ node }: KeptPlacement): boolean => named.some(each => isSameName(each.node, node))
  const isGone = prune && wanted.placements !== undefined
  return [...named, ...placesOf(project, isGone ? [] : there.filter(each => !isNamed(each)))]
}

function overlaps({ deployPath }: Place, path: string): boolean {
  return `${path}/`.startsWith(`${deployPath}/`) || `${deployPath}/`.startsWith(`${path}/`)
}

/** Plans the nodes of a project. A prune removes those that the file does not name, if it names nodes at all. */
export function planPlacements(planning: Planning, wish: ProjectWish): void {
  const { wanted, kept } = wish
  const there = kept?.placements ?? []
  const after = placesAfter(planning, wish)
  const plan = (action: 'create' | 'delete' | 'change', { node, deployPath }: KeptPlacement): void => {
    const run = async ({ call, ids }: Server): Promise<void> => {
      const id = idIn({ ids }, 'project', wanted.name)
      const { placements } = await call('GET /api/projects/:id/placements', { id })
      const now = placements.find(({ nodeName }) => isSameName(nodeName, node))?.deployPath
      checkStill(`The placement on "${node}"`, action === 'delete' ? deployPath : undefined, now)
      const body = action === 'delete' ? { remove: [node] } : { add: [{ node, deployPath }] }
      await call('PATCH /api/projects/:id/placements', { id, body })
    }
    const fields = action === 'create' ? [{ field: 'deployPath', from: null, to: deployPath }] : []
    const at = action === 'delete' ? order.deleted : order.rest
    add(planning, { action, kind: 'placement', name: `${wanted.name}: ${node}`, fields, order: at, run })
  }
  for (const place of after.filter(({ path }) => path !== null))
    plan(there.some(({ node }) => isSameName(node, place.node)) ? 'change' : 'create', place)
  for (const place of there) if (!after.some(({ node }) => isSameName(node, place.node))) plan('delete', place)
}
