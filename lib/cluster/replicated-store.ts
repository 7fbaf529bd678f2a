/*
 * The store of a hub in a cluster: the redo log is on etcd, and every hub has the database in memory. The leader writes;
 * the others follow the log and answer reads. A server without a cluster loads nothing of this.
 *
 * This file puts the parts together: the local database (local-copy.ts), the log (etcd-log.ts), the election
 * (election.ts), the hub that works with them (hub.ts), and what it tells and asks regularly (rounds.ts).
 */
import { type Clock, elapsedOf } from '../base/clock.js'
import { createHistogram } from '../base/histogram.js'
import { Refusal } from '../base/errors.js'
import type { Store, Transaction } from '../core/store/database.js'
import { type Disk, realDisk } from '../core/store/disk.js'
import { schemaVersion } from '../core/store/schema.js'
import { createElection } from './election.js'
import { createEtcdClient } from './etcd/client.js'
import { EtcdConnection, type EtcdOptions } from './etcd/connection.js'
import { explainEtcd, noLeader, notLeader } from './refusals.js'
import { EtcdLog } from './etcd-log.js'
import { Hub } from './hub.js'
import {
  createHubList,
  createHubTable,
  type HubAddress,
  type HubList,
  type HubPeers,
  type HubTable,
  type ListedHub,
  type OwnHub
} from './hub-list.js'
import { joinHistory, takeImage } from './joining.js'
import { createSealing, keysOf } from './sealing.js'
import { type LocalCopy, openLocalCopy } from './local-copy.js'
import { type Rounds, startRounds } from './rounds.js'
import type { KeyHolder } from './history.js'
import { type Changes, createChanges, createTurns } from './signals.js'

/** What this hub is at the moment. */
export interface HubRole {
  /**
   * `leader`: it writes. `follower`: it follows the log of the leader. `alone`: it does not hear of a leader, or cannot
   * follow its log, so its reads may be old and writes are refused.
   */
  kind: 'leader' | 'follower' | 'alone'
  leader: HubAddress | null
  /** Time since this hub knew that it had every acknowledged write; 0 for the leader. */
  staleMs: number
  /** The number of the last write in the memory of this hub that is durable. */
  sequence: number
  /** Why this hub cannot follow the log or lead, in a sentence; null if it can. */
  problem: string | null
  /** The same for programs (hub.ts). */
  reason: string | null
  /** Whether the problem may end by itself, for example because etcd answers again. */
  passes: boolean
}

/**
 * The store of a hub. `write` refuses 503 `not_leader` on a follower, and 503 `no_leader` if nobody can lead, because
 * there is no majority. It refuses 503 `write_unknown` if etcd did not say in time whether the write was accepted: then
 * it may appear later. `state()` is that of the database of this hub; whether it can follow and lead is its role.
 */
export interface ReplicatedStore extends Store {
  role(): HubRole
  /** Calls the listener when `kind`, `leader` or `problem` changes. Returns a function that ends the calls. */
  onRole(listener: (role: HubRole) => void): () => void
  /**
   * Resolves when `role().sequence` has reached the number, or rejects with the reason of the signal. Refuses
   * `database_newer` if this program is too old to follow.
   */
  reached(sequence: number, signal: AbortSignal): Promise<void>
  /** The hubs of the cluster as this hub knows them without asking etcd. */
  peers: HubPeers
  /** Returns the hubs of the cluster, by name. Refuses `no_leader` if etcd does not answer. */
  hubs(): Promise<ListedHub[]>
  /** Removes a hub that will not come back, so that the log is no longer kept for it. This one announces itself no more. */
  forgetHub(name: string): Promise<void>
  /** Keeps a key that the cluster may get (sealing.ts), on the disk, too. */
  expectKey(key: Buffer): Promise<void>
  /**
   * Replaces the key of the cluster; this hub leads. The holders have the key already, and are the hubs from then on. Refuses
   * `no_leader`, `write_unknown`.
   */
  rekey(key: Buffer, holders: readonly KeyHolder[]): Promise<void>
  /** Reaches etcd with other certificates and another password from now on. */
  renewEtcd(etcd: EtcdOptions): void
  /** Gives the leadership up if this hub has it: another hub leads then. Called by `close`, too. */
  resign(): Promise<void>
}

