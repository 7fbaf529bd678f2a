import { requiresSignatures, trustsClock, type World } from './world.js'
import { existsSync } from 'node:fs'
import { readdir, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type AdminToken, openAdminToken, weaknessOf } from '../access/admin-token.js'
import { openSessionKey } from '../access/session-key.js'
import { callAll } from '../base/async.js'
import { type Clock, createSteadyClock, type SteadyClock } from '../base/clock.js'
import { missingInRuntime } from '../base/runtime.js'
import { type Ids, randomIds } from '../base/digests.js'
import { reasonOf, Refusal } from '../base/errors.js'
import { readDotenv, removeEndedLocks } from '../base/config/files.js'
import { tokenOf } from '../base/text.js'
import {
  ensureHome,
  type Environment,
  type Home,
  noSpaceFor,
  readConfig,
  readPublicUrl,
  refuseHub,
  refuseNetworkHome,
  warningOfRoot
} from '../base/config/home.js'
import { readVersion } from '../base/config/version.js'
import { normaliseBase } from '../http/core/dispatch.js'
import type { HttpServer } from '../http/core/server.js'
import { openStore, type StoreOptions } from '../core/store/durable-store.js'
import type { Reader, Store } from '../core/store/database.js'
import { ownedDisk } from '../core/store/disk.js'
import { ownDirectory } from '../core/store/owner.js'
import { removeLeftovers, removeLeftoversIn } from '../base/files.js'
import { isAnyRunning, isAnyScriptRecorded } from '../core/store/tables/start.js'
import type { ClusterOptions } from '../cluster/options.js'
import { createExpiryWarnings, type ExpiryWarnings } from '../http/tls/expiry.js'
import { type EntranceOptions, type Opened, prepareEntrance } from './entrance.js'
import { createEarlyFront, createHealthProbe, createListener, type ListenerFront, viewOf } from './listener.js'
import {
  createReload,
  type Reloadable,
  type Reporter,
  reportFailure,
  reportRequest,
  type RequestEvent
} from './report.js'
import type { Services } from './services.js'
import type { Ending } from './begin.js'

/** When the admin token itself is printed at the start: `new` means only by the start that generates it. */
export type ShowsToken = 'always' | 'new' | 'never'

export interface ServeOptions extends EntranceOptions {
  home: Home
  /** The cluster that this server is a hub of; undefined: none. */
  cluster?: ClusterOptions | undefined
  /** Base path as the user wrote it: `a`, `/a` or `/a/`. */
  base?: string
  /** Environment of the process. ADMIN_TOKEN is read from it, or from `.env.local` in `cwd`. */
  environment: Environment
  cwd: string
  /** Whether terminals are allowed (`--no-terminal`). The settings can still disable them. Default: true. */
  terminal?: boolean
  /** Whether targets may be in system directories (`--allow-system-paths`). Default: false. */
  allowSystemPaths?: boolean
  /** Whether every release must be signed (`--require-signatures`). Default: SVC_REQUIRE_SIGNATURES is 1. */
  requireSignatures?: boolean | undefined
  /** Whether the panel is served; default: true. */
  panel?: boolean
  /** Called after each recorded end of a deployment. */
  deploymentEnded?: World['deploymentEnded']
  /** See `World`. */
  relaySecret?: World['relaySecret']
  report: Reporter
  /** The certificates of the process, if the caller has some of its own. */
  expiry?: ExpiryWarnings
  /** Whether the admin token is printed, or only where it is kept. Default: `always`. */
  showsToken?: ShowsToken
  /** Whether each answered request is reported. Default: false. */
  requests?: boolean
  /** The store's SQLite module, if the caller has already begun to load it. */
  sqlite?: StoreOptions['sqlite']
  /** Ends the start of a hub that waits for its cluster. Any other start is completed. */
  signal?: AbortSignal
  clock?: Clock
  ids?: Ids
}

export interface RunningServer {
  /** URL as in `Opened`. */
  url: string
  adminToken: AdminToken
  services: Services
  /** The path of the socket that only the owner of the data directory can open. */
  localSocket: string
  /** Whether deployments are queued or running. */
  isDeploying(): boolean
  /** Reads the admin token and the certificate again and reports what has changed. Never rejects. */
  reload(): Promise<void>
  /**
   * Stops the server; it accepts no new connections. With `wait`, running deployments finish first; otherwise they are
   * stopped. A second call with `wait: false` is allowed while the first one waits. Resolves when everything is closed.
   */
  stop(options: { wait: boolean }): Promise<void>
}

