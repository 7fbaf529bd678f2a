import { isAbsolute } from 'node:path'
import { unprintableIn, oneLine } from '../base/text.js'
import type { Instant } from './scalars.js'
import { changePolicy, defaultPolicy, type GivenPolicy, type PolicyChanges, policyOf, policyReaders } from './policy.js'
import type { Readers } from './readers.js'

/** The status of the last deployment, or `idle` if there was none (§2.1; decided: the value set). */
export const projectStatuses = ['idle', 'running', 'success', 'failed'] as const
/** The status of a project. */
export type ProjectStatus = (typeof projectStatuses)[number]

/** A project as it is stored and as the API returns it (§2.1). */
export interface Project {
  id: string
  name: string
  description: string
  /** The target: an absolute directory on the server. */
  deployPath: string
  token: string
  preDeployScript: string
  postDeployScript: string
  /** Whether the post-deploy script runs in the background. */
  postDeployAsync: boolean
  /** Whether clients may send scripts. Null follows the setting allow_client_scripts. */
  allowClientScripts: boolean | null
  /** Names, or PREFIX_*, of client variables that scripts get even if client scripts are not allowed. */
  allowedEnv: string[]
  /** The user whose permissions apply to scripts and to writing the target. Null means the user of svc. */
  runAs: string | null
  /** File mode creation mask in octal. Null means the mask of svc. */
  umask: string | null
  /** Maximum duration of a script in seconds. Null follows the setting script_timeout. */
  scriptTimeoutSeconds: number | null
  /** `sh`, `bash` or the absolute path of a shell. Null means `sh`. */
  scriptShell: string | null
  /** Working directory of the scripts, relative to the target. Null means the target. */
  scriptDirectory: string | null
  /** Maximum size of the kept archives and outputs in MB. Null means no limit. */
  maxDiskMb: number | null
  /** How deployments treat the target, and when they are a success. Absent keys have their default. */
  policy: PolicyChanges
  env: string
  categoryId: string | null
  /** Name of the PM2 application of the project. */
  pm2AppName: string | null
  pinned: boolean
  tagIds: string[]
  /** The status of the last deployment, or `idle` if there was none. */
  status: ProjectStatus
  lastDeployAt: Instant | null
  createdAt: Instant
  updatedAt: Instant
}

/** The environment of a project that does not name one. */
export const defaultEnv = 'production'

/** The type of the column of a field. */
type ColumnOf<V> = [V] extends [ProjectStatus]
  ? 'status'
  : [V] extends [boolean]
    ? 'flag'
    : [V] extends [string]
      ? 'text'
      : [V] extends [boolean | null]
        ? 'flag?'
        : [V] extends [number | null]
          ? 'number?'
          : [V] extends [string | null]
            ? 'text?'
            : [V] extends [string[]]
              ? 'texts'
              : 'policy'

/** A field that only the server sets. */
interface OwnRow<V> {
  column: ColumnOf<V>
  readers: Readers<NonNullable<V>>
}

/** A field that a client can set; `project-fields.ts` has its rule. */
interface WritableRow<V> extends OwnRow<V> {
  /** Its value in a project that does not give it. */
  usual: V
  /** Whether a change of it decides what runs, where, as whom, or what a deploy token may do. */
  decides: boolean
  /** Whether deployments on a node use it: it is sent as it is in the record of the hub. */
  onNodes?: true
  /**
   * Whether an import shows it by its name, because it says what runs and where. A text begins the line of a command that
   * shows it.
   */
  shown?: true | string
}

type WritableFields = Omit<Project, 'id' | 'token' | 'status' | 'lastDeployAt' | 'createdAt' | 'updatedAt'>

