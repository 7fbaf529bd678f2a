/*
 * What a hub does regularly: it asks etcd who leads and how far the log is (a watch of a member that lost the others
 * says nothing, and would look like a quiet log), says how far it is itself, and trims the log if it leads.
 */
import { type Clock, elapsedOf, instantOf } from '../base/clock.js'
import { schemaVersion } from '../core/store/schema.js'
import type { Election } from './election.js'
import { endOfPrefix, type EtcdClient } from './etcd/client.js'
import type { EtcdConnection } from './etcd/connection.js'
import type { EtcdLog } from './etcd-log.js'
import type { Hub } from './hub.js'
import type { HubList, HubTable, OwnHub } from './hub-list.js'
import type { ClusterKeys } from './sealing.js'
import type { LocalCopy } from './local-copy.js'
import { pause } from './signals.js'

export interface RoundsNeeds {
  client: EtcdClient
  connection: EtcdConnection
  keys: ClusterKeys
  hub: Hub
  election: Election
  log: EtcdLog
  list: HubList
  table: HubTable
  copy: Pick<LocalCopy, 'applied' | 'note'>
  options: {
    hub: OwnHub
    clock: Clock
    warn: (sentence: string) => void
    limits: { probeMs: number; trimMs: number; keptWrites: number; keptForAbsent: number }
  }
  /** Called after each probe. */
  onRound: () => void
}

/** A hub says how far it is after this time if that has changed, and three times as rarely otherwise. */
const announceMs = 5000
/** The leader looks after this time which member leads etcd, and sends its appends there. */
const preferMs = 30_000
/** If etcd's database uses more, the log is no longer kept for hubs that are away. */
const crowdedBytes = 512 * 1024 * 1024

export type Rounds = ReturnType<typeof startRounds>

/** Starts the rounds; they end with `stop`. */
export function startRounds(needs: RoundsNeeds) {
  const { client, connection, keys, hub, election, log, list, table, copy, options } = needs
  const { clock, limits } = options
  const stopping = new AbortController()
  const { signal } = stopping
  /** What the log had beyond this hub at the last probe. */
  let behindAt: number | null = null
  /** The revision of etcd at the last probe. It only grows, unless etcd is restored from a snapshot. */
  let newest = 0

  async function probe(): Promise<void> {
    const askedAtMs = elapsedOf(clock)
    // Nobody but this hub appends while it leads. The history of an empty log is no line.
    const ownEnd = hub.state.term === null ? 0 : keys.numberOf(log.endKey ?? '') || 0
    const { revision, ranges } = await client.transact(
      {
        when: [],
        then: [
          { range: { key: keys.leader } },
          { range: { key: keys.log, end: endOfPrefix(keys.log), limit: 1, isDescending: true, isKeysOnly: true } },
          { range: { key: keys.hubs, end: endOfPrefix(keys.hubs) } }
        ]
      },
      { limitMs: 2 * limits.probeMs, signal }
    )
    const [[leader] = [], [last] = [], hubs = []] = ranges
    const lastLine = last === undefined ? 0 : keys.numberOf(last.key)
    // A snapshot may bring back the key of the leader with its lease, and revisions grow again at once.
    if (revision < newest || lastLine < ownEnd) {
      table.restart()
      hub.goBack()
    }
    newest = revision
    table.learn(hubs, { revision, askedAtMs })
    const found = leader === undefined ? null : election.readLeader(leader)
    hub.learn({ leader: found, lastLine, asOf: revision, askedAtMs })
    const isBehind = hub.state.term === null && lastLine > copy.applied
    if (isBehind && behindAt === copy.applied) hub.restart()
    behindAt = isBehind ? copy.applied : null
    if (hub.state.isFull) await trim()
  }

  let announced = -1
  let quiet = 0
  async function announce(): Promise<void> {
    const own = table.own()
    if ((!hub.state.isCaughtUp && hub.state.term === null) || own == null) return
    // Without `hub`, the entry is sealed with an earlier key, which other hubs cannot read: it is announced again.
    if (copy.applied === announced && own.hub !== null && ++quiet % 3 !== 0) return
    const { applied } = copy
    const hubNow = { ...options.hub, applied, seenAt: instantOf(clock), schema: schemaVersion }
    const isThere = await list.announce(hubNow, own.createRevision, { limitMs: announceMs, signal })
    if (isThere) announced = applied
    if (log.seen !== null) await copy.note(log.seen)
  }

  let trimmed = 0
  async function trim(): Promise<void> {
    if (hub.state.term === null) return
    const hubs = await list.list({ signal })
    const least = Math.min(copy.applied, ...hubs.map(({ applied }) => applied))
    const isCrowded = hub.state.isFull || (await client.usedBytes({ signal })) > crowdedBytes
    const keptForAbsent = isCrowded ? limits.keptWrites : limits.keptForAbsent
    const upTo = Math.max(least - limits.keptWrites, copy.applied - keptForAbsent)
    if (upTo <= trimmed || hub.state.term === null) return
    await log.trim(upTo)
    trimmed = upTo
  }

  async function prefer(): Promise<void> {
    if (hub.state.term !== null) await connection.preferLeader(signal)
  }

  /** Repeats work with pauses. A failure is left to the next round: etcd may be away for a while. */
  async function repeat(work: () => Promise<void>, everyMs: number, after: () => void = () => {}): Promise<void> {
    while (!signal.aborted) {
      await work().catch(() => {})
      after()
      await pause(everyMs, signal)
    }
  }

  void repeat(probe, limits.probeMs, () => signal.aborted || needs.onRound())
  void repeat(announce, announceMs)
  void repeat(trim, limits.trimMs)
  void repeat(prefer, preferMs)
  return {
    /** Says how far this hub is, now. */
    announce: (): Promise<void> => announce().catch(() => {}),
    stop: (): void => stopping.abort()
  }
}
