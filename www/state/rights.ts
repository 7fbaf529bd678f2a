import type { AccessRole } from '../../lib/model/access.js'

/*
 * What the signed-in token may do: the only place of the panel that decides it. The server checks every request all the
 * same. A test compares the table with the server's routes.
 */

interface Need {
  /** The least role. */
  role: AccessRole
  /** Tokens that are limited to projects are refused. */
  isOfServer?: true
}

/** The rights that the panel asks for. */
export const rightNeeds = {
  deploy: { role: 'deployer' },
  /** Cancels, confirms and reverts deployments: a deployer those of its own token, others all. */
  decide: { role: 'deployer' },
  rollback: { role: 'operator' },
  undo: { role: 'operator' },
  repair: { role: 'operator' },
  mark: { role: 'operator' },
  delete_archive: { role: 'admin' },
  lock: { role: 'operator' },
  lock_server: { role: 'operator', isOfServer: true },
  maintain: { role: 'operator' },
  files: { role: 'operator' },
  pm2: { role: 'operator' },
  pm2_apps: { role: 'operator', isOfServer: true },
  change_logs: { role: 'operator' },
  remove_logs: { role: 'admin', isOfServer: true },
  add_logs: { role: 'admin' },
  health: { role: 'viewer', isOfServer: true },
  create_project: { role: 'admin', isOfServer: true },
  change_projects: { role: 'admin', isOfServer: true },
  change_project: { role: 'admin' },
  labels: { role: 'admin', isOfServer: true },
  storage: { role: 'admin', isOfServer: true },
  settings: { role: 'admin', isOfServer: true },
  tokens: { role: 'admin', isOfServer: true },
  export: { role: 'admin', isOfServer: true },
  terminal: { role: 'admin', isOfServer: true },
  /** Halts, resumes and reverts rollouts. */
  manage_rollouts: { role: 'operator' },
  approve_rollouts: { role: 'operator' },
  drain: { role: 'operator', isOfServer: true },
  change_nodes: { role: 'admin', isOfServer: true },
  enroll: { role: 'admin', isOfServer: true },
  place: { role: 'admin' }
} as const satisfies Record<string, Need>

/** The name of a right. */
export type Right = keyof typeof rightNeeds

/** The rights that hold on a node that is looked at through this server, which only passes on what reads. */
const rightsOnNode: ReadonlySet<Right> = new Set(['files', 'pm2', 'pm2_apps', 'health', 'terminal'])

/** The rights that pages need, by their path. The others are open to everybody who is signed in. */
export const pageRights: Readonly<Partial<Record<string, Right>>> = {
  'projects/:id/files': 'files',
  'projects/:id/settings': 'change_project',
  terminal: 'terminal',
  system: 'health',
  storage: 'storage',
  settings: 'settings',
  access: 'tokens',
  labels: 'labels',
  migration: 'export',
  'nodes/:node/projects/:id/files': 'files',
  'nodes/:node/terminal': 'terminal',
  'nodes/:node/system': 'health'
}

/** The token that the session began with. */
export interface Holder {
  role: AccessRole
  /** The actor in the audit log. */
  name: string
  /** The named token; null: the admin token. */
  token: { id: string; name: string } | null
  /** The projects that the token is limited to; null: none. */
  projects: readonly string[] | null
  /** Whether the server has nodes that the token may see, or machines may become nodes. Absent: not known. */
  hasFleet?: boolean
}

const ranks: Readonly<Record<AccessRole, number>> = { viewer: 0, deployer: 1, operator: 2, admin: 3 }
let mine: Holder | null = null
let isOnNode = false

/** Sets whose rights apply; null: nobody is signed in. */
export function setHolder(holder: Holder | null): void {
  mine = holder
}

/** Returns whose rights apply. */
export function holderNow(): Holder | null {
  return mine
}

/** Says whether the page shows a node through this server, and not the server itself. */
export function lookAtNode(isNode: boolean): void {
  isOnNode = isNode
}

/** Returns whether the page shows a node through this server. */
export function isLookingAtNode(): boolean {
  return isOnNode
}

/** Returns whether the server has a fleet. */
export function hasFleet(): boolean {
  return mine?.hasFleet === true
}

/** Takes note whether the server has a fleet, also for the next page load. Returns whether that was not known. */
export function learnFleet(has: boolean, session: { holder: Holder | null }): boolean {
  if (mine === null || hasFleet() === has) return false
  session.holder = mine = { ...mine, hasFleet: has }
  return true
}

/** Returns whether a text is a role. */
export function isRole(text: unknown): text is AccessRole {
  return typeof text === 'string' && Object.hasOwn(ranks, text)
}

/** Returns why the signed-in token does not have a right: its role is too low, or its projects too few. Null: it has it. */
export function lackOf(right: Right): 'role' | 'scope' | null {
  const { role, isOfServer }: Need = rightNeeds[right]
  if (mine === null || ranks[mine.role] < ranks[role]) return 'role'
  return isOfServer === true && mine.projects !== null ? 'scope' : null
}

/** Returns whether the signed-in token has a right on what is shown. */
export function may(right: Right): boolean {
  return lackOf(right) === null && (!isOnNode || rightsOnNode.has(right))
}

/** Returns whether the signed-in token may cancel, confirm or revert a deployment. */
export function mayDecide({ tokenId }: { tokenId?: string | null }): boolean {
  return may('decide') && (mine?.role !== 'deployer' || (mine.token !== null && mine.token.id === tokenId))
}

/**
 * Returns whether the signed-in token may push what is looser than the policy of its project. `isAllowed` is what the policy says about
 * deploy tokens and deployers.
 */
export function mayLoosen(isAllowed: boolean | undefined): boolean {
  return may('deploy') && (mine?.role !== 'deployer' || isAllowed === true)
}

/** Returns whether the signed-in token may open the page at a path of the page table. */
export function mayOpen(path: string): boolean {
  const right = pageRights[path === '.' ? '' : path]
  return right === undefined || lackOf(right) === null
}
