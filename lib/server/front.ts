import type { AdminToken } from '../access/admin-token.js'
import { type AllowList, createAllowList, createFailures, type Failures } from '../access/failures.js'
import { type Audit, createAudit } from '../core/audit/audit.js'
import { createCheckpointFile, Keeper } from '../core/audit/keeper.js'
import { type Bearer, createBearer, createRelayedCallers } from '../access/bearer.js'
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
import { openSessionKey } from '../access/session-key.js'
import { Sessions } from '../access/sessions.js'
import { createTickets, type Tickets } from '../access/secret.js'
import type { TokenLock } from '../model/access.js'
import type { Reader } from '../core/store/database.js'
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
import { createSettings, type Settings } from '../projects/settings.js'
import { createServerKey, type ServerKey } from '../core/audit/signed-note.js'
import type { Probe } from '../operate/machine/probe.js'
import { type Probing, createHealthProbe } from './listener.js'
import type { World } from './world.js'

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
  /** Returns a text that changes whenever a caller may have lost rights otherwise than by the passing of time. */
  rights(): string
  probe: Probe
  /** Start time, as `elapsedOf` counts. */
  startedAtMs: number
}

const settingsTables = ['settings'] as const
const rightsTables = ['tokens', 'secondFactors', 'sessions', 'projects', 'settings', 'nodes'] as const

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

/** Creates the front. The last argument is the probe, if it answers already. */
export function createFront(
  world: World,
  admin: AdminToken,
  { probe, startedAtMs }: Probing = createHealthProbe(world, admin)
): Front {
  const { store, home, clock, ids, base, keys, relaySecret } = world
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
    key: keys?.session ?? world.sessionKey ?? openSessionKey(home),
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
    onLocked({ tokenId, lockedUntil }) {
      const token = named.list().find(({ id }) => id === tokenId)
      if (token !== undefined) listeners.tokenLocked?.({ token, lockedUntil })
    },
    sealing: createSealing(store, keys?.variables ?? createVariablesKey(home.variablesKey), 'second factor')
  })
  const proof = createProof({ clock, minutes: () => settings.number('proof_minutes') })
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
    rights: () => `${store.version(rightsTables)}-${admin.current()}`,
    probe,
    startedAtMs
  }
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
