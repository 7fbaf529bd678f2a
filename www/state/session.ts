/* The groups of a list of projects. Pure. */
import type { AccessRole } from '../../lib/model/access.js'
import { environmentRank, type WaitingFor } from '../shared/api.js'
import type { Waiting } from '../../lib/model/marks.js'
import type { ShownProject as Project } from '../../lib/model/project.js'

export type Language = 'en' | 'zh'

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
  promote: { role: 'deployer' },
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
  /** Reads all entries of the audit log. Everybody reads those of the own token. */
  audit: { role: 'operator', isOfServer: true },
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

/** The right that each kind of waiting asks for. */
const decidingRights: Readonly<Record<WaitingFor, keyof typeof rightNeeds>> = {
  confirmation: 'decide',
  approval: 'approve_rollouts',
  schedule: 'decide',
  halted: 'manage_rollouts'
}

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

export function hasFleet(): boolean {
  return mine?.hasFleet === true
}

/** Takes note whether the server has a fleet, also for the next page load. Returns whether that was not known. */
export function learnFleet(has: boolean, session: { holder: Holder | null }): boolean {
  if (mine === null || hasFleet() === has) return false
  session.holder = mine = { ...mine, hasFleet: has }
  return true
}

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

/** Returns whether the signed-in token decides what waits. */
export function decides({ for: reason, tokenId, approval }: Pick<Waiting, 'for' | 'tokenId' | 'approval'>): boolean {
  if (reason === 'schedule') return false
  if (approval !== null) return mayApprove(approval, { tokenId })
  if (lackOf(decidingRights[reason]) !== null) return false
  return reason !== 'confirmation' || isOwnOrMore({ tokenId })
}

/** Returns whether the signed-in token may approve a deployment. The server knows more: who started it without a named token. */
export function mayApprove(
  { roles, notPusher }: NonNullable<Waiting['approval']>,
  { tokenId }: { tokenId?: string | null }
): boolean {
  const holder = mine
  if (holder === null || isOnNode || !roles.some(role => ranks[holder.role] >= ranks[role])) return false
  return !notPusher || tokenId == null || holder.token?.id !== tokenId
}

/** Whether a deployment is one of the signed-in token, which is enough for a deployer, or its role is higher. */
function isOwnOrMore({ tokenId }: { tokenId?: string | null }): boolean {
  return mine?.role !== 'deployer' || (mine.token !== null && mine.token.id === tokenId)
}

/** Returns whether the signed-in token may cancel, confirm or revert a deployment. */
export function mayDecide(deployment: { tokenId?: string | null }): boolean {
  return may('decide') && isOwnOrMore(deployment)
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

/** What the list of projects can be grouped by. */
export const groupings = ['none', 'env', 'category'] as const
export type Grouping = (typeof groupings)[number]

/** Projects under a heading. */
export interface ProjectGroup {
  /** The environment, or the id of the category; null: without a category, or not grouped. */
  key: string | null
  projects: readonly Project[]
}

/**
 * Groups projects without changing their order inside a group. Environments are sorted like broken projects: production
 * first, the same rank by name. Categories are in the order of `categories`, and projects without one come last.
 */
export function groupsOf(
  projects: readonly Project[],
  grouping: Grouping,
  categories: readonly string[]
): ProjectGroup[] {
  if (grouping === 'none') return [{ key: null, projects }]
  const groups = new Map<string | null, Project[]>()
  for (const project of projects) {
    const key = grouping === 'env' ? project.env : (categories.find(id => id === project.categoryId) ?? null)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [project])
    else group.push(project)
  }
  const rank = (env: string | null): number => environmentRank(env ?? '')
  const environments = [...groups.keys()].sort().sort((a, b) => rank(b) - rank(a))
  const keys = grouping === 'env' ? environments : [...categories, null]
  return keys.flatMap(key => ({ key, projects: groups.get(key) ?? [] })).filter(group => group.projects.length > 0)
}

export type EndReason = 'signed_out' | 'expired'

/** Announces that the session began (`reason` is null) or ended. */
export class SessionEvent extends Event {
  constructor(readonly reason: EndReason | null) {
    super('session')
  }
}

/** The session in the answer of a sign-in (`POST /api/auth/login`). */
export interface BegunSession {
  id: string
  csrf: string
}