/** If the clock is further behind the newest record than this, it is or was wrong, and a warning is printed. */
const toleratedMs = 60_000
/** Time for replies in progress after the last deployment has ended. */
const replyGraceMs = 3000
/** Time for notifications after the last deployment has ended. A message that it failed should still be sent. */
const notificationGraceMs = 3000
/** Maximum time for the replies of running deployments: they last as long as the deployments. */
const deploymentGraceMs = 24 * 60 * 60_000

/** What closes again what a start has opened, the first one last. */
export type Closers = Array<() => Promise<unknown>>

/** Creates what a start needs before it takes the data directory. */
export async function prepareStart(options: ServeOptions) {
  const { report } = options
  const base = normaliseBase(options.base ?? '')
  const steady = createSteadyClock({ isTrusted: trustsClock(options.environment) })
  const clock = options.clock ?? steady
  const publicUrl = readPublicUrl(options.environment, base)
  const expiry = options.expiry ?? createExpiryWarnings(line => report.warn(line), clock)
  const entrance = await prepareEntrance(options, { base, clock, expiry, report })
  const { home, environment, terminal = true, allowSystemPaths = false } = options
  const ids = options.ids ?? randomIds
  const log = (message: string, error?: unknown): void => reportFailure(report, message, error)
  const rules = { terminal, allowSystemPaths, requireSignatures: requiresSignatures(options) }
  const onRequest = options.requests ? (event: RequestEvent) => reportRequest(report, event) : undefined
  return {
    base,
    steady,
    clock,
    ids,
    publicUrl,
    expiry,
    entrance,
    log,
    world: {
      home,
      clock,
      ids,
      environment,
      ...rules,
      version: readVersion(),
      base,
      publicUrl,
      ownUrl: entrance.url,
      expiry,
      log
    },
    listener: { base, publicUrl, log, onRequest, ...entrance.secure }
  }
}

/** Takes ownership of the data directory. `opened` gets what gives it back. */
export async function ownHome({ home, environment, report }: ServeOptions, opened: Closers) {
  await refuseNetworkHome(home, environment)
  // An invalid configuration is refused before anything is changed.
  await readConfig(home)
  const rootWarning = await warningOfRoot(home)
  if (rootWarning !== null) report.warn(rootWarning)
  const owner = await ownDirectory(home.directory)
  opened.push(() => owner.release())
  if ((await readdir(home.directory)).some(name => name.startsWith('.restore'))) {
    // Loaded on demand: only a restore leaves these names.
    const { finishRestore } = await import('../carry/backup/place.js')
    if (await finishRestore(home.directory)) await ensureHome(home)
  }
  return owner
}

/**
 * Starts a server: takes ownership of the data directory, listens, and recovers what a stopped or killed server left
 * unfinished. During the recovery, health requests are answered (`starting` if there is something to recover) and all
 * other requests wait. Refuses a directory or port that is in use, and a store that cannot be read. After a failed
 * start everything that was opened is closed again.
 */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { home, report } = options
  if (options.cluster !== undefined) return (await import('./serve-hub.js')).serveHub(options, options.cluster)
  const start = await prepareStart(options)
  const { base, steady, clock, ids, publicUrl, entrance } = start
  // A first start that fails must not leave a data directory behind.
  if (!existsSync(home.directory)) await entrance.check()
  const made = await ensureHome(home)
  const opened: Closers = made.map(directory => () => rmdir(directory))
  try {
    refuseHub(home.directory)
    const owner = await ownHome(options, opened)
    await reportLeftovers(home, report)
    const isLeftBehind = lookForLeftovers(home.deployments)
    const disk = ownedDisk(owner.check)
    const store = await openStore({ directory: home.directory, sqlite: options.sqlite, clock, disk, warn: report.warn })
    opened.push(() => store.close())
    const override = await readOverride(options)
    const adminToken = await openAdminToken({ home, ids, override: override?.token })
    const { deploymentEnded, relaySecret, panel = true } = options
    const secretFiles = options.tls === undefined ? [] : [options.tls.key]
    // Refused before it listens.
    const sessionKey = openSessionKey(home)
    const world: World = { ...start.world, store, secretFiles, sessionKey, deploymentEnded, relaySecret }
    let isRecovering = await isLeftBehind(store)
    const probing = createHealthProbe(world, adminToken, { isRecovering: () => isRecovering })
    let current: ListenerFront = createEarlyFront(store, probing.probe)
    const http = createListener(
      viewOf(() => current),
      start.listener
    )
    opened.push(() => http.close({ graceMs: 0 }))
    const place = await entrance.open(http)
    const { url } = place
    http.serve(owner.server)
    const isShown = showsToken(options.showsToken ?? 'always', adminToken)
    const token = { token: adminToken.current(), tokenFrom: override?.from ?? home.configFile, isShown }
    announce(report, { place, publicUrl, ...token, directory: home.directory })
    if (world.terminal && missingInRuntime.terminal !== null) report.warn(missingInRuntime.terminal)
    // For health requests during the start: a write to the disk waits for the modules, which take the event loop.
    await probing.probe.isWritable()
    const { createServices, beginWork, endWork, createTable, sendReport, ...rest } = await loadRest()
    const front = rest.createFront(world, adminToken, probing)
    current = front
    if (!rest.canHoldDirectories) report.warn(rest.notHeldWarning)
    if (clock === steady) followRecords(steady, rest.newestStartMs(store), report)
    rest.warnOfUsers(store, report)
    const services = createServices(world, front)
    const begun = { front, services }
    const cutShort = () => services.deployer.stop({ wait: false })
    const end = (ending: Ending) => endWork(begun, ending)
    opened.push(() => end({ deployments: cutShort, graceMs: notificationGraceMs }))
    await beginWork(begun, world)
    http.complete(createTable(services, { base, publicUrl, panel }))
    isRecovering = false
    probing.probe.forget()
    const telemetry = new AbortController()
    const { signal } = telemetry
    const { trust } = services
    const reported = sendReport({ ...world, event: 'svc.serve.startup', trust, signal })
    const reload = createReload([reloadToken(adminToken, options), entrance.reload], report)
    return {
      url,
      adminToken,
      services,
      localSocket: owner.path,
      isDeploying: () => rest.isDeploying(store),
      reload,
      stop: createStop({ http, services, end, store, owner, telemetry, reported })
    }
  } catch (error) {
    for (const close of opened.reverse()) await close().catch(() => {})
    throw noSpaceFor(home.directory, error) ?? error
  }
}

