import { openAdminToken, weaknessOf } from '../auth/admin-token.js'
import type { AdminToken } from '../auth/admin-token.js'
import { systemClock } from '../base/clock.js'
import type { Clock } from '../base/clock.js'
import { randomIds } from '../base/ids.js'
import type { Ids } from '../base/ids.js'
import { readDotenv } from '../config/dotenv.js'
import { ensureHome } from '../config/home.js'
import type { Environment, Home } from '../config/home.js'
import { normaliseBase } from '../http/base-path.js'
import type { HttpServer } from '../http/server.js'
import { openStore } from '../store/database.js'
import type { Store, StoreOptions } from '../store/database.js'
import { ownDirectory } from '../store/owner.js'
import { createFront } from './front.js'
import type { World } from './front.js'
import { createListener } from './listener.js'
import type { Services } from './services.js'
import { readVersion } from '../config/version.js'

export const defaultHost = '127.0.0.1' // §1
export const defaultPort = 5431 // §1

/** What the operator is told, line by line. */
export interface Reporter {
  info(line: string): void
  warn(line: string): void
}

export interface ServeOptions {
  home: Home
  host?: string
  /** 0: any that is free. */
  port?: number
  /** As the user wrote it: `a`, `/a`, `/a/`. */
  base?: string
  /** ADMIN_TOKEN is taken from it, or from `.env.local` in `cwd`. */
  environment: Environment
  cwd: string
  /** Whether there may be a terminal, as far as the settings permit (`--no-terminal`); default: yes. */
  terminal?: boolean
  report: Reporter
  /** The store's, where somebody has begun to load it. */
  sqlite?: StoreOptions['sqlite']
  clock?: Clock
  ids?: Ids
}

/** A server that listens. */
export interface RunningServer {
  /** With the base prefix, without a slash at its end. */
  url: string
  adminToken: AdminToken
  services: Services
  /**
   * Accepts nothing more. With `wait` the running deployments finish first; without, they are stopped. May be called
   * again with `wait: false` while the first call waits. Resolves when everything is closed.
   */
  stop(options: { wait: boolean }): Promise<void>
}

/** How long replies may go on once no deployment runs any more. */
const replyGraceMs = 3000
/** How long notifications may go on then: that the last deployments failed is worth telling. */
const notificationGraceMs = 3000
/** How long the replies of running deployments may go on: as long as those run. */
const deploymentGraceMs = 24 * 60 * 60_000

/**
 * Takes possession of the data directory, listens, and puts right what a stopped or killed server left behind. Until
 * that is done, health is answered and every other request waits. Refuses a directory or port that is in use, and a
 * store that cannot be read; what was opened by then is closed again.
 */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { home, report, environment } = options
  const base = normaliseBase(options.base ?? '')
  const clock = options.clock ?? systemClock
  const ids = options.ids ?? randomIds
  await ensureHome(home)
  const owner = await ownDirectory(home.directory)
  const opened: Array<() => Promise<unknown>> = [() => owner.release()]
  try {
    const store = await openStore({ directory: home.directory, sqlite: options.sqlite, clock, warn: report.warn })
    opened.push(() => store.close())
    const adminToken = await openOverridableToken(options, ids)
    const log = (message: string, error?: unknown): void => report.warn(describe(message, error))
    const version = readVersion()
    const world: World = { store, home, clock, ids, environment, terminal: options.terminal ?? true, version, log }
    const front = createFront(world, adminToken)
    const http = createListener(front, { base, log })
    opened.push(() => http.close({ graceMs: 0 }))
    const { host, port } = await http.listen({ host: options.host ?? defaultHost, port: options.port ?? defaultPort })
    http.serve(owner.server)
    const url = `http://${urlHost(host)}:${port}${base}`
    const isSupervised = Boolean(environment['SVC_SUPERVISED'])
    announce(report, { url, host, token: adminToken.current(), isSupervised, directory: home.directory })
    const { createServices, createTable, sendReport } = await loadRest()
    const services = createServices(world, front)
    opened.push(() => services.webhook.stop({ graceMs: notificationGraceMs }))
    await services.deployer.recover()
    opened.push(() => services.deployer.stop({ wait: false }))
    opened.push(() => services.terminals.stop())
    http.complete(createTable(services, { base }))
    const telemetry = new AbortController()
    void sendReport({ event: 'svc.serve.startup', home, environment, version, clock, signal: telemetry.signal })
    return { url, adminToken, services, stop: createStop({ http, services, store, owner, telemetry }) }
  } catch (error) {
    for (const close of opened.reverse()) await close().catch(() => {})
    throw error
  }
}

/**
 * Two thirds of the program's modules, half of what a start takes: nobody waits for them before the server listens
 * (test/bench/start). Loaded then, and not on first use: an update may replace the files while the server runs.
 */
async function loadRest() {
  const [services, table, telemetry] = await Promise.all([
    import('./services.js'),
    import('./table.js'),
    import('../notify/telemetry.js')
  ])
  return { ...services, ...table, ...telemetry }
}

/** Closes in the reverse order of opening, once, however often it is asked to. */
function createStop(running: {
  http: Pick<HttpServer, 'close'>
  services: Services
  store: Store
  owner: { release(): Promise<void> }
  telemetry: AbortController
}): RunningServer['stop'] {
  const { http, services, store, owner, telemetry } = running
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
    await store.close()
    await owner.release()
  }

  return async ({ wait }) => {
    if (stopping !== undefined && !wait) await services.deployer.stop({ wait: false })
    stopping ??= stop(wait)
    await stopping
  }
}

async function openOverridableToken({ home, cwd, environment }: ServeOptions, ids: Ids): Promise<AdminToken> {
  const { values } = await readDotenv(cwd)
  return openAdminToken({ home, ids, override: values.ADMIN_TOKEN || environment['ADMIN_TOKEN'] || undefined })
}

interface Announcement {
  url: string
  host: string
  token: string
  /** What is printed then goes to a log, where the token has no business: whoever started it has printed it. */
  isSupervised: boolean
  /** Of the data. */
  directory: string
}

function announce(report: Reporter, { url, host, token, isSupervised, directory }: Announcement): void {
  report.info(`svc listens on ${url}/`)
  if (!isSupervised) report.info(`Admin token: ${token}`)
  report.info(`Data directory: ${directory}`)
  const weakness = weaknessOf(token)
  if (weakness !== null) report.warn(`The admin token is weak: ${weakness}`)
  if (isLoopback(host)) return
  report.warn(`${host} can be reached from other machines, and the connection is not encrypted:`)
  report.warn('use 127.0.0.1 behind a proxy that speaks HTTPS, or a private network')
}

function isLoopback(host: string): boolean {
  return host === '::1' || /^127\./.test(host)
}

function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

function describe(message: string, error: unknown): string {
  if (error === undefined) return message
  return `${message}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`
}