export interface ReplicatedStoreOptions {
  /** An existing directory that the caller owns. */
  directory: string
  disk?: Disk
  etcd: EtcdOptions
  /** Name of the cluster: part of every key in etcd. Lower-case letters, digits and hyphens. */
  cluster: string
  /** 32 bytes: the key that seals every value in etcd. */
  clusterKey: Buffer
  /** Keys that the cluster may have got meanwhile. */
  nextKeys?: readonly Buffer[] | undefined
  /** Keeps the key of the cluster, and those that may follow it, for the next start. */
  keepKeys?: (keys: readonly Buffer[]) => Promise<void>
  hub: OwnHub
  /**
   * Creates the log in etcd with the database of this directory as its beginning (`svc cluster init`). Refuses
   * `cluster_exists` if there is already one. Otherwise a missing log is refused (`cluster_missing`).
   */
  begin?: boolean
  /** Enters this hub into the list again: it took itself out, and did not finish. */
  isReturning?: boolean | undefined
  /**
   * Returns a database as a SQLite file from another hub: what `image()` returns there. It is needed by a new hub, and by
   * one that was away for so long that the log no longer contains what it lacks.
   */
  fetchImage?: (from: ListedHub, signal: AbortSignal) => Promise<AsyncIterable<Uint8Array>>
  clock?: Clock
  warn?: (sentence: string) => void
  /** Called with each new reason why the opening waits, for another hub or for etcd. */
  onWaiting?: (sentence: string) => void
  signal?: AbortSignal
  limits?: Partial<ClusterLimits>
}

/** Times and counts of a hub. */
export interface ClusterLimits {
  /** How long a leader that is gone still counts as the leader. */
  leaseSeconds: number
  /** How often a hub asks etcd who leads, and how far the log is. */
  probeMs: number
  /** Writes that the log keeps beyond what every hub has. */
  keptWrites: number
  /** Writes that the log keeps for a hub that is away. Then it needs an image of the database. */
  keptForAbsent: number
  trimMs: number
}

/** A lease of 4 s: after the death of a leader, another one writes within 6 s. */
const defaultLimits: ClusterLimits = {
  leaseSeconds: 4,
  probeMs: 2000,
  keptWrites: 10_000,
  keptForAbsent: 100_000,
  trimMs: 60_000
}
/** A hub that etcd does not answer opens with what it has after this time. */
const openAloneMs = 5000
/** How often a hub that waits at its opening looks whether there is another reason to report. */
const waitingMs = 2000
/** How long a hub leaves the leadership to one of a newer version. */
const holdBackMs = 500
const syncBounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]
const monotonic: Clock = { now: Date.now, elapsed: () => performance.now() }

/**
 * Opens the database of a hub. Resolves when it has followed the log to its end and has the schema of this program; or, if
 * etcd does not answer, after a while with what the hub has. Refuses like `openStore`, and `cluster_missing`,
 * `cluster_exists`, `cluster_sealed`, `image_needed`, `no_leader`.
 */
