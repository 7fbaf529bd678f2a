/* What a server has, in the form of its file. */
import { readText, parseJson } from '../client/answer.js'
import type { Client } from '../client/client.js'
import { type GivenPolicy, type PolicyChanges, policyOf } from '../../model/policy.js'
import { type Label, newProject, type ShownProject, isSameName, nameKey } from '../../model/project.js'
import { newProjectFields } from '../../model/project-fields.js'
import type { ListedNode } from '../../model/node.js'
import type { LogSource } from '../../model/log-source.js'
import { hiddenValue } from '../../model/readers.js'
import { eventKeys, maskedAddress, type NotificationTargetView } from '../../model/setting.js'
import type { Variable } from '../../model/variable.js'
import { settingRows } from '../../projects/settings.js'
import {
  type FileLabel,
  type FileProject,
  type FileSource,
  type FileTarget,
  type FileVariable,
  serverFileFormat,
  type ReadFile
} from './format.js'
import type { Change } from '../../base/shared/audit.js'
import { Refusal } from '../../base/errors.js'

/** A record of the server, in the form of the file. */
interface Kept<Fields> {
  id: string
  /** Its state for `If-Match`. */
  seen: string
  fields: Fields
}

/** A log source, and its place among those of its project. */
export type KeptSource = Kept<FileSource> & { sortOrder: number }

/** A node of a project, by name, and the directory there. */
export interface KeptPlacement {
  node: string
  deployPath: string
}

/** A project, with what belongs to it. */
export interface KeptProject extends Kept<FileProject> {
  hasDeployments: boolean
  /** In their order. */
  sources: KeptSource[]
  placements: KeptPlacement[]
  /** Null: they were not read. */
  variables: readonly Variable[] | null
}

/** What the server has. */
export interface ServerState {
  settings: Record<string, string>
  /** The state of the settings for `If-Match`; undefined: the server does not show it to this token. */
  settingsSeen: string | undefined
  categories: Array<Kept<FileLabel>>
  tags: Array<Kept<FileLabel>>
  projects: KeptProject[]
  /** The names of all nodes. */
  nodes: string[]
  notificationTargets: Array<Kept<FileTarget> & { hasSecret: boolean }>
}

const maxSettingsBytes = 1024 * 1024

/** Reads what the server has. `wantsVariables` says for which projects the variables are read, too. */
export async function readServer(
  client: Client,
  wantsVariables: (project: ShownProject) => boolean
): Promise<ServerState> {
  const { call } = client
  const answer = await client.ask('GET /api/settings', {})
  const settings = parseJson(await readText(answer, maxSettingsBytes)) as Record<string, string>
  const categories = (await call('GET /api/categories')).map(labelOf)
  const tags = (await call('GET /api/tags')).map(labelOf)
  const { nodes } = await call('GET /api/nodes')
  const projects = await readProjects(call, wantsVariables, { categories, tags, nodes })
  const nameOf = (id: string): string => projects.find(each => each.id === id)?.fields.name ?? id
  const { items } = await call('GET /api/notification-targets')
  return {
    settings,
    settingsSeen: answer.headers.etag,
    categories,
    tags,
    projects,
    nodes: nodes.map(({ name }) => name),
    notificationTargets: items.filter(({ isFromSettings }) => !isFromSettings).map(each => targetOf(each, nameOf))
  }
}

async function readProjects(
  call: Client['call'],
  wantsVariables: (project: ShownProject) => boolean,
  { nodes, ...labels }: Pick<ServerState, 'categories' | 'tags'> & { nodes: ListedNode[] }
): Promise<KeptProject[]> {
  const listed = [...(await call('GET /api/projects'))].sort((one, other) => (one.name < other.name ? -1 : 1))
  const sources = (await call('GET /api/log-sources')).items
  const projects: KeptProject[] = []
  for (const project of listed) {
    const own = sources.filter(({ projectId }) => projectId === project.id)
    const variables = wantsVariables(project)
      ? (await call('GET /api/projects/:id/variables', { id: project.id })).variables
      : null
    projects.push({
      id: project.id,
      seen: tagOf(project.updatedAt),
      hasDeployments: project.lastDeployAt !== null || project.status !== 'idle',
      fields: fieldsOf(project, { listed, labels, own }),
      sources: own.map(sourceOf),
      placements: nodes.flatMap(({ name: node, placements }) =>
        placements.filter(each => each.projectId === project.id).map(({ deployPath }) => ({ node, deployPath }))
      ),
      variables
    })
  }
  return projects
}

interface Names {
  listed: readonly ShownProject[]
  labels: Pick<ServerState, 'categories' | 'tags'>
  own: readonly LogSource[]
}

