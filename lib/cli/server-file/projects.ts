/* The projects of a plan, with their variables. */
import { areNestedThere } from '../../model/node.js'
import { posix, win32 } from 'node:path'
import { Refusal } from '../../base/errors.js'
import { pick } from '../../base/fields.js'
import { beyondDefaults, changes, hiddenValue, type Readers } from '../../model/readers.js'
import { changePolicy, type GivenPolicy, type PolicyChanges } from '../../model/policy.js'
import { isSameName, projectReaders, nameKey } from '../../model/project.js'
import { projectFields } from '../../model/project-fields.js'
import type { FileVariable } from './format.js'
import {
  add,
  checkStill,
  idIn,
  ifMatch,
  isOf,
  keyOf,
  noSecret,
  named,
  order,
  type Planning,
  type ProjectWish,
  type Server,
  type KeptProject,
  shownProject,
  usualProject,
  withReferences,
  type KeptSource,
  type KeptPlacement
} from './state.js'
import type { Client } from '../client/client.js'
import { logSourceReaders } from '../../operate/logs/sources.js'

/** Plans the projects of the file, and with a prune those that it does not name. */
export function planProjects(planning: Planning): void {
  const { file, state, prune } = planning
  if (file.projects === undefined) return
  const isNamed = ({ fields }: KeptProject): boolean =>
    file.projects?.some(each => isSameName(each.name, fields.name)) ?? false
  const wishes = file.projects.map((wanted, index): ProjectWish => {
    // No two projects have one target, so a project in the same place under another name was renamed.
    const renamed = state.projects.find(each => !isNamed(each) && each.fields.deployPath === wanted.deployPath)
    return { wanted, path: `projects[${index}]`, kept: named(state.projects, wanted.name) ?? renamed }
  })
  const others = state.projects.filter(project => !wishes.some(({ kept }) => kept === project))
  checkTargets(planning, wishes, others)
  checkPlaces(planning, wishes, others)
  for (const wish of wishes) {
    checkReferences(planning, wish)
    planProject(planning, wish)
    planSources(planning, wish)
    planVariables(planning, wish)
    planPlacements(planning, wish)
  }
  if (prune) for (const project of others) planRemoval(planning, project)
}

/** Refuses targets that no server takes, or that overlap. The server checks them again, with the links of its machine. */
function checkTargets({ refusal }: Planning, wishes: readonly ProjectWish[], others: readonly KeptProject[]): void {
  const all = [...wishes.map(({ wanted }) => wanted), ...others.map(({ fields }) => fields)]
  for (const { wanted, path } of wishes) {
    if (!posix.isAbsolute(wanted.deployPath) && !win32.isAbsolute(wanted.deployPath))
      throw refusal(`${path}.deployPath`, `deployPath is invalid: "${wanted.deployPath}" is not an absolute path`)
    const other = all.find(
      each => each !== wanted && `${wanted.deployPath}/`.startsWith(`${each.deployPath.replace(/\/$/, '')}/`)
    )
    const where = other && `"${other.name}" deploys to "${other.deployPath}"`
    if (where !== undefined)
      throw refusal(`${path}.deployPath`, `Cannot deploy to "${wanted.deployPath}": the project ${where}`)
  }
}

function checkReferences({ file, state, prune, refusal }: Planning, { wanted, path, kept }: ProjectWish): void {
  const check = (part: 'categories' | 'tags' | 'projects', name: string, place: string): void => {
    const isGone = prune && file[part] !== undefined
    const known = [...(file[part] ?? []), ...(isGone ? [] : state[part].map(({ fields }) => fields))]
    if (known.some(each => isSameName(each.name, name))) return
    if (part === 'projects' && state.projects.some(isOf(name))) return
    throw refusal(
      `${path}.${place}`,
      `"${path}.${place}" is "${name}": there is no such record, neither in the file nor on the server`
    )
  }
  if (wanted.categoryId) check('categories', wanted.categoryId, 'categoryId')
  wanted.tagIds?.forEach((name, index) => void check('tags', name, `tagIds[${index}]`))
  const { promoteFrom, gate } = wanted.policy ?? {}
  if (promoteFrom) check('projects', promoteFrom.projectId, 'policy.promoteFrom.projectId')
  const files = [...(wanted.logSources ?? []), ...(prune ? [] : (kept?.sources ?? []).map(({ fields }) => fields))]
  gate?.after.forEach((each, index) => {
    if (!('log' in each) || files.some(({ filePath }) => filePath === each.log)) return
    const place = `${path}.policy.gate.after[${index}].log`
    throw refusal(place, `"${place}" is "${each.log}": it must be the path of a log source of the project`)
  })
}

