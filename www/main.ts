import { setBase } from './dom/address.js'
import { createClient, createConnection } from './server/client.js'
import { pauseMs } from './server/requests.js'
import { SvcApp, SvcNotices } from './elements/base/svc-app.js'
import type { Overlays } from './overlays.js'
import { type ElementTable, LostPage, Page, type PageContext } from './pages/page.js'
import { pageTable, wordsOf, type PageRow, pathBelow, type Place, startRouter } from './router.js'
import { createMarks, createChanges } from './state/resource.js'
import {
  type Holder,
  isRole,
  learnFleet,
  lookAtNode,
  decides,
  mayOpen,
  setHolder,
  createPreferences,
  createSession,
  type SessionEvent
} from './state/session.js'
import type { NodeSite } from './node-site.js'
import { addWords, language, setLanguage, type Words } from './words/t.js'

/*
 * The only module of the panel with side effects: it registers the elements, creates the shared services, and shows the
 * page of the address.
 */

function define(elements: ElementTable): void {
  for (const [tag, element] of Object.entries(elements)) {
    if (customElements.get(tag) === undefined) customElements.define(tag, element)
  }
}

/** Loads the words of a page, or of the frame, if the language needs them. */
async function loadWords(name: string): Promise<void> {
  if (language() === 'en') return
  const { words }: { words: Words } = await import(`./words/${language()}/${wordsOf(name)}.js`)
  addWords(words)
}

const rows: PageRow[] = pageTable.map(({ path, room, module, load, isOfNode = false }) => ({
  path,
  room,
  isOfNode,
  tag: `svc-page-${module}`,
  load: async () => {
    const [{ elements }] = await Promise.all([load(), loadWords(module)])
    define(elements)
  }
}))
const loginTag = 'svc-page-login'

const base = document.baseURI
const preferences = createPreferences({ base, storage: localStorage, wanted: navigator.languages })
setLanguage(preferences.language)
document.documentElement.lang = preferences.language
document.documentElement.dataset['theme'] = preferences.theme
await loadWords('frame').catch(console.warn)

define({ 'svc-app': SvcApp, 'svc-notices': SvcNotices, 'svc-page-lost': LostPage })

const session = createSession({ base, tab: sessionStorage, browser: localStorage })
const connection = createConnection()
const client = createClient({ base, session, connection, prove: () => prove() })
const app = document.createElement('svc-app') as SvcApp
document.body.append(app)

const changes = createChanges({
  ask: () => client.call('GET /api/changes'),
  isActive: () => !document.hidden && session.id !== null && connection.state === 'open',
  intervalMs: 5000
})
document.addEventListener('visibilitychange', changes.look)

const context: PageContext = {
  client,
  session,
  preferences,
  connection,
  changes,
  marks: createMarks({ ask: () => client.call('GET /api/marks'), changes }),
  go: (path, options) => router.go(path, options),
  guard: guard => void (router.guard = guard),
  readings: [],
  define
}

let proving: Promise<boolean> | undefined

/** Asks the user for the token again. Requests at the same time share one dialog, which is loaded when it is needed. */
function prove(): Promise<boolean> {
  return (proving ??= import('./elements/access/svc-proof.js')
    .then(({ askProof }) => askProof({ app, context }))
    .catch(cause => {
      console.warn(cause)
      return false
    })
    .finally(() => (proving = undefined)))
}

let overlays: Overlays | undefined
let loadingOverlays: Promise<Overlays> | undefined

/** Loads the overlays when they are first needed. The first screen does not need them. */
function withOverlays(use: (overlays: Overlays) => void): void {
  if (overlays !== undefined) return use(overlays)
  loadingOverlays ??= import('./overlays.js').then(({ createOverlays }) => {
    return (overlays = createOverlays({ app, context, preferences }))
  })
  loadingOverlays.then(use, cause => {
    loadingOverlays = undefined
    console.warn(cause)
  })
}

/** Starts the notices of finished deployments and the witness of the audit log. Their modules are loaded later. */
function watchServer(): void {
  setTimeout(() => {
    import('./watch.js').then(module => module.watchEnded({ app, context }), console.warn)
    import('./watch.js').then(module => module.watchAudit({ app, context }), console.warn)
    if (session.id !== null) void askFleet().catch(console.warn)
  }, 15_000)
}

/** Timeout of a request that checks the connection. Networks may drop requests silently. */
const findAgainMs = 10_000

/** Sends requests until there is any answer, which restores the connection. */
async function findAgain(): Promise<void> {
  for (let attempt = 0; connection.state === 'lost'; attempt++) {
    await new Promise(resolve => setTimeout(resolve, pauseMs(attempt, Math.random)))
    await context.client
      .call('GET /api/health', { alsoGood: 503, signal: AbortSignal.timeout(findAgainMs) })
      .catch(() => {})
  }
}

/** The answer of `GET /api/auth/session`. */
type Self = Omit<Holder, 'hasFleet'> & { csrf: string | null; fleet?: boolean }

/** Asks whether the server has a fleet by now. The answer of the sign-in may be old. */
async function askFleet(): Promise<void> {
  const { fleet = false } = await client.ask<Self>('GET', 'api/auth/session')
  if (learnFleet(fleet, session)) app.update()
}