/**
 * Loads half of the program's modules, which take half of the start time. They are loaded after the server listens
 * (test/bench/start). The handlers of requests follow (base/async.ts).
 */
async function loadRest() {
  const [front, services, begin, table, telemetry, deployments, held] = await Promise.all([
    import('./front.js'),
    import('./services.js'),
    import('./begin.js'),
    import('./table.js'),
    import('../operate/telemetry.js'),
    import('../core/store/tables/deployments.js'),
    import('../core/install/held.js')
  ])
  return { ...front, ...services, ...begin, ...table, ...telemetry, ...deployments, ...held }
}

/** Makes sure that new records get later times than existing ones, even if the machine's clock was set back. */
export function followRecords(clock: SteadyClock, newestMs: number | null, report: Reporter): void {
  const behindMs = (newestMs ?? 0) - Date.now()
  if (newestMs === null || behindMs <= 0) return
  clock.follow(newestMs)
  if (behindMs < toleratedMs) return
  const [now, newest] = [new Date().toISOString(), new Date(newestMs).toISOString()]
  report.warn(
    `The clock of this machine is behind: it says ${now}, but the newest deployment is from ${newest}. Set the clock`
  )
}

/** Returns a function that closes everything, also after a failure. Further calls wait for the first one. */
function createStop({
  http,
  services,
  end,
  store,
  owner,
  telemetry,
  reported
}: {
  http: Pick<HttpServer, 'close'>
  services: Services
  /** Ends the work of the services. */
  end(ending: Ending): Promise<void>
  store: Store
  owner: { release(): Promise<void> }
  telemetry: AbortController
  reported: Promise<void>
}): RunningServer['stop'] {
  let stopping: Promise<void> | undefined

  function stop(wait: boolean): Promise<void> {
    telemetry.abort()
    // It accepts no new connections from now on.
    const closed = http.close({ graceMs: deploymentGraceMs })
    closed.catch(() => {}) // it is awaited below
    return callAll([
      () =>
        end({
          deployments: () => services.deployer.stop({ wait }),
          replies: () => http.close({ graceMs: replyGraceMs }),
          graceMs: notificationGraceMs
        }),
      () => closed,
      // It may be storing the id of this server.
      () => reported,
      () => store.close(),
      () => owner.release()
    ])
  }

  return async ({ wait }) => {
    if (stopping !== undefined && !wait) await services.deployer.stop({ wait: false })
    stopping ??= stop(wait)
    await stopping
  }
}

/** Removes leftovers of killed processes and reports them. A failure is only a warning and does not stop the start. */
async function reportLeftovers(home: Home, report: Reporter): Promise<void> {
  try {
    const removed = await removeHomeLeftovers(home, Date.now())
    if (removed.length > 0) report.warn(`Removed files that killed processes left behind: ${removed.join(', ')}`)
  } catch (error) {
    report.warn(`Cannot remove the files that killed processes left in "${home.directory}": ${reasonOf(error)}`)
  }
}