/** The declaration of the fields, in the order in which they are shown. */
const rows = {
  id: { column: 'text', readers: 'everybody' },
  name: { column: 'text', readers: 'everybody', usual: '', decides: false, shown: true },
  description: { column: 'text', readers: 'everybody', usual: '', decides: false, onNodes: true },
  deployPath: { column: 'text', readers: 'everybody', usual: '', decides: true, shown: true },
  token: { column: 'text', readers: 'admins' },
  preDeployScript: { column: 'text', readers: 'scripts', usual: '', decides: true, onNodes: true, shown: true },
  postDeployScript: { column: 'text', readers: 'scripts', usual: '', decides: true, onNodes: true, shown: true },
  postDeployAsync: { column: 'flag', readers: 'everybody', usual: false, decides: true, onNodes: true, shown: true },
  allowClientScripts: { column: 'flag?', readers: 'everybody', usual: null, decides: true, shown: true },
  allowedEnv: {
    column: 'texts',
    readers: { items: 'everybody' },
    usual: [],
    decides: true,
    onNodes: true,
    shown: true
  },
  runAs: { column: 'text?', readers: 'everybody', usual: null, decides: true, onNodes: true, shown: true },
  umask: { column: 'text?', readers: 'everybody', usual: null, decides: true, onNodes: true },
  scriptTimeoutSeconds: { column: 'number?', readers: 'everybody', usual: null, decides: false, onNodes: true },
  scriptShell: {
    column: 'text?',
    readers: 'everybody',
    usual: null,
    decides: true,
    onNodes: true,
    shown: 'runs its scripts with'
  },
  scriptDirectory: {
    column: 'text?',
    readers: 'everybody',
    usual: null,
    decides: true,
    onNodes: true,
    shown: 'runs its scripts in'
  },
  maxDiskMb: { column: 'number?', readers: 'everybody', usual: null, decides: false },
  policy: { column: 'policy', readers: policyReaders, usual: {}, decides: true },
  env: { column: 'text', readers: 'everybody', usual: defaultEnv, decides: false },
  categoryId: { column: 'text?', readers: 'everybody', usual: null, decides: false },
  pm2AppName: { column: 'text?', readers: 'everybody', usual: null, decides: true, onNodes: true },
  pinned: { column: 'flag', readers: 'everybody', usual: false, decides: false },
  tagIds: { column: 'texts', readers: { items: 'everybody' }, usual: [], decides: false },
  status: { column: 'status', readers: 'everybody' },
  lastDeployAt: { column: 'text?', readers: 'everybody' },
  createdAt: { column: 'text', readers: 'everybody' },
  updatedAt: { column: 'text', readers: 'everybody' }
} satisfies {
  [Key in keyof Project]: Key extends keyof WritableFields ? WritableRow<Project[Key]> : OwnRow<Project[Key]>
}

type Rows = typeof rows
/** The fields whose row has this. */
type FieldsWith<What extends object> = { [Key in keyof Rows]: Rows[Key] extends What ? Key : never }[keyof Rows]

const allRows = Object.entries(rows) as Array<[keyof Project, OwnRow<unknown> & Partial<WritableRow<unknown>>]>

function fieldsWith<What extends object>(has: (row: Partial<WritableRow<unknown>>) => boolean) {
  return allRows.filter(([, row]) => has(row)).map(([key]) => key) as Array<FieldsWith<What>>
}

function ofEach<T>(of: (row: OwnRow<unknown>) => unknown): T {
  return Object.fromEntries(allRows.map(([key, row]) => [key, of(row)])) as T
}

/** Who reads the fields of a project. */
export const projectReaders: Readers<Project> = { fields: ofEach(({ readers }) => readers) }

/** The types of the columns of a project. */
export const projectColumns = ofEach<{ [Key in keyof Rows]: Rows[Key]['column'] }>(({ column }) => column)

/** The settings of a project that its deployments on a node use, as they are in the record of the hub. */
export const nodeSettings = fieldsWith<{ onNodes: true }>(({ onNodes }) => onNodes === true)

/** Fields of an imported project that are shown by their names, because they say what runs and where. */
export const shownFields = ['id' as const, ...fieldsWith<{ shown: unknown }>(({ shown }) => shown !== undefined)]

/** Those with a line of their own in the output of a command, and how the line begins. */
export const shownLines = allRows.flatMap(([key, { shown }]) =>
  typeof shown === 'string' ? [[key as FieldsWith<{ shown: string }>, shown] as const] : []
)

/**
 * A project as a caller sees it: null hides the deploy token from those below admin, and scripts from some of them.
 * @schema Project
 */
export type ShownProject = Omit<Project, 'token' | 'preDeployScript' | 'postDeployScript'> & {
  /** The deploy token of the project, a secret. Null for callers below admin. */
  token: string | null
  /**
   * Script to run before extraction. Empty means none, null that the caller may not see it. It replaces the script of a
   * client.
   */
  preDeployScript: string | null
  /**
   * Script to run after extraction. Empty means none, null that the caller may not see it. It replaces the script of a
   * client.
   */
  postDeployScript: string | null
}

