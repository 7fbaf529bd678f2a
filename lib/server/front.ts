import type { AdminToken } from '../access/admin-token.js'
import { type AllowList, createAllowList, createFailures, type Failures } from '../access/failures.js'
import { type Audit, createAudit } from '../core/audit/audit.js'
import { createCheckpointFile, Keeper } from '../core/audit/keeper.js'
import { type Auth, type Bearer, type Caller, createBearer, createRelayedCallers } from '../access/bearer.js'
import { Limiter } from '../access/limiter.js'
import {
  createProof,
  createSecondFactors,
  type Proof,
  type Sealing,
  type SecondFactors
} from '../access/second-factor.js'
import { NamedTokens } from '../access/named-tokens.js'
import { createNodeRequests, type NodeRequests } from '../access/node-requests.js'
import { Sessions, openSessionKey } from '../access/sessions.js'
import { createTickets, type Tickets } from '../access/secret.js'
import { type Clock, elapsedOf } from '../base/clock.js'
import type { Ids } from '../base/digests.js'
import type { Environment, Home } from '../base/config/home.js'
import type { ArchiveCopies, DeployNeeds } from '../deploy/needs.js'
import type { ExpiryWarnings } from '../http/tls/expiry.js'
import type { ClusterView } from '../model/health.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { TokenLock } from '../model/access.js'
import type { Reader, Store } from '../core/store/database.js'
import { findProject, findProjectByToken } from '../core/store/tables/projects.js'
import {
  createVariablesKey,
  curesOfLostKey,
  needsStoredKey,
  ownPlace,
  seal,
  unseal,
  unusableKey,
  type VariablesKey
} from '../projects/seal.js'
import { createProbe, type Probe, type ProbeNeeds } from '../operate/machine/probe.js'
import { createSettings, type Settings } from '../projects/settings.js'
import { probeRow } from '../api/probe.js'
import { createRest } from '../base/runtime.js'
import { HttpServer, type HubSide, type ServerEvent, type ServerOptions } from '../http/core/server.js'
import type { ServerKeys } from '../cluster/keys.js'
import { Refusal } from '../base/errors.js'
import { createServerKey, type ServerKey } from '../core/audit/signed-note.js'

/** What the services need from the process that runs them. */
export interface World {
  store: Store
  home: Home
  clock: Clock
  ids: Ids
  /** Environment that scripts and shells inherit, without its secrets. */
  environment: Environment
  /** Whether terminals are allowed at all, independent of the settings. */
  terminal: boolean
  /** Whether targets may be in system directories (`--allow-system-paths`). */
  allowSystemPaths: boolean
  /** Whether every release must be signed by a key in `keys/allowed_signers` (`--require-signatures`). */
  requireSignatures?: boolean
  /** Paths of keys and passwords that were given to the server. They are never shown, wherever they are. */
  secretFiles?: readonly string[]
  version: string
  /** Base path of the server, as `normaliseBase` returns it. */
  base: string
  /** Public URL of the server, for links; null if it is not configured. */
  publicUrl: string | null
  /** Returns the URL at which this process listens; null, or absent: at none. */
  ownUrl?: () => string | null
  /** The secret that marks requests which the agent of this server relays; absent: there is no agent. */
  relaySecret?: string | undefined
  /** The certificates in use: warns of those that expire soon or have expired. */
  expiry?: Pick<ExpiryWarnings, 'look' | 'list'> | undefined
  /** The cluster; undefined: the server is not a hub of one. */
  cluster?: ClusterView | undefined
  /** Returns the addresses of all hubs; undefined: the server is not a hub of a cluster. */
  hubUrls?: (() => string[]) | undefined
  /** Archives on other hubs; undefined: the server is not a hub of a cluster. */
  copies?: ArchiveCopies | undefined
  /** As in `DeployNeeds`. */
  giveUpOn?: DeployNeeds['giveUpOn']
  /** The keys, if they are not files of the data directory. */
  keys?: ServerKeys | undefined
  /** Called after each recorded end of a deployment. */
  deploymentEnded?: ((row: DeploymentRow) => void) | undefined
  /** Reports an internal error to the operator. */
  log(message: string, error?: unknown): void
}

/** The parts between a socket and the rest of the program: authentication, limits, and the health probe. */
export interface Front {
  admin: AdminToken
  audit: Audit
  /** Keeps the tree of the audit log and signs its checkpoints. */
  keeper: Keeper
  serverKey: ServerKey
  failures: Failures
  limiter: Limiter
  settings: Settings
  tickets: Tickets
  sessions: Sessions
  named: NamedTokens
  /** The signed requests of the nodes of the fleet. */
  nodes: NodeRequests
  factors: SecondFactors
  /** Called by the front. The services behind it set them. */
  listeners: { tokenLocked?(lock: TokenLock): void; hasUploads?(tokenId: string): boolean }
  proof: Proof
  allowList: AllowList
  bearer: Bearer
  probe: Probe
  /** Start time, as `elapsedOf` counts. */
  startedAtMs: number
}