/**
 * Returns ADMIN_TOKEN and where it was found. A file that cannot be read is reported at the start. Later it is refused
 * (`dotenv_unreadable`): the token that it has set stays.
 */
export async function readOverride(
  { home, cwd, environment, report }: ServeOptions,
  isReload = false
): Promise<{ token: string; from: string } | undefined> {
  const { path, values, problem } = await readDotenv(cwd, 'server')
  if (problem !== null && isReload) throw new Refusal('unavailable', 'dotenv_unreadable', problem)
  if (problem !== null) report.warn(problem)
  const ofFile = tokenOf(values.ADMIN_TOKEN ?? '', `ADMIN_TOKEN in ${path}`)
  if (ofFile !== '') return { token: ofFile, from: path }
  const token = tokenOf(environment['ADMIN_TOKEN'] ?? '', 'ADMIN_TOKEN')
  if (token !== '') return { token, from: 'ADMIN_TOKEN' }
  const { supervisedToken } = environment['SVC_SUPERVISED'] ? await readConfig(home) : {}
  return supervisedToken ? { token: supervisedToken, from: home.configFile } : undefined
}

/**
 * Checks whether the admin token has changed. `.env.local` is read again; a change of config.json applies at once and
 * is only reported here.
 */
function reloadToken(adminToken: AdminToken, options: ServeOptions): Reloadable {
  let known = adminToken.current()
  return async () => {
    await adminToken.override((await readOverride(options, true))?.token)
    const now = adminToken.current()
    if (now === known) return null
    known = now
    return 'new admin token'
  }
}

/** Whether to print the admin token itself. More people read a log than the data directory. */
function showsToken(shows: ShowsToken, { isNew }: Pick<AdminToken, 'isNew'>): boolean {
  return shows === 'always' || (shows === 'new' && isNew)
}

interface Announcement {
  place: Opened
  publicUrl: string | null
  token: string
  tokenFrom: string
  isShown: boolean
  /** The data directory. */
  directory: string
}

/** Prints where the server listens, where its token and its data are, and warnings about both. */
export function announce(
  report: Reporter,
  { place, publicUrl, token, tokenFrom, isShown, directory }: Announcement
): void {
  report.info(`svc listens on ${place.url}${place.url.startsWith('unix:') ? '' : '/'}`)
  for (const info of place.infos) report.info(info)
  if (publicUrl !== null) report.info(`Public address: ${publicUrl}/`)
  report.info(isShown ? `Admin token: ${token}` : `The admin token comes from ${tokenFrom}`)
  report.info(`Data directory: ${directory}`)
  const weakness = weaknessOf(token)
  if (weakness !== null) report.warn(`The admin token is weak: ${weakness}`)
  for (const warning of place.warnings) report.warn(warning)
}

/**
 * Unfinished files beside the database (core/store/recovery.ts, core/store/redo.ts, core/store/durable-store.ts), and
 * the file of the health probe.
 */
const unfinishedPattern = /^(?:svc\.db(?:\.redo|\.schema-\d+)?\.tmp|health\.probe)$/

/**
 * Removes files that killed processes left in the data directory itself. The caller owns the directory and has not
 * opened the store. Commands may replace a file, such as config.json, at the same time, so only those older
 * than `startedMs` are removed; among the keys, all. Returns the removed paths.
 */
export async function removeHomeLeftovers(
  { directory, configFile, keys }: Pick<Home, 'directory' | 'configFile' | 'keys'>,
  startedMs: number
): Promise<string[]> {
  const paths = (await readdir(directory))
    .filter(name => unfinishedPattern.test(name))
    .map(name => join(directory, name))
  for (const path of paths) await rm(path)
  paths.push(...(await removeLeftoversIn(directory, startedMs)))
  // It may be a link to another place.
  paths.push(...(await removeLeftovers(configFile, startedMs)))
  // Only the server that owns the directory writes here, so what is left is of none that runs, whatever the clock says.
  paths.push(...(await removeLeftoversIn(keys, Infinity).catch(() => [])))
  return [...paths, ...(await removeEndedLocks(configFile))]
}

/**
 * Checks whether a server that did not stop cleanly left something for deploy/recovery.ts: an undo journal in
 * `deployments`, a deployment whose record says that it is running, or a recorded script process. Reads the directory
 * at once. The returned function checks the store as soon as it is open.
 */
export function lookForLeftovers(deployments: string): (store: Reader) => Promise<boolean> {
  const names = readdir(deployments).catch(() => [])
  return async store =>
    isAnyRunning(store) || isAnyScriptRecorded(store) || (await names).some(name => name.endsWith('.undo'))
}