function fieldsOf(project: ShownProject, { listed, labels: { categories, tags }, own }: Names): FileProject {
  const nameIn = (labels: ServerState['tags'], id: string): string =>
    labels.find(each => each.id === id)?.fields.name ?? id
  const given = Object.keys(newProjectFields).map(key => [key, project[key as keyof ShownProject]])
  const policy = withReferences(project.policy, {
    project: id => listed.find(each => each.id === id)?.name ?? id,
    source: id => own.find(each => each.id === id)?.filePath ?? id
  })
  const { categoryId, tagIds } = project
  return {
    ...(Object.fromEntries(given) as FileProject),
    categoryId: categoryId && nameIn(categories, categoryId),
    tagIds: tagIds.map(id => nameIn(tags, id)).sort(),
    policy
  }
}

/** How what a policy refers to is written. */
export interface References {
  project(word: string): string
  source(word: string): string
}

/** Returns a policy that refers to projects and log sources in another way. */
export function withReferences<P extends GivenPolicy>(policy: P, { project, source }: References): P {
  const { gate, promoteFrom } = policy
  return {
    ...policy,
    ...(gate && {
      gate: { ...gate, after: gate.after.map(each => ('log' in each ? { ...each, log: source(each.log) } : each)) }
    }),
    ...(promoteFrom && { promoteFrom: { ...promoteFrom, projectId: project(promoteFrom.projectId) } })
  }
}

function labelOf({ id, updatedAt, name, color, sortOrder }: Label): Kept<FileLabel> {
  return { id, seen: tagOf(updatedAt), fields: { name, color, sortOrder } }
}

function sourceOf({ id, updatedAt, sortOrder, filePath, label, kind }: LogSource): KeptSource {
  return { id, seen: updatedAt, sortOrder, fields: { filePath, label, kind } }
}

function targetOf(
  target: NotificationTargetView,
  nameOf: (id: string) => string
): ServerState['notificationTargets'][number] {
  const { id, updatedAt, name, kind, address, hasSecret, events, projectIds, enabled } = target
  const secret = hasSecret ? hiddenValue : ''
  const fields = { name, kind, url: address, secret, events, projectIds: projectIds.map(nameOf), enabled }
  return { id, seen: tagOf(updatedAt ?? ''), hasSecret, fields }
}

function tagOf(updatedAt: string): string {
  return `"${updatedAt}"`
}

/** The fields of a new project that says no more than it must. */
export const usualProject = newProject({ name: '', deployPath: '' }, { id: '', token: '', at: '' })

/** Returns the file of what a server has, without defaults and without secrets. */
export function fileOf(state: ServerState): Record<string, unknown> {
  const settings = settingRows.flatMap(({ key, type, default: usual }) => {
    const value = state.settings[key]
    if (value === undefined || value === usual) return []
    return [[key, type === 'secret' ? hiddenValue : key === 'webhook_url' ? maskedAddress(value) : value]]
  })
  return {
    format: serverFileFormat,
    settings: Object.fromEntries(settings),
    categories: state.categories.map(({ fields }) => without(fields, { sortOrder: 0 })),
    tags: state.tags.map(({ fields }) => without(fields, { sortOrder: 0 })),
    projects: state.projects.map(projectFile),
    notificationTargets: state.notificationTargets.map(({ fields }) =>
      without(fields, { secret: '', events: eventKeys, projectIds: [], enabled: true })
    )
  }
}

function projectFile({ fields, sources, variables, placements }: KeptProject): Record<string, unknown> {
  const { deployPath } = fields
  const shown = (variables ?? []).map(({ name, value, secret }): [string, FileVariable] => [
    name,
    secret ? { secret: hiddenValue } : (value as string)
  ])
  return {
    ...without(fields, usualProject),
    ...(sources.length > 0 && { logSources: sources.map(each => sourceFile(each.fields)) }),
    ...(shown.length > 0 && { variables: Object.fromEntries(shown) }),
    ...(placements.length > 0 && { placements: placements.map(each => without(each, { deployPath })) })
  }
}