export async function openReplicatedStore(given: ReplicatedStoreOptions): Promise<ReplicatedStore> {
  let last = ''
  const onWaiting = (sentence: string): void => {
    if (sentence !== last) given.onWaiting?.((last = sentence))
  }
  const options = { ...given, onWaiting }
  const { directory, clock = monotonic, warn = () => {}, signal = new AbortController().signal } = options
  const limits = { ...defaultLimits, ...options.limits }
  const connection = new EtcdConnection(options.etcd)
  const client = createEtcdClient(connection)
  const ends: Array<() => unknown> = [() => connection.close()]
  try {
    const copy = await openLocalCopy({ directory, disk: options.disk ?? realDisk, clock, warn })
    ends.push(() => copy.close())
    const keeping = createTurns()
    const keepKeys = (): Promise<void> => keeping(async () => options.keepKeys?.(sealing.keys))
    const sealing = createSealing(options.clusterKey, {
      next: options.nextKeys,
      onUse: () =>
        void keepKeys().catch((error: Error) => warn(`Cannot keep the new key of the cluster: ${error.message}`))
    })
    const outside = { client, keys: keysOf(options.cluster), sealing }
    const history = await joinHistory({ ...outside, copy, options, signal })
    return await open({ ...options, clock, warn, signal, limits }, { ...outside, history, copy, connection, keepKeys })
  } catch (error) {
    for (const end of ends.reverse()) await end()
    throw explainEtcd(error, `Cannot open the database of the cluster "${options.cluster}"`)
  }
}

type Given = ReplicatedStoreOptions & {
  onWaiting: (sentence: string) => void
  clock: Clock
  warn: (sentence: string) => void
  signal: AbortSignal
  limits: ClusterLimits
}

type Parts = Parameters<typeof createHubList>[0] & {
  copy: LocalCopy
  connection: EtcdConnection
  /** Writes the keys of the cluster to the disk. */
  keepKeys(): Promise<void>
}

/** Creates what tells listeners when the role changes. */
function createRoles(role: () => HubRole) {
  const listeners = new Set<(role: HubRole) => void>()
  let told = ''
  return {
    tell(): void {
      const now = role()
      const text = JSON.stringify([now.kind, now.leader, now.problem])
      if (text === told) return
      told = text
      for (const listener of listeners) listener(now)
    },
    onRole(listener: (role: HubRole) => void): () => void {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    }
  }
}

function roleOf(hub: Hub, { applied: sequence }: LocalCopy, options: Given): HubRole {
  const { clock, limits } = options
  const { term, leader, commits, heardAtMs, freshAtMs, outdated } = hub.state
  const problem = hub.state.problem?.sentence ?? null
  const reason = hub.state.problem?.reason ?? null
  const passes = hub.state.problem?.passes ?? false
  const nowMs = elapsedOf(clock)
  if (term?.isValid === true && commits !== null) {
    const { name, url } = options.hub
    return { kind: 'leader', leader: { name, url }, staleMs: 0, sequence, problem, reason, passes }
  }
  const staleMs = Math.max(0, Math.round(nowMs - freshAtMs))
  const isHeard = nowMs - heardAtMs <= limits.leaseSeconds * 1000 + 2 * limits.probeMs
  // What a client changed through a hub it reads there: not if this hub reads another log, or none. An older program says so.
  const isAstray = problem !== null && outdated === null
  if (leader === null || leader.name === options.hub.name || !isHeard || isAstray) {
    return { kind: 'alone', leader: null, staleMs, sequence, problem, reason, passes }
  }
  const { name, url } = leader
  return { kind: 'follower', leader: { name, url }, staleMs, sequence, problem, reason, passes }
}

interface WorkNeeds {
  list: HubList
  observe(seconds: number): void
  onChange(): void
  stopping: AbortSignal
}

/** Creates the hub, with the log and the election that it works with. */
function createWork(options: Given, parts: Parts, { list, observe, onChange, stopping }: WorkNeeds) {
  const { clock, limits, warn } = options
  const { copy, connection } = parts
  /** The term for which the member that leads etcd was looked for. */
  let preferred = 0
  const election = createElection({ ...parts, hub: options.hub, leaseSeconds: limits.leaseSeconds, clock })
  const log = new EtcdLog({
    ...parts,
    seen: copy.belonging?.seen ?? null,
    leading: () => hub.state.term?.revision ?? null,
    onLeader: (found, asOf) => hub.onLeaderKey(found, asOf)
  })
  const hub: Hub = new Hub({
    hub: options.hub,
    copy,
    log,
    election,
    clock,
    warn,
    staleMs: copy.ageMs,
    observe,
    async fetchImage(signal) {
      await takeImage({ ...parts, options, signal })
      log.forget()
    },
    async holdBackMs() {
      const hubs = await list.list({ limitMs: holdBackMs }).catch(() => [])
      return hubs.some(({ schema }) => schema > schemaVersion) ? holdBackMs : 0
    },
    onChange() {
      onChange()
      const { term } = hub.state
      if (term === null || term.revision === preferred) return
      preferred = term.revision
      void connection.preferLeader(stopping)
    }
  })
  return { election, log, hub }
}

