import { existsSync } from 'node:fs'
import { rmdir } from 'node:fs/promises'
import { openAdminToken, weaknessOf } from '../auth/admin-token.js'
import type { AdminToken } from '../auth/admin-token.js'
import { finishRestore } from '../backup/place.js'
import { createSteadyClock } from '../base/clock.js'
import type { Clock, SteadyClock } from '../base/clock.js'
import { missingInRuntime } from '../base/runtime.js'
import { randomIds } from '../base/ids.js'
import type { Ids } from '../base/ids.js'
import { readDotenv } from '../config/dotenv.js'
import { ensureHome, noSpaceFor, readConfig, warningOfRoot } from '../config/home.js'
import type { Environment, Home } from '../config/home.js'
import { refuseNetworkHome } from '../config/network-home.js'
import { readPublicUrl } from '../config/public-url.js'
import { lookForLeftovers } from '../deploy/leftovers.js'
import { normaliseBase } from '../http/base-path.js'
import type { HttpServer } from '../http/server.js'
import { openStore } from '../store/database.js'
import type { Store, StoreOptions } from '../store/database.js'
import { ownDirectory } from '../store/owner.js'
import { canHoldDirectories, notHeldWarning } from '../target/held.js'
import { prepareEntrance } from './entrance.js'
import type { EntranceOptions, Opened } from './entrance.js'
import { createFront } from './front.js'
import type { Front, World } from './front.js'
import { removeHomeLeftovers } from './leftovers.js'
import { createListener } from './listener.js'
import type { RequestEvent } from './listener.js'
import type { Reloadable } from './reload.js'
import type { Services } from './services.js'
import { readVersion } from '../config/version.js'

/** What the operator is told, line by line. */
export interface Reporter {
  /** `fields` are what the line says, in parts. */
  info(line: string, fields?: object): void
  /** `fault` is what the line says, in parts: a bug of ours, and what was being done. */
  warn(line: string, fault?: { message: string; error: unknown }): void
}

export type ShowsToken = 'always' | 'new' | 'never'

export interface ServeOptions extends EntranceOptions {
  home: Home
  /** As the user wrote it: `a`, `/a`, `/a/`. */
  base?: string
  /** ADMIN_TOKEN is taken from it, or from `.env.local` in `cwd`. */
  environment: Environment
  cwd: string
  /** Whether there may be a terminal, as far as the settings permit (`--no-terminal`); default: yes. */
  terminal?: boolean
  /** Whether targets may lie in places of the system (`--allow-system-paths`); default: no. */
  allowSystemPaths?: boolean
  report: Reporter
  /** Whether the admin token is reported (`new`: only by the start that generates it), or where it is kept; default: always. */
  showsToken?: ShowsToken
  /** Whether each request is reported when it was answered; default: no. */
  requests?: boolean
  /** The store's, where somebody has begun to load it. */
  sqlite?: StoreOptions['sqlite']
  clock?: Clock
  ids?: Ids
}

/** A server that listens. */
export interface RunningServer {
  /** As `Opened` has it. */
  url: string
  adminToken: AdminToken
  services: Services
  /** Reads again what was read at the start and may have changed since; says what is different. Never rejects. */
  reload(): Promise<void>
  /**
   * Accepts nothing more. With `wait` the running deployments finish first; without, they are stopped. May be called
   * again with `wait: false` while the first call waits. Resolves when everything is closed.
   */
  stop(options: { wait: boolean }): Promise<void>
}

/** So far behind what was recorded, a clock is wrong, or was. */
const toleratedMs = 60_000
/** How long replies may go on once no deployment runs any more. */
const replyGraceMs = 3000
/** How long notifications may go on then: that the last deployments failed is worth telling. */
const notificationGraceMs = 3000
/** How long the replies of running deployments may go on: as long as those run. */
const deploymentGraceMs = 24 * 60 * 60_000