const settingsTables = ['settings'] as const

/** Creates the audit log and the settings, which need each other, and what signs the log. */
function createAuditing({ store, home, clock, ids, keys, log }: World) {
  const onError = (error: unknown): void => log('Cannot write an entry of the audit log', error)
  const onLeaf = (size: number): void => keeper.consider(size)
  const audit = createAudit({ store, clock, ids, onError, onLeaf, keepDays: () => settings.number('audit_days') })
  const followed = keys === undefined ? {} : { version: () => store.version(settingsTables) }
  const settings: Settings = createSettings({ store, audit, ...followed })
  const checkpointFile = createCheckpointFile({
    place: () => settings.text('checkpoint_file'),
    onError: error => log('Cannot write the checkpoint of the audit log to its file', error)
  })
  const serverKey = keys?.server ?? createServerKey(home.keys)
  const keeper = new Keeper({
    store,
    clock,
    ids,
    key: serverKey,
    onError: error => log('Cannot sign a checkpoint of the audit log', error),
    onCheckpoint: ({ note }) => checkpointFile.write(note)
  })
  return { audit, settings, keeper, serverKey, onError }
}

/** Creates the front. It is built first, because it is all that a server needs to listen. */
export function createFront(
  world: World,
  admin: AdminToken,
  { isRecovering }: Pick<ProbeNeeds, 'isRecovering'> = {}
): Front {
  const { store, home, clock, ids, version, base, keys, relaySecret, cluster } = world
  const startedAtMs = elapsedOf(clock)
  const { audit, settings, keeper, serverKey, onError } = createAuditing(world)
  const failures = createFailures({ store, clock, ids, onError })
  const limiter = new Limiter({ clock, onFailure: failures.note })
  const tickets = createTickets({ clock, ids })
  const named = new NamedTokens({
    store,
    clock,
    ids,
    audit,
    settings,
    isProject: (db, id) => findProject(db, id) !== undefined,
    onEnd: id => void sessions.endOf(id).catch(onError)
  })
  const sessions = new Sessions({
    store,
    clock,
    ids,
    key: keys?.session ?? openSessionKey(home),
    admin,
    named,
    base,
    audit
  })
  const allowList = createAllowList({ allowed: () => settings.list('allowed_ips') })
  const nodes = createNodeRequests({ store })
  const listeners: Front['listeners'] = {}
  const bearer = createBearer({
    admin,
    tickets,
    projectOf: token => findProjectByToken(store, token),
    globalToken: () => settings.text('global_deploy_token'),
    metricsToken: () => settings.text('metrics_token'),
    named,
    allowList,
    limiter,
    nodes,
    relayed: relaySecret === undefined ? undefined : createRelayedCallers(relaySecret),
    sessions,
    hasUploads: tokenId => listeners.hasUploads?.(tokenId) ?? false
  })
  const factors = createSecondFactors({
    store,
    clock,
    limiter,
    audit,
    sessions,
    endBearer: id => named.endBearer(id),
    onLocked({ tokenId, lockedUntil }) {
      const token = named.list().find(({ id }) => id === tokenId)
      if (token !== undefined) listeners.tokenLocked?.({ token, lockedUntil })
    },
    sealing: createSealing(store, keys?.variables ?? createVariablesKey(home.variablesKey), 'second factor')
  })
  const proof = createProof({ clock, minutes: () => settings.number('proof_minutes') })
  const probe = createProbe({
    store,
    clock,
    version,
    startedAtMs,
    directory: home.directory,
    hasToken: () => hasToken(admin),
    hub: cluster?.state,
    isRecovering
  })
  return {
    admin,
    audit,
    keeper,
    serverKey,
    failures,
    limiter,
    settings,
    tickets,
    sessions,
    named,
    nodes,
    factors,
    listeners,
    proof,
    allowList,
    bearer,
    probe,
    startedAtMs
  }
}

function hasToken(admin: AdminToken): boolean {
  try {
    return admin.current() !== ''
  } catch {
    return false
  }
}

interface ListenerOptions extends Pick<ServerOptions<string, unknown>, 'secure'> {
  /** In a cluster: what this hub does with requests. */
  hub?: HubSide<Auth, Caller>
  /** Base path as `normaliseBase` returns it. */
  base: string
  /** Public URL as `readPublicUrl` returns it. */
  publicUrl: string | null
  log(message: string, error?: unknown): void
  /** Called after each answered request, if given. */
  onRequest?: ((request: RequestEvent) => void) | undefined
}

/** The parts of the front that every request needs. */
export interface ListenerFront {
  probe: Front['probe']
  bearer: Front['bearer']
  named: Pick<Front['named'], 'ended'>
  settings: Pick<Front['settings'], 'list'>
}

/** Event of an answered request. */
export type RequestEvent = Extract<ServerEvent, { kind: 'request' }>

/** One for all listeners, because the memory is that of the process. */
let rest: ReturnType<typeof createRest> | null = null

/**
 * Creates the HTTP server of the whole program. It answers health requests at once, and all others when it gets the
 * table (table.ts).
 */
