import { panelAddress } from './dom/address.js'
import type { IconName } from './dom/html.js'
import { hasFleet, lackOf, mayOpen } from './state/session.js'

/*
 * The table of pages (address, room, module), the routing by it, and the rooms. The server lists the modules of the
 * requested page in index.html by the same table (lib/server/table.ts), so loading this file touches no document.
 */

/** A module that exports elements by tag. */
type PageModule = { elements: Readonly<Record<string, CustomElementConstructor>> }

/** One row of the table. */
export interface PageEntry {
  /** Path below the base; `:name` is a parameter. */
  path: string
  /** Address of the room, or null for a page without a frame. */
  room: string | null
  /** Whether the page is one of the node that the parameter `node` names, shown through this server. */
  isOfNode?: boolean
  /** Name of the module in `pages/`. */
  module: string
  load: () => Promise<PageModule>
}

export const pageTable: readonly PageEntry[] = [
  { path: '', room: '.', module: 'overview', load: () => import('./pages/overview.js') },
  { path: 'login', room: null, module: 'login', load: () => import('./pages/login.js') },
  { path: 'projects', room: 'projects', module: 'projects', load: () => import('./pages/projects.js') },
  { path: 'projects/:id', room: 'projects', module: 'project', load: () => import('./pages/project.js') },
  { path: 'projects/:id/files', room: 'projects', module: 'project', load: () => import('./pages/project.js') },
  { path: 'projects/:id/settings', room: 'projects', module: 'project', load: () => import('./pages/project.js') },
  { path: 'projects/:id/nodes', room: 'projects', module: 'project', load: () => import('./pages/project.js') },
  {
    path: 'projects/:id/logs',
    room: 'projects',
    module: 'project-logs',
    load: () => import('./pages/project-logs.js')
  },
  {
    path: 'projects/:id/logs/:sourceId',
    room: 'projects',
    module: 'project-logs',
    load: () => import('./pages/project-logs.js')
  },
  { path: 'logs', room: 'logs', module: 'logs', load: () => import('./pages/logs.js') },
  { path: 'deployments', room: 'deployments', module: 'deployments', load: () => import('./pages/deployments.js') },
  { path: 'deployments/:id', room: 'deployments', module: 'deployment', load: () => import('./pages/deployment.js') },
  { path: 'terminal', room: 'terminal', module: 'terminal', load: () => import('./pages/terminal.js') },
  { path: 'system', room: 'system', module: 'system', load: () => import('./pages/system.js') },
  { path: 'storage', room: 'system', module: 'storage', load: () => import('./pages/storage.js') },
  { path: 'audit', room: 'system', module: 'audit', load: () => import('./pages/audit.js') },
  { path: 'settings', room: 'settings', module: 'settings', load: () => import('./pages/settings.js') },
  { path: 'access', room: 'settings', module: 'access', load: () => import('./pages/access.js') },
  { path: 'labels', room: 'settings', module: 'labels', load: () => import('./pages/labels.js') },
  { path: 'migration', room: 'settings', module: 'migration', load: () => import('./pages/migration.js') },
  { path: 'nodes', room: 'nodes', module: 'nodes', load: () => import('./pages/nodes.js') },
  { path: 'nodes/:node', room: 'nodes', module: 'node', load: () => import('./pages/node.js') },
  { path: 'rollouts', room: 'nodes', module: 'rollouts', load: () => import('./pages/rollouts.js') },
  { path: 'rollouts/:id', room: 'nodes', module: 'rollout', load: () => import('./pages/rollout.js') },
  ofNode('projects', 'projects', () => import('./pages/projects.js')),
  ofNode('projects/:id', 'project', () => import('./pages/project.js')),
  ofNode('projects/:id/files', 'project', () => import('./pages/project.js')),
  ofNode('projects/:id/logs', 'project-logs', () => import('./pages/project-logs.js')),
  ofNode('projects/:id/logs/:sourceId', 'project-logs', () => import('./pages/project-logs.js')),
  ofNode('logs', 'logs', () => import('./pages/logs.js')),
  ofNode('deployments', 'deployments', () => import('./pages/deployments.js')),
  ofNode('deployments/:id', 'deployment', () => import('./pages/deployment.js')),
  ofNode('terminal', 'terminal', () => import('./pages/terminal.js')),
  ofNode('system', 'system', () => import('./pages/system.js'))
]