/** The session of this browser. */
export interface Session extends EventTarget {
  /** Id of the session, which is no secret; null if nobody is signed in. */
  readonly id: string | null
  /** Token against cross-site requests that changes need; null before the server was asked. Never stored. */
  csrf: string | null
  /** The token that the session began with; null before the server was asked. It stays the same until the end. */
  holder: Holder | null
  begin(session: BegunSession): void
  end(reason: EndReason): void
  /** Takes the `storage` event of another tab that signed in or out. */
  heard(event: Pick<StorageEvent, 'key' | 'newValue'>): void
}

/** A storage of the browser, or a replacement in tests. */
export interface TokenStorage {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
}

/**
 * Creates the session. It is a cookie that scripts cannot read, shared by all tabs. The storage of the browser only
 * notes that there is one, which saves a request. The key contains the base, so two servers on one host stay separate.
 * Earlier versions stored the admin token itself, which is removed.
 */
export function createSession(needs: { base: string; tab: TokenStorage; browser: TokenStorage }): Session {
  const { tab, browser } = needs
  const key = `svc.session ${needs.base}`
  const holderKey = `svc.holder ${needs.base}`
  for (const storage of [tab, browser]) storage.removeItem(`svc.token ${needs.base}`)

  class StoredSession extends EventTarget implements Session {
    csrf: string | null = null

    get id(): string | null {
      return browser.getItem(key)
    }

    get holder(): Holder | null {
      return readHolder(browser.getItem(holderKey), this.id)
    }

    set holder(holder: Holder | null) {
      // An answer may arrive after the end of the session.
      if (holder === null || this.id === null) browser.removeItem(holderKey)
      else browser.setItem(holderKey, JSON.stringify({ session: this.id, ...holder }))
    }

    begin({ id, csrf }: BegunSession): void {
      browser.setItem(key, id)
      this.csrf = csrf
      this.dispatchEvent(new SessionEvent(null))
    }

    end(reason: EndReason): void {
      browser.removeItem(key)
      this.holder = null
      this.csrf = null
      this.dispatchEvent(new SessionEvent(reason))
    }

    heard({ key: changed, newValue }: Pick<StorageEvent, 'key' | 'newValue'>): void {
      if (changed !== key && changed !== null) return
      this.csrf = null
      this.dispatchEvent(new SessionEvent(newValue === null ? 'expired' : null))
    }
  }
  return new StoredSession()
}

/** Reads what the storage keeps of a holder, which is of no use for another session. */
function readHolder(text: string | null, id: string | null): Holder | null {
  if (text === null || id === null) return null
  try {
    const { session, ...holder } = JSON.parse(text) as Holder & { session: string }
    return session === id && isRole(holder.role) ? holder : null
  } catch {
    return null
  }
}

/** The color scheme. `system` follows the operating system. */
export type Theme = 'system' | 'light' | 'dark'

export const themes: readonly Theme[] = ['system', 'light', 'dark']
/** All languages with their own names. */
export const languages: ReadonlyArray<{ value: Language; words: string }> = [
  { value: 'en', words: 'English' },
  { value: 'zh', words: '中文' }
]

/** The user's preferences for the panel. */
export interface Preferences {
  theme: Theme
  language: Language
  /** What the list of projects is grouped by. */
  grouping: Grouping
}

/** Creates the preferences, which the browser stores. Nothing is stored until the user chooses something. */
export function createPreferences(needs: {
  base: string
  storage: TokenStorage
  wanted: readonly string[]
}): Preferences {
  const { base, storage, wanted } = needs
  const read = (name: string): string | null => storage.getItem(`svc.${name} ${base}`)
  const write = (name: string, value: string): void => storage.setItem(`svc.${name} ${base}`, value)
  // The browser's list is in order of preference: take the first supported language.
  const first = wanted.map(tag => tag.slice(0, 2).toLowerCase()).find(tag => tag === 'en' || tag === 'zh')

  return {
    get theme() {
      return themes.find(theme => theme === read('theme')) ?? 'system'
    },
    set theme(theme) {
      write('theme', theme)
    },
    get grouping() {
      return groupings.find(grouping => grouping === read('grouping')) ?? 'none'
    },
    set grouping(grouping) {
      write('grouping', grouping)
    },
    get language() {
      return languages.find(({ value }) => value === read('language'))?.value ?? (first === 'zh' ? 'zh' : 'en')
    },
    set language(language) {
      write('language', language)
    }
  }
}