/** Learns what the signed-in token may do. The server is asked once for each session. */
async function learnRights(): Promise<void> {
  if (session.id !== null && session.holder === null) {
    const answer = await client.ask<Self>('GET', 'api/auth/session')
    const { role, name, token = null, projects = null, fleet = false } = answer
    session.csrf ??= answer.csrf
    session.holder = { role: isRole(role) ? role : 'viewer', name, token, projects, hasFleet: fleet }
  }
  setHolder(session.holder)
  if (session.holder !== null) followWaiting()
}

let isFollowing = false
const titleMs = 2500

/** Says in the title of the tab how much waits for the signed-in user. */
function followWaiting(): void {
  if (isFollowing) return
  isFollowing = true
  const count = (): void => void (app.waitingCount = context.marks.waiting.filter(decides).length)
  context.marks.hear(count, new AbortController().signal)
  // The first screen comes first.
  setTimeout(() => context.marks.follow(() => {}, new AbortController().signal), titleMs)
}

/** Loads the page for addresses that the signed-in token may not open. Returns its tag. */
async function loadDenied(): Promise<string> {
  const { elements } = await import('./pages/denied.js')
  define(elements)
  return 'svc-page-denied'
}

let newest = 0
let shownKey = ''

const sites = new Map<string, NodeSite>()

/** Returns the node whose pages a place shows, after asking for it; null: the place is one of this server. */
async function loadSite(place: Place | null): Promise<NodeSite | null> {
  const id = place?.params['node']
  if (id === undefined || place?.row.isOfNode !== true || session.id === null) return null
  const [{ createNodeSite }] = await Promise.all([import('./node-site.js'), loadWords('node')])
  const known = sites.get(id)
  const site =
    known ?? createNodeSite({ context, id, onTurn: () => void (app.node === site.frame && show(router.place)) })
  sites.set(id, site)
  await site.look()
  return site
}

/** Makes the pages that follow those of a node, or of this server again: their links, and what they offer. */
function turnTo(site: NodeSite | null): void {
  for (const other of sites.values()) if (other !== site) other.leave()
  const address = site === null ? base : site.context.client.address(site.base)
  setBase(address)
  lookAtNode(site !== null)
  app.node = site?.frame ?? null
}

/** Shows the page of a place. The page stays if only its query or tab changes. */
async function show(place: Place | null): Promise<void> {
  const mine = ++newest
  if (place !== null && (session.id === null) !== (place.row.tag === loginTag)) return redirect(place)
  let tag = place?.row.tag ?? 'svc-page-lost'
  let site: NodeSite | null = null
  try {
    ;[site] = await Promise.all([loadSite(place), learnRights(), place?.row.load()])
    if (place !== null && !mayOpen(place.row.path)) tag = await loadDenied()
    else if (site?.isAway === true) tag = 'svc-page-node-away'
  } catch (cause) {
    // The module cannot be loaded: the server is unreachable or was updated.
    if (mine !== newest || (session.id === null && tag !== loginTag)) return
    console.warn(cause)
    turnTo(null)
    return showPage(Object.assign(document.createElement('svc-page-lost') as LostPage, { isUnloadable: true }), '')
  }
  if (mine !== newest) return
  turnTo(site)
  if (place !== null) site?.arrive(place)
  const key = JSON.stringify([tag, place?.params])
  if (key === shownKey && place !== null && app.page instanceof Page) {
    app.page.place = place
    return
  }
  const page = document.createElement(tag)
  if (place !== null) Object.assign(page, { context: site?.context ?? context, place })
  shownKey = key
  showPage(page, place === null ? '' : place.row.room)
}

function showPage(page: HTMLElement, room: string | null): void {
  if (room === '') shownKey = ''
  app.page = page
  app.room = room
}

/** Redirects to the login without a session, and away from it with one. */
function redirect(place: Place): void {
  if (place.row.tag === loginTag) {
    const to = pathBelow(base, new URL(place.query.get('to') ?? '', base).href)
    return router.go(to === null ? '' : `${to.path}${to.search}`, { isReplacing: true })
  }
  goToLogin(null)
}

function goToLogin(reason: 'expired' | null): void {
  const here = pathBelow(base, location.href)
  const query = new URLSearchParams()
  const to = `${here?.path ?? ''}${here?.search ?? ''}`
  if (to !== '') query.set('to', to)
  if (reason !== null) query.set('reason', reason)
  router.go(`login${query.size === 0 ? '' : `?${query}`}`, { isReplacing: true })
}

connection.addEventListener('change', () => {
  app.answeredAtMs = connection.answeredAtMs
  app.connection = connection.state
  if (connection.state === 'lost') void findAgain()
})
connection.addEventListener('stale', () => (app.staleSeconds = connection.staleSeconds))
addEventListener('offline', () => connection.set('lost'))
app.addEventListener('overlay', event => withOverlays(({ lay }) => lay(event.overlay)))
addEventListener('keydown', event => {
  if (event.defaultPrevented) return
  // Prevent the browser's own Ctrl-K at once, before the module is loaded.
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') event.preventDefault()
  withOverlays(({ press }) => press(event))
})
watchServer()
// Another tab has signed in or out.
addEventListener('storage', event => session.heard(event))
session.addEventListener('session', event => {
  const { reason } = event as SessionEvent
  context.marks.forget()
  if (reason === null && router.place?.row.tag === loginTag) redirect(router.place)
  else if (reason === 'signed_out') router.go('login')
  else if (router.place?.row.tag !== loginTag) goToLogin('expired')
})

const router = startRouter({ rows, base, onPlace: place => queueMicrotask(() => void show(place)) })