/** Pages whose words are in the table of another one, or in that of the frame. */
const sharedWords: Readonly<Record<string, string>> = {
  denied: 'frame',
  deployment: 'deployments',
  labels: 'settings',
  login: 'frame',
  migration: 'settings',
  node: 'nodes',
  'node-away': 'nodes',
  'project-logs': 'logs',
  rollout: 'nodes',
  rollouts: 'nodes',
  storage: 'system'
}

/** Returns the name of the table in `words/<language>/` with the words of a module of `pages/`. */
export function wordsOf(module: string): string {
  return sharedWords[module] ?? module
}

/** Returns the row of a page that is shown for a node as well, with the contents of the node. */
function ofNode(path: string, module: string, load: PageEntry['load']): PageEntry {
  return { path: `nodes/:node/${path}`, room: 'nodes', isOfNode: true, module, load }
}

/** A page: its path below the base, and how its element is loaded. */
export interface PageRow {
  /** Path with parameters, for example `projects/:id`. */
  path: string
  tag: string
  /** Address of its room, or null for a page without a frame. */
  room: string | null
  /** Whether the page is one of the node that the parameter `node` names, shown through this server. */
  isOfNode?: boolean
  /** Loads and registers the elements of the page. */
  load: () => Promise<void>
}

/** A page with its parameters and query. */
export interface Place {
  row: PageRow
  params: Readonly<Record<string, string>>
  query: URLSearchParams
}

/** Returns the place of a path below the base, or null. Pure. */
export function placeOf(rows: readonly PageRow[], path: string, search: string): Place | null {
  const segments = split(path)
  for (const row of rows) {
    const params = match(split(row.path), segments)
    if (params !== null) return { row, params, query: new URLSearchParams(search) }
  }
  return null
}

const split = (path: string): string[] => path.split('/').filter(segment => segment !== '')

function match(pattern: string[], segments: string[]): Record<string, string> | null {
  if (pattern.length !== segments.length) return null
  const params: Record<string, string> = {}
  for (const [index, expected] of pattern.entries()) {
    const found = segments[index] as string
    if (!expected.startsWith(':')) {
      if (expected !== found) return null
      continue
    }
    try {
      params[expected.slice(1)] = decodeURIComponent(found)
    } catch {
      return null
    }
  }
  return params
}

/** Returns the part of an address below the base, or null if it is outside. `base` ends with a slash. Pure. */
export function pathBelow(base: string, address: string): { path: string; search: string } | null {
  const root = new URL(base)
  const url = new URL(address, base)
  const isRoot = `${url.pathname}/` === root.pathname
  if (url.origin !== root.origin || !(isRoot || url.pathname.startsWith(root.pathname))) return null
  return { path: isRoot ? '' : url.pathname.slice(root.pathname.length), search: url.search }
}

/** Keeps page and address together. */
export interface Router {
  readonly place: Place | null
  /** Goes to an address below the base: `projects/x`, `deployments?status=failed`. */
  go(path: string, options?: { isReplacing?: boolean }): void
  /**
   * Called before another place is shown if unsaved changes would be lost. It calls `leave` if the user agrees.
   */
  guard: ((leave: () => void) => void) | null
}

export interface RouterNeeds {
  rows: readonly PageRow[]
  /** Base of the document, ending with a slash. */
  base: string
  /** Called with each new place, and with null for an unknown address. */
  onPlace: (place: Place | null) => void
}