/** Whether a policy refers to records that may be new. */
function waits({ gate, promoteFrom }: GivenPolicy): boolean {
  return Boolean(promoteFrom) || (gate?.after.some(each => 'log' in each) ?? false)
}

function planProject(planning: Planning, { wanted, path, kept }: ProjectWish): void {
  const { logSources: _, variables: __, placements: ___, ...fields } = wanted
  const before = kept?.fields.policy ?? {}
  const reset = planning.prune ? Object.fromEntries(Object.keys(before).map(key => [key, null])) : {}
  const policy = heldSecrets(planning, { ...reset, ...fields.policy }, { before, path })
  const given = { ...(planning.prune ? usualFields : {}), ...fields, policy }
  const { name } = wanted
  const after = shownProject({
    ...(kept?.fields ?? { ...usualProject, name }),
    ...given,
    policy: changePolicy(before as PolicyChanges, policy)
  })
  const readers = projectReaders as Readers<object>
  const body = (server: Server): object => ({
    ...given,
    categoryId: given.categoryId && idIn(server, 'category', given.categoryId),
    tagIds: given.tagIds?.map(each => idIn(server, 'tag', each)),
    policy: withReferences(policy, {
      project: word => idIn(server, 'project', word),
      source: path => server.ids.get(keyOf('source', name, path)) ?? path
    })
  })
  if (kept === undefined) {
    const run = async (server: Server): Promise<void> => {
      const { policy: own, ...rest } = body(server) as typeof given
      const made = { ...rest, ...(!waits(policy) && { policy: own }) }
      const { project } = await server.call('POST /api/projects', { body: made })
      server.ids.set(keyOf('project', name), project.id)
    }
    const usual = shownProject({ ...usualProject, name })
    add(planning, {
      action: 'create',
      kind: 'project',
      name,
      fields: beyondDefaults<object>(usual, after, readers),
      order: order.created,
      run
    })
  }
  const id = (server: Server): string => kept?.id ?? idIn(server, 'project', name)
  const run = async (server: Server): Promise<void> => {
    const sent = kept === undefined ? { policy: (body(server) as typeof given).policy } : body(server)
    await server.call('PUT /api/projects/:id', { id: id(server), body: sent, headers: ifMatch(kept?.seen) })
    server.ids.set(keyOf('project', name), id(server))
  }
  const at = waits(policy) ? order.policies : order.projects
  if (kept !== undefined) {
    const changed = changes<object>(shownProject(kept.fields), after, readers)
    add(planning, { action: 'change', kind: 'project', name: kept.fields.name, fields: changed, order: at, run })
  } else if (waits(policy))
    planning.tasks.push({ action: 'create', kind: 'project', name, fields: [], order: at, run, isSecond: true })
}

const { name: _, deployPath: __, policy: ___, ...resetting } = projectFields
/** What a prune resets in a project, where the file does not name it. */
const usualFields = pick(usualProject, Object.keys(resetting) as Array<keyof typeof resetting>)

/** Returns a policy in which headers that cannot be compared keep the values of the server. */
function heldSecrets(
  planning: Planning,
  policy: GivenPolicy,
  { before, path }: { before: GivenPolicy; path: string }
): GivenPolicy {
  const { gate } = policy
  if (!gate) return policy
  const after = gate.after.map((check, index) => {
    if (!('http' in check) || check.header === undefined) return check
    const own = before.gate?.after[index]
    const kept = own !== undefined && 'http' in own ? (own.header ?? {}) : {}
    const header = Object.entries(check.header).map(([name, value]) => {
      const place = `${path}.policy.gate.after[${index}].header.${name}`
      const isKept = Object.hasOwn(kept, name)
      if (value === hiddenValue && !isKept) throw planning.refusal(place, noSecret(place))
      if (value === hiddenValue || !isKept || planning.secrets) return [name, value]
      planning.notCompared.push(place)
      return [name, hiddenValue]
    })
    return { ...check, header: Object.fromEntries(header) as Record<string, string> }
  })
  return { ...policy, gate: { ...gate, after } }
}