/** What works while the store is open. */
interface Working {
  hub: Hub
  copy: LocalCopy
  changes: Changes
  rounds: Rounds
  role(): HubRole
}

/** Resolves when the store is open: see `openReplicatedStore`. */
async function untilOpen({ hub, copy, changes, rounds }: Working, options: Given): Promise<void> {
  const aloneFrom = elapsedOf(options.clock) + openAloneMs
  const isReady = () => {
    const { outdated, isCaughtUp } = hub.state
    if (outdated !== null) throw outdated
    if (hub.state.removed !== null) throw hub.state.removed
    return copy.schema === schemaVersion && (isCaughtUp || elapsedOf(options.clock) >= aloneFrom)
  }
  const timer = setTimeout(changes.happened, openAloneMs + 1)
  // The other hubs must know that there is a newer one: then it is elected before them.
  const ask = () => rounds.announce().then(() => options.onWaiting(whyWaiting(hub, copy)))
  const asking = setInterval(() => void ask(), waitingMs)
  try {
    await changes.until(isReady, options.signal)
  } finally {
    clearTimeout(timer)
    clearInterval(asking)
  }
}

function whyWaiting({ state: { leader, problem, isCaughtUp } }: Hub, copy: LocalCopy): string {
  if (problem !== null) return problem.sentence
  if (!isCaughtUp) return 'This hub waits for etcd'
  return `This hub waits: the cluster has schema version ${copy.schema}, and this svc needs ${schemaVersion}. It is migrated when a hub of this version leads${leader === null ? '' : `. Stop "${leader.name}" to upgrade it`}`
}

/** The part of the store that asks the database of this hub alone. */
function localPart(hub: Hub, copy: LocalCopy) {
  const { memory } = copy
  return {
    get: (sql, ...values) => memory.get().get(sql, ...values),
    all: (sql, ...values) => memory.get().all(sql, ...values),
    state() {
      // A follower does not write, so an earlier failure is past.
      const failure = hub.state.commits !== null || memory.isGone ? memory.failure : null
      const error = copy.pages.damage?.message ?? failure
      return { ok: error === null, path: copy.path, error }
    },
    revision: () => memory.revision,
    sequence: () => copy.applied,
    follow: table => memory.follow(table),
    version: tables => memory.versions.of(tables),
    checkpoint: () => copy.checkpoint(),
    image: at => copy.image(at)
  } satisfies Partial<Store>
}

/** Writes while this hub leads: see `Store.write`. */
async function write<T>({ hub, copy, role }: Working, work: (tx: Transaction) => T): Promise<T> {
  if (copy.pages.damage !== null) throw copy.pages.damage
  const { term, commits } = hub.state
  if (term?.isValid !== true || commits === null) {
    const now = role()
    throw now.kind === 'follower' && now.leader !== null ? notLeader(now.leader) : noLeader(now)
  }
  copy.memory.ensure()
  const { result, text } = copy.memory.execute(work)
  await (text === null ? commits.settled() : commits.push(text))
  return result
}