/** Maximum of `maxDiskMb`: a hundred terabytes. */
export const maxDiskMbLimit = 100_000_000

/** The scripts of a project's last successful deployment that ran any, to copy them into the project with one click. */
export interface RecentScripts {
  /** The deployment that ran the scripts, or null. */
  deployId: string | null
  preDeployScript: string
  postDeployScript: string
}

/**
 * The fields of a project that a client can set. Undefined keeps the current value or the default. `policy` replaces the keys
 * that are present, null restores the default of a key. An empty `pm2AppName` removes the binding (§2.1), and `tagIds`
 * replaces all tags (§4.3).
 */
export type ProjectFields = {
  [Key in keyof WritableFields]?: (Key extends 'policy' ? GivenPolicy : WritableFields[Key]) | undefined
}

/** The fields of a new project. */
export type NewProject = ProjectFields & { name: string; deployPath: string }

/** Returns what two names have in common that mean one project: commands find it by its name, whatever the case. */
export function nameKey(name: string): string {
  return name.normalize('NFC').toLowerCase()
}

/** Whether two projects have one name. */
export function isSameName(a: string, b: string): boolean {
  return nameKey(a) === nameKey(b)
}

/** Returns the names that several projects have, as earlier versions allowed, each with the ids of these projects. */
export function sharedNames(
  projects: ReadonlyArray<Pick<Project, 'id' | 'name'>>
): Array<{ name: string; ids: string[] }> {
  const found = new Map<string, { name: string; ids: string[] }>()
  for (const { id, name } of projects) {
    const same = found.get(nameKey(name))
    if (same === undefined) found.set(nameKey(name), { name, ids: [id] })
    else same.ids.push(id)
  }
  return [...found.values()].filter(({ ids }) => ids.length > 1)
}

/** Returns a new project: fields that are not given have their defaults. */
export function newProject(fields: NewProject, { id, token, at }: { id: string; token: string; at: string }): Project {
  const given = allRows.map(([key, { usual }]) => [key, fields[key as keyof ProjectFields] ?? structuredClone(usual)])
  return {
    ...(Object.fromEntries(given) as WritableFields),
    id,
    token,
    policy: changePolicy({}, fields.policy ?? {}),
    env: fields.env || defaultEnv,
    status: 'idle',
    lastDeployAt: null,
    createdAt: at,
    updatedAt: at
  }
}

/** The colours of categories and tags (§2.6). */
export const labelColors = ['blue', 'green', 'yellow', 'purple', 'pink', 'cyan', 'gray'] as const
/** The colour of a label. */
export type LabelColor = (typeof labelColors)[number]

/** A category (a project has at most one) or a tag (a project may have many): the same record (§2.6). @schema Label */
export interface Label {
  id: string
  name: string
  color: LabelColor
  /** Position in lists: smaller numbers come first. */
  sortOrder: number
  /** Number of projects with this label. */
  projectCount: number
  createdAt: Instant
  updatedAt: Instant
}

/** Whether a label is a category or a tag. */
export type LabelKind = 'category' | 'tag'

/*
 * The rules of a project's script settings: shell, working directory, time limit. Whether the shell and the directory
 * exist is only checked when a script begins.
 */

/** Maximum time limit of a script in seconds: a day, like the setting `script_timeout`. */
export const maxScriptTimeoutSeconds = 86_400
/** Maximum length of a path in characters. */
const maxLength = 4096

/** Returns why this cannot be a project's shell, as the end of a sentence; null if it can. */
export function scriptShellFault(shell: string): string | null {
  if (shell.length > maxLength) return `is longer than ${maxLength} characters`
  if (unprintableIn(shell) !== null) return 'contains an invisible character'
  if (shell === 'sh' || shell === 'bash' || (isAbsolute(shell) && !/[\\/]$/.test(shell))) return null
  return 'is neither "sh", "bash" nor the absolute path of a program'
}

/** Returns why this cannot be a project's working directory, as the end of a sentence; null if it can. */
export function scriptDirectoryFault(directory: string): string | null {
  if (directory.length > maxLength) return `is longer than ${maxLength} characters`
  if (unprintableIn(directory) !== null) return 'contains an invisible character'
  if (isAbsolute(directory) || /^[\\/]/.test(directory)) return 'is not relative to the target'
  if (directory.split(/[\\/]/).includes('..')) return 'leaves the target'
  return null
}