/**
 * Takes possession of the data directory, listens, and puts right what a stopped or killed server left behind. Until
 * that is done, health is answered, with `starting` if there is something to put right, and every other request waits. Refuses a directory or port that is in use, and a
 * store that cannot be read; what was opened by then is closed again.
 */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { home, report, environment } = options
  const base = normaliseBase(options.base ?? '')
  const steady = createSteadyClock()
  const clock = options.clock ?? steady
  const ids = options.ids ?? randomIds
  const publicUrl = readPublicUrl(environment, base)
  const entrance = await prepareEntrance(options, { base, clock, report })
  // A first start that cannot succeed leaves no data directory behind.
  if (!existsSync(home.directory)) await entrance.check()
  const made = await ensureHome(home)
  const opened: Array<() => Promise<unknown>> = made.map(directory => () => rmdir(directory))
  try {
    await refuseNetworkHome(home, environment)
    // A broken one is refused before anything is touched.
    await readConfig(home)
    const rootWarning = await warningOfRoot(home)
    if (rootWarning !== null) report.warn(rootWarning)
    const owner = await ownDirectory(home.directory)
    opened.push(() => owner.release())
    if (await finishRestore(home.directory)) await ensureHome(home)
    await reportLeftovers(home, report)
    const isLeftBehind = lookForLeftovers(home.deployments)
    const store = await openStore({ directory: home.directory, sqlite: options.sqlite, clock, warn: report.warn })
    opened.push(() => store.close())
    const override = await readOverride(options)
    const adminToken = await openAdminToken({ home, ids, override: override?.token })
    const log = (message: string, error?: unknown): void =>
      report.warn(describe(message, error), error === undefined ? undefined : { message, error })
    const version = readVersion()
    const { terminal = true, allowSystemPaths = false } = options
    const world: World = { store, home, clock, ids, environment, terminal, allowSystemPaths, version, base, publicUrl, log }
    let isRecovering = await isLeftBehind(store)
    const front = createFront(world, adminToken, { isRecovering: () => isRecovering })
    const onRequest = options.requests ? (event: RequestEvent) => reportRequest(report, event) : undefined
    const http = createListener(front, { base, publicUrl, log, onRequest, ...entrance.secure })
    opened.push(() => http.close({ graceMs: 0 }))
    const place = await entrance.open(http)
    const { url } = place
    http.serve(owner.server)
    const isShown = showsToken(options.showsToken ?? 'always', adminToken)
    const token = { token: adminToken.current(), tokenFrom: override?.from ?? home.configFile, isShown }
    announce(report, { place, publicUrl, ...token, directory: home.directory })
    if (world.terminal && missingInRuntime.terminal !== null) report.warn(missingInRuntime.terminal)
    if (!canHoldDirectories) report.warn(notHeldWarning)
    const { createServices, createTable, sendReport, createReload, newestStartMs } = await loadRest()
    if (clock === steady) followRecords(steady, newestStartMs(store), report)
    const services = createServices(world, front)
    opened.push(() => services.webhook.stop({ graceMs: notificationGraceMs }))
    await services.deployer.recover()
    opened.push(() => services.deployer.stop({ wait: false }))
    opened.push(() => services.terminals.stop())
    services.history.start()
    opened.push(() => services.history.stop())
    http.complete(createTable(services, { base, publicUrl }))
    isRecovering = false
    const telemetry = new AbortController()
    void sendReport({ event: 'svc.serve.startup', home, environment, version, clock, signal: telemetry.signal })
    const reload = createReload([reloadToken(adminToken, options), entrance.reload], report)
    return { url, adminToken, services, reload, stop: createStop({ http, services, front, store, owner, telemetry }) }
  } catch (error) {
    for (const close of opened.reverse()) await close().catch(() => {})
    throw noSpaceFor(home.directory, error) ?? error
  }
}

/**
 * Two thirds of the program's modules, half of what a start takes: nobody waits for them before the server listens
 * (test/bench/start). Loaded then, and not on first use: an update may replace the files while the server runs.
 */
async function loadRest() {
  const [services, table, telemetry, reload, deployments] = await Promise.all([
    import('./services.js'),
    import('./table.js'),
    import('../notify/telemetry.js'),
    import('./reload.js'),
    import('../store/tables/deployments.js')
  ])
  return { ...services, ...table, ...telemetry, ...reload, newestStartMs: deployments.newestStartMs }
}

/** What is recorded from now on comes after what was, also where the machine's clock was set back. */
function followRecords(clock: SteadyClock, newestMs: number | null, report: Reporter): void {
  const behindMs = (newestMs ?? 0) - Date.now()
  if (newestMs === null || behindMs <= 0) return
  clock.follow(newestMs)
  if (behindMs < toleratedMs) return
  const [now, newest] = [new Date().toISOString(), new Date(newestMs).toISOString()]
  report.warn(`The clock of this machine says ${now}, and the newest deployment is of ${newest}: set the clock right`)
}

