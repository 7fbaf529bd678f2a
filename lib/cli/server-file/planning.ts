/* What the parts of a plan for a server share: its steps, names and ids, and secrets that are kept. */
import type { Change } from '../../base/shared/audit-changes.js'
import { Refusal } from '../../base/errors.js'
import { isSameName, nameKey } from '../../model/project.js'
import type { Client } from '../client/client.js'
import type { FileProject, ReadFile } from './format.js'
import type { Kept, KeptProject, ServerState } from './state.js'

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