async function open(options: Given, parts: Parts): Promise<ReplicatedStore> {
  const { clock, warn } = options
  const { copy, connection } = parts
  const list = createHubList(parts)
  const appends = createHistogram(syncBounds)
  const stop = new AbortController()
  const changes = createChanges()
  const role = (): HubRole => roleOf(hub, copy, options)
  const roles = createRoles(role)
  const { election, log, hub } = createWork(options, parts, {
    list,
    observe: seconds => appends.observe(seconds),
    onChange() {
      changes.happened()
      roles.tell()
    },
    stopping: stop.signal
  })
  let closing: Promise<void> | null = null
  let isLeaving = false
  const table = createHubTable({
    ...parts,
    list,
    clock,
    own: options.hub.name,
    onChange: () => {
      if (!isLeaving) checkEntry(table.own(), hub, options)
    }
  })
  const following = table.run(stop.signal)
  const rounds = startRounds({ ...parts, hub, election, log, list, table, options, onRound: roles.tell })
  const running = hub.run(stop.signal)
  running.catch((error: Error) => warn(`This hub has stopped: ${error.message}`))

  async function end(): Promise<void> {
    rounds.stop()
    await hub.state.commits?.settled().catch(() => {})
    stop.abort()
    await Promise.all([running.catch(() => {}), following])
    if (log.seen !== null) await copy.note(log.seen).catch(() => {})
    await copy.close()
    connection.close()
    roles.tell()
  }

  const working = { hub, copy, changes, rounds, role }
  try {
    await untilOpen(working, options)
    await rounds.announce()
  } catch (error) {
    rounds.stop()
    stop.abort()
    await running.catch(() => {})
    throw error
  }

  return {
    ...localPart(hub, copy),
    peers: table,
    async write(work) {
      if (closing !== null)
        throw new Refusal('unavailable', 'shutting_down', 'The change was not saved: the service is stopping')
      return write(working, work)
    },
    syncs: appends.figures,
    close: () => (closing ??= end()),
    role,
    onRole: roles.onRole,
    reached: (sequence, signal) =>
      changes.until(() => {
        if (hub.state.outdated !== null) throw hub.state.outdated
        return copy.applied >= sequence
      }, signal),
    async hubs(): Promise<ListedHub[]> {
      return list.list().catch((error: unknown) => {
        throw explainEtcd(error, 'Cannot read the list of hubs in etcd')
      })
    },
    async forgetHub(name) {
      // It would announce itself again.
      isLeaving = name === options.hub.name
      if (isLeaving) rounds.stop()
      await list.forget(name).catch((error: unknown) => {
        throw explainEtcd(error, `Cannot remove the hub "${name}" from the list in etcd`)
      })
    },
    async expectKey(key) {
      parts.sealing.expect(key)
      await parts.keepKeys()
    },
    async rekey(key, holders) {
      await hub.rekey({ key, holders })
      await parts.keepKeys()
      await rounds.announce()
    },
    renewEtcd: etcd => connection.renew(etcd),
    resign: () => hub.resign()
  }
}

/** Removes this hub if its entry in the list is gone (null) or is that of another machine. */
function checkEntry(own: ReturnType<HubTable['own']>, hub: Hub, options: Given): void {
  const publicKey = own?.hub?.publicKey ?? options.hub.publicKey
  if (own === null) hub.remove(removed(options))
  else if (publicKey !== options.hub.publicKey) hub.remove(replaced(options))
}

function removed({ cluster, hub }: Given): Refusal {
  const sentence = `"${hub.name}" is not a hub of the cluster "${cluster}" any more: it was removed with "svc cluster forget", or etcd was restored to a state before it joined. Nothing was changed here. To return, let it join again with an empty data directory: svc cluster join`
  return new Refusal('conflict', 'hub_removed', sentence)
}

function replaced({ cluster, hub }: Given): Refusal {
  const sentence = `Another machine is the hub "${hub.name}" of the cluster "${cluster}" now: the key of this one is not in etcd any more. Nothing was changed here. Choose another --hub-name, and let it join again with an empty data directory`
  return new Refusal('conflict', 'hub_removed', sentence)
}