/** Closes in the reverse order of opening, once, however often it is asked to. */
function createStop(running: {
  http: Pick<HttpServer, 'close'>
  services: Services
  front: Pick<Front, 'failures'>
  store: Store
  owner: { release(): Promise<void> }
  telemetry: AbortController
}): RunningServer['stop'] {
  const { http, services, front, store, owner, telemetry } = running
  let stopping: Promise<void> | undefined

  async function stop(wait: boolean): Promise<void> {
    telemetry.abort()
    // Before the connections are closed: what a shell's user sees is why.
    const shells = services.terminals.stop()
    const replies = http.close({ graceMs: deploymentGraceMs })
    await services.deployer.stop({ wait })
    await Promise.all([http.close({ graceMs: replyGraceMs }), services.webhook.stop({ graceMs: notificationGraceMs })])
    await Promise.all([replies, shells])
    await services.logViewer.close()
    await services.history.stop()
    await front.failures.flush()
    await store.close()
    await owner.release()
  }

  return async ({ wait }) => {
    if (stopping !== undefined && !wait) await services.deployer.stop({ wait: false })
    stopping ??= stop(wait)
    await stopping
  }
}

/** One that cannot be removed keeps no server from starting. */
async function reportLeftovers(home: Home, report: Reporter): Promise<void> {
  try {
    const removed = await removeHomeLeftovers(home, Date.now())
    if (removed.length > 0) report.warn(`Removed what killed processes left behind: ${removed.join(', ')}`)
  } catch (error) {
    report.warn(`What a killed process left in "${home.directory}" could not be removed: ${(error as Error).message}`)
  }
}

/** ADMIN_TOKEN, and where it was found. */
async function readOverride({ home, cwd, environment }: ServeOptions): Promise<{ token: string; from: string } | undefined> {
  const { path, values } = await readDotenv(cwd, 'server')
  if (values.ADMIN_TOKEN) return { token: values.ADMIN_TOKEN, from: path }
  const token = environment['ADMIN_TOKEN']
  if (token) return { token, from: 'ADMIN_TOKEN' }
  const { supervisedToken } = environment['SVC_SUPERVISED'] ? await readConfig(home) : {}
  return supervisedToken ? { token: supervisedToken, from: home.configFile } : undefined
}

/** `.env.local` may have another one since; a change of config.json counts at once, and is told here all the same. */
function reloadToken(adminToken: AdminToken, options: ServeOptions): Reloadable {
  let known = adminToken.current()
  return async () => {
    await adminToken.override((await readOverride(options))?.token)
    const now = adminToken.current()
    if (now === known) return null
    known = now
    return 'another admin token'
  }
}

/** Whether to print the admin token itself: what a log keeps is read by more people than the data directory. */
function showsToken(shows: ShowsToken, { isNew }: Pick<AdminToken, 'isNew'>): boolean {
  return shows === 'always' || (shows === 'new' && isNew)
}

interface Announcement {
  place: Opened
  publicUrl: string | null
  token: string
  tokenFrom: string
  isShown: boolean
  /** Of the data. */
  directory: string
}

function announce(report: Reporter, { place, publicUrl, token, tokenFrom, isShown, directory }: Announcement): void {
  report.info(`svc listens on ${place.url}${place.url.startsWith('unix:') ? '' : '/'}`)
  for (const info of place.infos) report.info(info)
  if (publicUrl !== null) report.info(`Public address: ${publicUrl}/`)
  report.info(isShown ? `Admin token: ${token}` : `The admin token is that of ${tokenFrom}`)
  report.info(`Data directory: ${directory}`)
  const weakness = weaknessOf(token)
  if (weakness !== null) report.warn(`The admin token is weak: ${weakness}`)
  for (const warning of place.warnings) report.warn(warning)
}

/** No query is in it, where a ticket may be. */
function reportRequest(report: Reporter, { method, path, status, ms, address, aborted }: RequestEvent): void {
  const rounded = Math.round(ms * 10) / 10
  const line = `${address} ${method} ${path} ${status} ${rounded} ms${aborted ? ', broken off' : ''}`
  report.info(line, { method, path, status, ms: rounded, address, aborted })
}

function describe(message: string, error: unknown): string {
  if (error === undefined) return message
  return `${message}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`
}