export function createListener(
  { probe, bearer, named, settings }: ListenerFront,
  { base, publicUrl, log, onRequest, ...secure }: ListenerOptions
): HttpServer<Auth, Caller> {
  const answered = (rest ??= createRest())
  return new HttpServer<Auth, Caller>({
    routes: [probeRow(probe)],
    isPartial: true,
    base,
    authorize: (route, facts) => bearer.authorise(route.auth, facts),
    lifeOf: ({ session, token }) => session?.ended() ?? (token === undefined ? undefined : named.ended(token.id)),
    callerOf: ({ role, name, token, node }) => (role === 'anonymous' ? undefined : (token?.id ?? node?.id ?? name)),
    publicUrl,
    trustedProxies: () => settings.list('trusted_proxies'),
    allowedHosts: createAllowedHosts(publicUrl, () => settings.list('allowed_hosts')),
    log: event => {
      if (event.kind === 'request') answered()
      pass(event, { log, onRequest })
    },
    ...secure
  })
}

/** Returns the names of the setting and of SVC_PUBLIC_URL. Returns the same array until the setting changes. */
function createAllowedHosts(publicUrl: string | null, listed: () => readonly string[]): () => readonly string[] {
  const own = publicUrl === null ? [] : [new URL(publicUrl).hostname]
  let list: readonly string[] = []
  let hosts: readonly string[] = own
  return () => {
    if (list !== listed()) hosts = [...own, ...(list = listed())]
    return hosts
  }
}

const outOfDescriptors =
  'Cannot open files or accept connections: too many open files. ' +
  'Raise the limit (LimitNOFILE= in the unit, or ulimit -n)'

function pass(event: ServerEvent, { log, onRequest }: Pick<ListenerOptions, 'log' | 'onRequest'>): void {
  if (event.kind === 'request') onRequest?.(event)
  else if (event.kind === 'out_of_descriptors') log(outOfDescriptors)
  else log(`${event.method} ${event.path} failed (${event.id})`, event.error)
}

/**
 * Encrypts secrets with the key of the variables, which backups contain. `name` says what they are: the second factor of
 * a token, or what a client sent for a rollout.
 */
export function createSealing(store: Reader, key: VariablesKey, name: 'second factor' | 'rollout'): Sealing {
  const unusable = (why: string) => unusableKey(key.path, why, curesOfLostKey(store))
  return {
    async seal(id, secret) {
      const found = await key.find()
      if (found.key !== null) return seal(found.key, ownPlace(id, name), secret)
      if (!found.isMissing || needsStoredKey(store)) throw unusable(found.why)
      return seal(await key.create(), ownPlace(id, name), secret)
    },
    async unseal(id, sealed) {
      const found = await key.find()
      if (found.key === null) throw unusable(found.why)
      const secret = unseal(found.key, ownPlace(id, name), sealed)
      if (secret === null) throw unusable(`it is not the key that encrypted this ${name}`)
      return secret
    }
  }
}

/** Prints the lines of a running server. */
export interface Reporter {
  /** Prints an information. `fields` are the parts of the line, for structured logs. */
  info(line: string, fields?: object): void
  /** Prints a warning. `fault` is an internal error: the parts of the line. */
  warn(line: string, fault?: { message: string; error: unknown }): void
}

/** Prints a warning about a failure, with the stack of its error. */
export function reportFailure(report: Reporter, message: string, error?: unknown): void {
  if (error === undefined) report.warn(message)
  else report.warn(`${message}: ${textOf(error)}`, { message, error })
}

/** Reports an answered request. The path is printed without its query, which may contain a ticket. */
export function reportRequest(report: Reporter, { method, path, status, ms, address, aborted }: RequestEvent): void {
  const rounded = Math.round(ms * 10) / 10
  const line = `${address} ${method} ${path} ${status} ${rounded} ms${aborted ? ', aborted' : ''}`
  report.info(line, { method, path, status, ms: rounded, address, aborted })
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

/** Reads one thing again. Returns what has changed, as a noun, or null if nothing has. */
export type Reloadable = () => Promise<string | null>

/**
 * Creates a function that reloads everything, one after the other, and reports the changes in one line. If a part
 * cannot be read, its previous value stays in use and a warning is printed. A call during a reload starts another
 * reload after it.
 */
export function createReload(all: readonly Reloadable[], report: Reporter): () => Promise<void> {
  let last = Promise.resolve()

  async function reload(): Promise<void> {
    const changed: string[] = []
    for (const one of all) {
      const what = await one().catch((error: unknown) => void warn(report, error))
      if (what) changed.push(what)
    }
    report.info(`Reloaded: ${changed.join(', ') || 'nothing has changed'}`)
  }

  return () => (last = last.then(reload))
}

function warn(report: Reporter, error: unknown): void {
  const message = 'Not reloaded, the previous value stays in use'
  if (error instanceof Refusal) report.warn(`${message}: ${error.message}`)
  else reportFailure(report, message, error)
}