/** Starts routing: links, back and forward, `go()`. Begins with the current address. */
export function startRouter({ rows, base, onPlace }: RouterNeeds): Router {
  let place: Place | null = null
  let guard: Router['guard'] = null
  let shownAddress = location.href

  const leaving = (leave: () => void): void => {
    if (guard === null) return leave()
    guard(() => {
      guard = null
      leave()
    })
  }
  const show = (): void => {
    shownAddress = location.href
    const below = pathBelow(base, location.href)
    place = below === null ? null : placeOf(rows, below.path, below.search)
    onPlace(place)
  }
  const go: Router['go'] = (path, { isReplacing = false } = {}) =>
    leaving(() => {
      const address = new URL(path, base).href
      if (panelAddress(path, { root: base, base, others: [] }) === null) return onPlace(null)
      if (isReplacing) history.replaceState(null, '', address)
      else history.pushState(null, '', address)
      if (!isReplacing) scrollTo(0, 0)
      show()
    })

  addEventListener('popstate', () => {
    if (guard === null) return show()
    // The browser has already moved: restore the shown address until the user decides.
    history.pushState(null, '', shownAddress)
    leaving(() => history.back())
  })
  document.addEventListener('click', event => {
    const address = addressOf(event)
    if (address === null) return
    const below = pathBelow(base, address)
    if (below === null) return
    event.preventDefault()
    go(`${below.path}${below.search}`)
  })
  show()
  return {
    get place() {
      return place
    },
    get guard() {
      return guard
    },
    set guard(given) {
      guard = given
    },
    go
  }
}

/** Returns the address of a clicked link that this window opens itself, or null to leave the click to the browser. */
function addressOf(event: MouseEvent): string | null {
  const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
  if (!isPlain || event.defaultPrevented) return null
  const link = event.target instanceof Element ? event.target.closest('a[href]') : null
  if (!(link instanceof HTMLAnchorElement) || link.target !== '' || link.hasAttribute('download')) return null
  return link.origin === location.origin && link.hash === '' ? link.href : null
}

/** A room of the frame. `words` is English and a key of t(). */
export interface Room {
  address: string
  words: string
  picture: IconName
  /** Key after `g` that opens the room. */
  key: string
  /** Whether phones show it behind the last button instead of in the bar. */
  isFurther?: boolean
}

export const rooms: readonly Room[] = [
  { address: '.', words: 'Overview', picture: 'overview', key: 'o' },
  { address: 'projects', words: 'Projects', picture: 'projects', key: 'p' },
  { address: 'deployments', words: 'Deployments', picture: 'deployments', key: 'd' },
  { address: 'nodes', words: 'Fleet', picture: 'fleet', key: 'f', isFurther: true },
  { address: 'logs', words: 'Logs', picture: 'logs', key: 'l' },
  { address: 'terminal', words: 'Terminal', picture: 'terminal', key: 't', isFurther: true },
  { address: 'system', words: 'System', picture: 'system', key: 's', isFurther: true },
  { address: 'settings', words: 'Settings', picture: 'settings', key: ',', isFurther: true }
]

/** A screen of a room with several. */
export interface Tab {
  address: string
  words: string
  /** Whether it is only shown on a server without a fleet, to users with the right to begin one. */
  isBeginning?: boolean
}

/** Tabs of the rooms with several screens. */
export const tabs: Readonly<Record<string, readonly Tab[]>> = {
  system: [
    { address: 'system', words: 'Health and resources' },
    { address: 'storage', words: 'Storage' },
    { address: 'audit', words: 'Audit log' },
    { address: 'nodes', words: 'Fleet', isBeginning: true }
  ],
  nodes: [
    { address: 'nodes', words: 'Nodes' },
    { address: 'rollouts', words: 'Rollouts' }
  ],
  settings: [
    { address: 'settings', words: 'Settings' },
    { address: 'access', words: 'Access' },
    { address: 'labels', words: 'Categories and tags' },
    { address: 'migration', words: 'Export and import' }
  ]
}

/** Returns the tabs of a room that the signed-in token may open. */
export function shownTabs(room: string): Tab[] {
  const mayBegin = !hasFleet() && lackOf('enroll') === null
  return (tabs[room] ?? []).filter(({ address, isBeginning = false }) => mayOpen(address) && (!isBeginning || mayBegin))
}

/** Returns the address of the room of the fleet. Without a fleet, its page is a tab of another room. */
export function fleetRoom(): string {
  return hasFleet() ? 'nodes' : 'system'
}

/** Returns the rooms that the signed-in token may open, with the address of the first screen of each. */
export function shownRooms(): Array<Room & { first: string }> {
  return rooms.flatMap(room => {
    if (room.address === 'nodes' && !hasFleet()) return []
    const first = tabs[room.address] === undefined ? room.address : shownTabs(room.address)[0]?.address
    return first === undefined || !mayOpen(first) ? [] : [{ ...room, first }]
  })
}