/** Returns a working directory as it is stored: without `.` and doubled separators; null for the target itself. */
export function normalDirectory(directory: string): string | null {
  return (
    directory
      .split(/[\\/]/)
      .filter(name => name !== '' && name !== '.')
      .join('/') || null
  )
}

/** A directory or file of the server's file system that can be chosen in the panel (decisions §10). */
export interface PlaceEntry {
  name: string
  /** An absolute path. */
  path: string
  isDir: boolean
  isSymlink: boolean
  isHidden: boolean
}

/** The entries of a directory. */
export interface PlaceListing {
  path: string
  /** The parent directory. Null for a root. */
  parent: string | null
  exists: boolean
  isDir: boolean
  /** Whether the directory has more entries than listed. */
  truncated: boolean
  /** Directories first, then sorted by name. */
  entries: PlaceEntry[]
}

/** The directories where choosing may begin. */
export interface PlaceHome {
  /** The home directory of the user that svc runs as. */
  home: string
  /** The working directory of the server. */
  cwd: string
  /** The path separator. */
  sep: string
  /** The roots of the file systems. */
  roots: string[]
}

/** The kinds of entries that a listing can be limited to. */
export const inclusions = ['dirs', 'files', 'both'] as const
/** Whether a listing includes directories, files, or both. */
export type Inclusion = (typeof inclusions)[number]

/*
 * Which requests store or run a command. A browser that was left open must not be enough for them (access/second-factor.ts).
 */

const decidingFields = fieldsWith<{ decides: true }>(({ decides }) => decides === true)

/** Whether a change of a project decides what runs. A field with the value that it has already changes nothing. */
export function changesCommands(project: Project, given: { [Key in keyof WritableFields]?: unknown }): boolean {
  return decidingFields.some(key => {
    const value = given[key]
    if (value === undefined) return false
    if (key === 'policy') return !keepsPolicy(project, value as object)
    return JSON.stringify(value) !== JSON.stringify(project[key])
  })
}

function keepsPolicy(project: Project, given: object): boolean {
  const now: Record<string, unknown> = { ...policyOf(project) }
  const usual: Record<string, unknown> = { ...defaultPolicy }
  return Object.entries(given).every(
    ([key, value]) => value === undefined || JSON.stringify(value ?? usual[key]) === JSON.stringify(now[key])
  )
}

const maxNamesShown = 10

/** Returns the projects that have no user of their own: a push of a script to one runs commands with the rights of svc. */
export function withoutUser<P extends { runAs: string | null }>(projects: readonly P[]): P[] {
  return projects.filter(({ runAs }) => runAs === null)
}

/** Returns the names of projects for a sentence, and the number of those that are not named: `"a", "b", and 3 more`. */
export function namesOf(projects: ReadonlyArray<{ name: string }>): string {
  const shown = projects.slice(0, maxNamesShown).map(({ name }) => `"${oneLine(name)}"`)
  const more = projects.length - shown.length
  return `${shown.join(', ')}${more > 0 ? `, and ${more} more` : ''}`
}

/** Returns the warning of a server that can give each project a user, or null if each has one. */
export function warningOfUsers(projects: ReadonlyArray<{ name: string; runAs: string | null }>): string | null {
  const without = withoutUser(projects)
  if (without.length === 0) return null
  return (
    `Deployments of these projects run commands as root, because they have no user of their own: ${namesOf(without)}. ` +
    'Set one with "svc projects set <project> --run-as <user>", and create new ones with "svc projects create --user"'
  )
}

/** The actions that can be applied to many projects at once (decisions §10). */
export const bulkActions = ['delete', 'setCategory', 'addTags', 'removeTags', 'setClientScripts'] as const

/** Maximum number of projects of one request. */
export const maxBulk = 200

/** An action and its parameters. */
export interface BulkAction {
  action: (typeof bulkActions)[number]
  /** The category for `setCategory`; null for the default one. */
  categoryId: string | null
  /** The tags for `addTags` and `removeTags`. */
  tagIds?: string[] | undefined
  /** For `setClientScripts`; null for the setting of the server. */
  allowClientScripts?: boolean | null | undefined
}

/**
 * The result of a bulk action: how many projects it was applied to, and the projects that refused it, with the reason.
 */
export interface BulkOutcome {
  done: number
  failed: Array<{ id: string; error: string }>
}