function planRemoval(planning: Planning, { id, seen, hasDeployments, fields: { name, policy } }: KeptProject): void {
  if (hasDeployments) {
    const sentence =
      `Cannot prune the project "${name}": it has deployments, and their archives and records would be deleted. ` +
      `Name it in the file, or use "svc projects delete"`
    throw new Refusal('conflict', 'has_deployments', sentence)
  }
  // A project cannot be deleted as long as another one takes releases of it only.
  const at = order.deleted + (policy?.promoteFrom ? 0.1 : 0.15)
  const run = async ({ call }: Server): Promise<void> => {
    const { updatedAt, lastDeployAt } = await call('GET /api/projects/:id', { id })
    checkStill(`The project "${name}"`, [seen, null], [`"${updatedAt}"`, lastDeployAt])
    await call('DELETE /api/projects/:id', { id })
  }
  add(planning, { action: 'delete', kind: 'project', name, fields: [], order: at, run })
}

const variableReaders = { fields: { value: 'everybody', secret: 'everybody' } } as const

function planVariables(planning: Planning, { wanted, path, kept }: ProjectWish): void {
  const { name: project, variables = {} } = wanted
  const names = Object.keys(variables)
  const gone = planning.prune
    ? (kept?.variables ?? []).map(({ name }) => name).filter(name => !names.includes(name))
    : []
  for (const name of [...names, ...gone]) {
    const given: FileVariable | undefined = Object.hasOwn(variables, name) ? variables[name] : undefined
    const before = kept?.variables?.find(each => each.name === name)
    const secret = typeof given === 'object'
    const value = typeof given === 'object' ? given.secret : given
    const hasSecret = before?.secret === true && before.hasValue
    const place = `${path}.variables.${name}.secret`
    if (secret && value === hiddenValue && !hasSecret) throw planning.refusal(place, noSecret(place))
    const isHeld = secret && hasSecret && (value === hiddenValue || !planning.secrets)
    if (isHeld && value !== hiddenValue) planning.notCompared.push(place)
    const shown = { value: secret ? (isHeld ? null : hiddenValue) : value, secret }
    const readers = variableReaders as Readers<object>
    const fields =
      isHeld || given === undefined
        ? []
        : before === undefined
          ? beyondDefaults<object>({ secret: false }, shown, readers)
          : changes<object>(before, shown, readers)
    const run = async ({ call, ids }: Server): Promise<void> => {
      const id = idIn({ ids }, 'project', project)
      const now = (await call('GET /api/projects/:id/variables', { id })).variables.find(each => each.name === name)
      checkStill(`The variable ${name}`, before, now)
      const body = given === undefined ? { unset: [name] } : { variables: [{ name, value: value as string, secret }] }
      await call('PATCH /api/projects/:id/variables', { id, body })
    }
    const action = given === undefined ? 'delete' : before === undefined ? 'create' : 'change'
    const at = given === undefined ? order.deleted : order.rest
    add(planning, { action, kind: 'variable', name: `${project}: ${name}`, fields, order: at, run })
  }
}

/* The log sources of a project of a plan. */

/** Plans the log sources of a project, in the order of the file. */
function planSources(planning: Planning, wish: ProjectWish): void {
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

/* The nodes of a project of a plan. */

/** A project on a node, as the file or the server has it. */
interface Place extends KeptPlacement {
  project: string
  /** Its path in the file; null if the file does not name it. */
  path: string | null
}

/** Refuses nodes that do not exist, a placement in another directory, and directories of a node that overlap. */
function checkPlaces(planning: Planning, wishes: readonly ProjectWish[], others: readonly KeptProject[]): void {
  const { state, refusal, prune } = planning
  const left = others.filter(() => !prune).flatMap(({ fields: { name }, placements }) => placesOf(name, placements))
  const all = [...wishes.flatMap(wish => placesAfter(planning, wish)), ...left]
  const nodes = new Map(state.nodes.map((name): [string, Place[]] => [nameKey(name), []]))
  for (const place of all) nodes.get(nameKey(place.node))?.push(place)
  for (const { node, deployPath, project, path } of all) {
    if (path === null) continue
    const places = nodes.get(nameKey(node))
    if (places === undefined) throw refusal(path, `There is no node "${node}". "svc fleet enroll" adds a machine`)
    const other = places.find(each => each.project !== project && areNestedThere(each.deployPath, deployPath))
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

/** Plans the nodes of a project. A prune removes those that the file does not name, if it names nodes at all. */
function planPlacements(planning: Planning, wish: ProjectWish): void {
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
