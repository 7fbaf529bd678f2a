import type { AdminToken } from '../auth/admin-token.js'
import { createAllowList, type AllowList } from '../auth/allow-list.js'
import { createAudit, type Audit } from '../audit/audit.js'
import { createCheckpointFile, createKeeper, type Keeper } from '../audit/keeper.js'
import { createServerKey, type ServerKey } from '../audit/server-key.js'
import { createBearer, type Bearer } from '../auth/bearer.js'
import { createFailures, type Failures } from '../auth/failures.js'
import { createLimiter, type Limiter } from '../auth/limiter.js'
import { createProof, type Proof } from '../auth/proof.js'
import { createSecondFactors, type SecondFactors } from '../auth/second-factor.js'
import { createSealing } from './sealing.js'
import { createNamedTokens, type NamedTokens } from '../auth/named-tokens.js'
import { createNodeRequests, type NodeRequests } from '../auth/node-requests.js'
import { createRelayedCallers } from '../auth/relayed-callers.js'
import { openSessionKey } from '../auth/session-key.js'
import { Sessions } from '../auth/sessions.js'
import { createTickets, type Tickets } from '../auth/tickets.js'
import { elapsedOf, type Clock } from '../base/clock.js'
import type { Ids } from '../base/digests.js'
import type { Environment, Home } from '../config/home.js'
import type { ArchiveCopies, DeployNeeds } from '../deploy/needs.js'
import type { ClusterView } from '../model/cluster.js'
import type { ExpiringCertificate } from '../model/health.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { TokenLock } from '../model/token-advice.js'
import type { Store } from '../store/database.js'
import { findProject, findProjectByToken } from '../store/tables/projects.js'
import { createVariablesKey } from '../projects/variables-key.js'
import { createProbe, type Probe, type ProbeNeeds } from '../machine/probe.js'
import type { ServerKeys } from './cluster/keys.js'
import { createSettings, type Settings } from '../settings/settings.js'

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
  /** Paths of keys and passwords that were given to the server. They are never shown, wherever they are. */
  secretFiles?: readonly string[]
  version: string
  /** Base path of the server, as `normaliseBase` returns it. */
  base: string
  /** Public URL of the server, for links; null if it is not configured. */
  publicUrl: string | null
  /** The secret that marks requests which the agent of this server relays; absent: there is no agent. */
  relaySecret?: string | undefined
  /** Returns the certificates in use that expire soon or have expired. */
  certificates?: (() => ExpiringCertificate[]) | undefined
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
  listeners: { tokenLocked?(lock: TokenLock): void }
  proof: Proof
  allowList: AllowList
  bearer: Bearer
  probe: Probe
  /** Start time, as `elapsedOf` counts. */
  startedAtMs: number
}

const settingsTables = ['settings'] as const

/** Creates the front. It is built first, because it is all that a server needs to listen. */
export function createFront(
  { store, home, clock, ids, version, base, keys, relaySecret, cluster, log }: World,
  admin: AdminToken,
  { isRecovering }: Pick<ProbeNeeds, 'isRecovering'> = {}
): Front {
  const startedAtMs = elapsedOf(clock)
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
  const keeper = createKeeper({
    store,
    clock,
    ids,
    key: serverKey,
    onError: error => log('Cannot sign a checkpoint of the audit log', error),
    onCheckpoint: ({ note }) => checkpointFile.write(note)
  })
  const failures = createFailures({ store, clock, ids, onError })
  const limiter = createLimiter({ clock, onFailure: failures.note })
  const tickets = createTickets({ clock, ids })
  const named = createNamedTokens({
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
    sessions
  })
  const listeners: Front['listeners'] = {}
  const factors = createSecondFactors({
    store,
    clock,
    limiter,
    audit,
    sessions,
    endBearer: named.endBearer,
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
