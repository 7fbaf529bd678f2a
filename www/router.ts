import type { IconName } from './dom/html.js'

/** One page: its address below the base, and where its element comes from when it is first shown. */
export interface PageRow {
  /** Segments; `:name` is a parameter: `projects/:id`. */
  path: string
  tag: string
  /** The address of the room it belongs to; null: a page without a frame. */
  room: string | null
  /** Defines the page's elements. */
  load: () => Promise<void>
}

export interface Place {
  row: PageRow
  params: Readonly<Record<string, string>>
  query: URLSearchParams
}

/** The page that an address below the base names; null: none. Pure. */
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

/** The part of an address that is below the base; null: it is outside. Pure; `base` ends with a slash. */
export function pathBelow(base: string, address: string): { path: string; search: string } | null {
  const root = new URL(base)
  const url = new URL(address, base)
  const isRoot = `${url.pathname}/` === root.pathname
  if (url.origin !== root.origin || !(isRoot || url.pathname.startsWith(root.pathname))) return null
  return { path: isRoot ? '' : url.pathname.slice(root.pathname.length), search: url.search }
}

export interface Router {
  readonly place: Place | null
  /** Goes to an address below the base: `projects/x`, `deployments?status=failed`. */
  go(path: string, options?: { isReplacing?: boolean }): void
  /**
   * Where something unsaved would be lost: asked before any other place is shown, it calls `leave` when the reader agrees.
   */
  guard: ((leave: () => void) => void) | null
}

export interface RouterNeeds {
  rows: readonly PageRow[]
  /** The document's base, ending with a slash. */
  base: string
  /** Called with each new place, and with null for an address that names no page. */
  onPlace: (place: Place | null) => void
}

/** Keeps page and address together: links, back and forward, go(). Starts with the address the window has. */
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
  const go: Router['go'] = (path, { isReplacing = false } = {}) => leaving(() => {
    const address = new URL(path, base).href
    if (isReplacing) history.replaceState(null, '', address)
    else history.pushState(null, '', address)
    if (!isReplacing) scrollTo(0, 0)
    show()
  })

  addEventListener('popstate', () => {
    if (guard === null) return show()
    // The browser has gone already: back to where the reader still is, until it is clear.
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

/** The address of a link that this window should open itself; null: leave the click alone. */
function addressOf(event: MouseEvent): string | null {
  const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
  if (!isPlain || event.defaultPrevented) return null
  const link = event.target instanceof Element ? event.target.closest('a[href]') : null
  if (!(link instanceof HTMLAnchorElement) || link.target !== '' || link.hasAttribute('download')) return null
  return link.origin === location.origin && link.hash === '' ? link.href : null
}

/** A place of the frame. `words` is English, and said by t(). */
export interface Room {
  address: string
  words: string
  picture: IconName
  /** Pressed after `g`, it leads there. */
  key: string
  /** Not at the bottom of a phone, but behind its last button. */
  isFurther?: boolean
}

export const rooms: readonly Room[] = [
  { address: '.', words: 'Overview', picture: 'overview', key: 'o' },
  { address: 'projects', words: 'Projects', picture: 'projects', key: 'p' },
  { address: 'deployments', words: 'Deployments', picture: 'deployments', key: 'd' },
  { address: 'logs', words: 'Logs', picture: 'logs', key: 'l' },
  { address: 'terminal', words: 'Terminal', picture: 'terminal', key: 't', isFurther: true },
  { address: 'system', words: 'System', picture: 'system', key: 's', isFurther: true },
  { address: 'settings', words: 'Settings', picture: 'settings', key: ',', isFurther: true }
]

/** The screens of a room that has several, as its tabs. */
export const tabs: Readonly<Record<string, ReadonlyArray<{ address: string; words: string }>>> = {
  system: [
    { address: 'system', words: 'Health and resources' },
    { address: 'storage', words: 'Storage' },
    { address: 'audit', words: 'Audit log' }
  ],
  settings: [
    { address: 'settings', words: 'Settings' },
    { address: 'labels', words: 'Categories and tags' },
    { address: 'migration', words: 'Export and import' }
  ]
}
