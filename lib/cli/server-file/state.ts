/* What a server has, in the form of its file. */
import { readText, parseJson } from '../client/answer.js'
import type { Client } from '../client/client.js'
import { type GivenPolicy, type PolicyChanges, policyOf } from '../../model/policy.js'
import { type Label, newProject, type ShownProject } from '../../model/project.js'
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
  serverFileFormat
} from './format.js'

/** A record of the server, in the form of the file. */
export interface Kept<Fields> {
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