function sourceFile({ filePath, label, kind }: FileSource): FileSource {
  const usual = { kind: 'plain', label: filePath.replace(/^.*\//, '') }
  return without({ filePath, label, kind }, usual) as FileSource
}

/** Returns the fields that are not as in `usual`. */
function without(fields: object, usual: object): Record<string, unknown> {
  const texts = new Map(Object.entries(usual).map(([key, value]) => [key, JSON.stringify(value)]))
  return Object.fromEntries(Object.entries(fields).filter(([key, value]) => texts.get(key) !== JSON.stringify(value)))
}

/** Returns a project as audit entries show it: with its whole policy. */
export function shownProject<F extends Pick<FileProject, 'policy' | 'tagIds'>>(fields: F): object {
  const policy = policyOf({ policy: (fields.policy ?? {}) as PolicyChanges })
  return { ...fields, policy, tagIds: [...(fields.tagIds ?? [])].sort() }
}

/* What the parts of a plan for a server share: its steps, names and ids, and secrets that are kept. */

/** One change of a server. */
export interface Step {
  action: 'create' | 'change' | 'delete'
  kind: 'settings' | 'category' | 'tag' | 'project' | 'log source' | 'variable' | 'placement' | 'notification target'
  /** Its name in the file; that of what a project has begins with the name of the project. */
  name: string
  fields: readonly Change[]
}

/** A step, and how it is carried out. */
export interface Task extends Step {
  order: number
  /** Whether it is the second part of another one, which has to wait. */
  isSecond?: boolean
  run(server: Server): Promise<void>
}

/** When each kind of change is made: what others refer to first, and what is deleted last. */
export const order = {
  settings: 0,
  labels: 1,
  projects: 2,
  created: 3,
  sources: 4,
  policies: 5,
  rest: 6,
  deleted: 7
} as const

/** A server that is being changed: its ids, by kind and name. */
export interface Server {
  call: Client['call']
  ids: Map<string, string>
}

/** What would be done. */
export interface Plan {
  /** In the order in which they are carried out. */
  tasks: readonly Task[]
  /** The number of records that are as the file says. */
  leftAlone: number
  /** Secrets of the file that the server does not show, so that they may differ. */
  notCompared: readonly string[]
}

/** A file, the server it is for, and how it is applied. */
export interface Wish extends ReadFile {
  state: ServerState
  /** Whether what the file does not name is deleted or gets its default, within the parts that the file has. */
  prune: boolean
  /** Whether secrets are set again that cannot be compared. */
  secrets: boolean
}

/** A project of the file, and the one of the server that it is for. */
export interface ProjectWish {
  wanted: FileProject
  /** Its path in the file. */
  path: string
  kept: KeptProject | undefined
}

/** A plan in the making. */
export interface Planning extends Wish {
  tasks: Task[]
  leftAlone: number
  notCompared: string[]
}

/** Returns the ids of what the server has. */
export function idsOf({ categories, tags, projects }: ServerState): Map<string, string> {
  const kinds = { category: categories, tag: tags, project: projects }
  const ids = Object.entries(kinds).flatMap(([kind, kept]) =>
    kept.map(({ id, fields }): [string, string] => [keyOf(kind, fields.name), id])
  )
  const sources = projects.flatMap(({ fields, sources }) =>
    sources.map(({ id, fields: { filePath } }): [string, string] => [keyOf('source', fields.name, filePath), id])
  )
  return new Map([...ids, ...sources])
}

/** Returns the key of a record among ids. */
export function keyOf(kind: string, name: string, path = ''): string {
  return `${kind}\n${nameKey(name)}\n${path}`
}

/** Returns the id of a record, or the word itself: an id of a record that is gone. */
export function idIn({ ids }: Pick<Server, 'ids'>, kind: string, name: string): string {
  return ids.get(keyOf(kind, name)) ?? name
}

/** Adds a task, unless it changes nothing. */
export function add(planning: Planning, task: Task): void {
  if (task.action === 'change' && task.fields.length === 0) planning.leftAlone++
  else planning.tasks.push(task)
}

/** Returns the record with a name. Refuses a name that several records of the server have. */
export function named<K extends Kept<{ name: string }>>(kept: readonly K[], name: string): K | undefined {
  const [found, ...others] = kept.filter(({ fields }) => isSameName(fields.name, name))
  if (found === undefined || others.length === 0) return found
  const ids = [found, ...others].map(({ id }) => id).join(', ')
  throw new Refusal(
    'conflict',
    'name_taken',
    `Several records of the server have the name "${name}": ${ids}. Rename one`
  )
}

/** Throws if a record is not as it was when the plan was made. */
export function checkStill(what: string, before: unknown, now: unknown): void {
  if (JSON.stringify(before) === JSON.stringify(now)) return
  throw new Refusal('precondition', 'changed_since', `${what} has changed since the plan was made`)
}

/** Returns the sentence about a masked secret that the server does not have. */
export function noSecret(path: string): string {
  return `"${path}" is masked, and the server has no such secret to keep: write "\${NAME}", and set that variable`
}

/** Returns the headers of a change that must not overwrite another one. */
export function ifMatch(seen: string | undefined): Record<string, string> {
  return seen === undefined ? {} : { 'if-match': seen }
}

/** Returns whether a record has an id. */
export const isOf =
  (id: string) =>
  (each: { id: string }): boolean =>
    each.id === id
