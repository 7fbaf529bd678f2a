/*
 * What a hub does all the time: it follows the log, tries to lead when nobody does, and leads.
 *
 *   following   applies the lines of the log as they appear; knows the leader from the same watch
 *   leading     its term is valid; it appends, renews its lease, trims the log
 *
 * A hub that wins an election first reads the log to its end: after its key exists, no earlier leader can append. When it
 * stops leading, waiting writes are refused and memory is rebuilt from the disk before it follows again.
 */

import { type Clock, elapsedOf } from '../base/clock.js'
import { Refusal } from '../base/errors.js'
import { createGroupCommit, type GroupCommit } from '../core/store/group-commit.js'
import { DivergedLog, encodeTransaction, Trimmed } from '../core/store/redo.js'
import { migrationCall, migrationOf, schemaVersion } from '../core/store/schema.js'
import type { Election, Leader, Term } from './election.js'
import type { KeyValue } from './etcd/client.js'
import { EtcdError, noLeader, type Problem, problemOf, refusalOf } from './etcd/errors.js'
import type { EtcdLog } from './etcd-log.js'
import type { HubAddress } from './hub-list.js'
import type { LocalCopy } from './local-copy.js'
import { aborted, createSignal, pause } from './signals.js'

/** What is known of the cluster at the moment. */
export interface HubState {
  /** The term of this hub; null while it does not lead. */
  readonly term: Term | null
  readonly leader: Leader | null
  /** When this hub last knew that it had every durable write, and that there was a leader; by `elapsedOf(clock)`. */
  readonly freshAtMs: number
  readonly heardAtMs: number
  /** Why this hub cannot follow; null if it can. */
  readonly problem: Problem | null
  /** The queue of writes while this hub leads. */
  readonly commits: GroupCommit | null
  /** Whether this hub has read the log to its end since it began to follow. */
  readonly isCaughtUp: boolean
  /** Why this program is too old for the database of the cluster; null if it is not. */
  readonly outdated: Refusal | null
  /** Why this hub is not part of the cluster any more; null if it is. */
  readonly removed: Refusal | null
  /** Whether etcd refused the last write of this hub because it has no space left. */
  readonly isFull: boolean
}

/** The work of a hub. */
export interface Hub {
  readonly state: HubState
  /** Begins; ends when the signal aborts. Rejects only because of a bug. */
  run(signal: AbortSignal): Promise<void>
  /** Takes over what a probe found: the leader's key, and the number of the last line. */
  learn(found: Probed): void
  /** Takes over the leader's key (null: there is none) as of a revision of etcd. */
  onLeaderKey(found: Pick<KeyValue, 'value' | 'createRevision'> | null, asOf: number): void
  /** Follows again from where it is, in case the watch is dead. */
  restart(): void
  /** etcd was restored from a snapshot: revisions that were seen mean nothing, and a term may be one of before. */
  goBack(): void
  /** This hub was removed from the cluster: from now on it neither follows nor leads. */
  remove(why: Refusal): void
  /** Replaces the key of the cluster between two writes. Refuses `no_leader`, `write_unknown`. */
  rekey(given: Parameters<EtcdLog['rekey']>[1]): Promise<void>
  /** Stops leading, if it leads, and waits until the lease is given up. */
  resign(): Promise<void>
}

/** What a probe found. */
export interface Probed {
  leader: Leader | null
  /** The number of the last line; 0 if there is none. */
  lastLine: number
  /** The revision of etcd at that moment. */
  asOf: number
  askedAtMs: number
}

export interface HubNeeds {
  hub: HubAddress
  copy: LocalCopy
  log: EtcdLog
  election: Election
  clock: Clock
  /** How old the database was when it was opened. */
  staleMs: number
  /** Observes the duration of an append, in seconds. */
  observe: (seconds: number) => void
  /** Replaces the database by that of another hub. */
  fetchImage: (signal: AbortSignal) => Promise<void>
  /** Returns how long to wait before a campaign, because a newer hub should lead. */
  holdBackMs: () => Promise<number>
  /** Called after each change of the state. */
  onChange: () => void
  warn: (sentence: string) => void
}

/** Pause after a failure before the hub follows or campaigns again. */
const againMs = 500
/** A hub that has resigned gives the others this time to be elected. */
const resignedMs = 3000
/** Pause after a failure that only a person ends. */
const stuckMs = 5000

/** Creates a hub that does nothing before `run`. */
export function createHub(needs: HubNeeds): Hub {
  const { copy, log, election, clock, onChange, warn } = needs
  let term: Term | null = null
  let leader: Leader | null = null
  let commits: GroupCommit | null = null
  let problem: Problem | null = null
  let freshAtMs = elapsedOf(clock) - needs.staleMs
  let heardAtMs = -Infinity
  let vacant = createSignal()
  let following: AbortController | null = null
  let isCaughtUp = false
  let isFull = false
  let outdated: Refusal | null = null
  let leaderAsOf = 0
  let termSinceMs = 0
  let notBeforeMs = -Infinity
  let removed: Refusal | null = null

  function setProblem(next: Problem | null): void {
    if (next?.sentence === problem?.sentence || removed !== null) return
    problem = next
    if (next !== null) warn(next.sentence)
    onChange()
  }

  function setLeader(next: Leader | null, asOf: number): void {
    // A probe may be answered after the watch has reported something newer.
    if (asOf < leaderAsOf) return
    leaderAsOf = asOf
    if (next?.revision === leader?.revision) return
    leader = next
    if (next === null) vacant.fire()
    onChange()
  }

  /** Follows the log until this hub may lead, the log fails, or the signal aborts. Returns the term that was won. */
  async function followUntilElected(signal: AbortSignal): Promise<Term | null> {
    const stop = new AbortController()
    const end = () => stop.abort()
    signal.addEventListener('abort', end)
    following = stop
    isCaughtUp = false
    const reading = log.follow(copy.applied, {
      signal: stop.signal,
      async take(line) {
        refuseNewer(line.transactions)
        await copy.apply(line)
        copy.consider()
        onChange()
      }
    })
    const ended = reading.then(
      () => null,
      (error: unknown) => error ?? new Error('the log ended')
    )
    try {
      for (;;) {
        const failed = await Promise.race([ended, vacant.wait(stop.signal).then(() => 'vacant' as const)])
        if (failed !== 'vacant') {
          if (failed !== null && !signal.aborted) throw failed
          return null
        }
        if (stop.signal.aborted) return null
        const won = await campaign(stop.signal)
        if (won !== null) return won
      }
    } finally {
      following = null
      stop.abort()
      signal.removeEventListener('abort', end)
      await ended
    }
  }

  async function campaign(signal: AbortSignal): Promise<Term | null> {
    vacant = createSignal()
    try {
      if (!isCaughtUp) return null
      if (copy.fault !== null) await copy.heal()
      await pause(Math.max(await needs.holdBackMs(), notBeforeMs - elapsedOf(clock)), signal)
      if (leader !== null || signal.aborted) return null
      const won = await election.campaign(signal)
      if (won === null) {
        // The watch or the next probe says who leads, or that the key is gone again.
        await pause(againMs, signal)
        if (leader === null) vacant.fire()
      }
      return won
    } catch (error) {
      if (signal.aborted) return null
      await pause(againMs, signal)
      if (leader === null) vacant.fire()
      if (error instanceof Refusal) throw error
      return null
    }
  }

  /** Leads until the term has ended. */
  async function lead(won: Term, signal: AbortSignal): Promise<void> {
    term = won
    termSinceMs = elapsedOf(clock)
    const end = () => won.abandon()
    try {
      setLeader({ ...needs.hub, revision: won.revision }, won.revision)
      await log.catchUp(copy.applied, {
        signal: won.lost,
        async take(line) {
          refuseNewer(line.transactions)
          await copy.apply(line)
        }
      })
      if (copy.schema < schemaVersion && !won.lost.aborted) await migrate()
      if (won.lost.aborted || signal.aborted) return
      setProblem(null)
      commits = createLeaderQueue({
        ...needs,
        won,
        onDurable() {
          isFull = false
          onChange()
        },
        onFailure: error => void (isFull = error instanceof EtcdError && error.isFull)
      })
      copy.commits = commits
      onChange()
      signal.addEventListener('abort', end)
      await aborted(won.lost)
    } catch (error) {
      if (!won.lost.aborted) throw error
    } finally {
      signal.removeEventListener('abort', end)
      term = null
      if (leader?.revision === won.revision) setLeader(null, leaderAsOf)
      onChange()
      // What still waits is refused at once, because this hub has no term.
      await commits?.settled().catch(() => {})
      commits = null
      copy.commits = null
      await won.resign()
    }
  }

  /** Lets every hub migrate to the schema of this program: they do it when they read this line. */
  async function migrate(): Promise<void> {
    const calls = [migrationCall()]
    await log.append(copy.applied + 1, [encodeTransaction(calls)])
    await copy.apply({ first: copy.applied + 1, transactions: [calls] })
  }

  function refuseNewer(transactions: LineTransactions): void {
    for (const calls of transactions) {
      const version = migrationOf(calls) ?? 0
      if (version > schemaVersion) throw (outdated = newer(version))
    }
  }

  /** Decides what to do about an error of the log. Returns after the cure, or after a pause. */
  async function cure(error: unknown, signal: AbortSignal): Promise<void> {
    if (error instanceof Trimmed) {
      warn(`${error.message}. This hub takes a copy of the database of another hub`)
      await needs.fetchImage(signal)
      setProblem(null)
    } else {
      setProblem(problemOf(error))
      await pause(error instanceof Refusal || error instanceof DivergedLog ? stuckMs : againMs, signal)
    }
  }

  return {
    state: {
      get term() {
        return term
      },
      get leader() {
        return leader
      },
      get freshAtMs() {
        return freshAtMs
      },
      get heardAtMs() {
        return heardAtMs
      },
      get problem() {
        return problem
      },
      get commits() {
        return commits
      },
      get isCaughtUp() {
        return isCaughtUp
      },
      get outdated() {
        return outdated
      },
      get removed() {
        return removed
      },
      get isFull() {
        return isFull
      }
    },
    async run(signal) {
      while (!signal.aborted) {
        if (removed !== null) return aborted(signal)
        try {
          const won = await followUntilElected(signal)
          if (won !== null) await lead(won, signal)
        } catch (error) {
          if (signal.aborted || removed !== null) continue
          await cure(error, signal).catch((failed: unknown) => {
            setProblem(problemOf(failed))
            return pause(againMs, signal)
          })
        }
      }
    },
    learn({ leader: found, lastLine, asOf, askedAtMs }) {
      if (removed !== null) return
      setLeader(found, asOf)
      if (term !== null && askedAtMs > termSinceMs && found?.revision !== term.revision) term.abandon()
      if (found === null) {
        if (term === null) vacant.fire()
        return
      }
      heardAtMs = Math.max(heardAtMs, askedAtMs)
      const follows = isCaughtUp || term !== null
      if (follows && lastLine <= copy.applied && problem === null) freshAtMs = Math.max(freshAtMs, askedAtMs)
    },
    onLeaderKey(found, asOf) {
      if (!isCaughtUp) {
        isCaughtUp = true
        setProblem(null)
        freshAtMs = elapsedOf(clock)
      }
      setLeader(found === null ? null : election.readLeader(found), asOf)
      if (found !== null) heardAtMs = elapsedOf(clock)
      else if (term === null) vacant.fire()
      onChange()
    },
    restart: () => following?.abort(),
    goBack() {
      leaderAsOf = 0
      term?.abandon()
      following?.abort()
    },
    remove(why) {
      if (removed !== null) return
      setProblem(problemOf(why))
      removed = why
      term?.abandon()
      following?.abort()
      leader = null
      onChange()
    },
    async rekey(given) {
      if (commits === null) throw noLeader({ ...problem, problem: problem?.sentence ?? null })
      await commits
        .between(() => log.rekey(copy.applied, given))
        .catch((error: unknown) => {
          const { refusal, endsTerm } = refusalOf(error)
          if (endsTerm) term?.abandon()
          throw refusal
        })
    },
    async resign() {
      notBeforeMs = elapsedOf(clock) + resignedMs
      await term?.resign()
    }
  }
}

type LineTransactions = Parameters<typeof migrationOf>[0][]

function newer(version: number): Refusal {
  return new Refusal(
    'unsupported',
    'database_newer',
    `This hub stops following: the cluster was migrated to schema version ${version}, but this svc supports at most ${schemaVersion}. Install the newer svc on this hub`
  )
}

export interface LeaderQueueNeeds {
  copy: LocalCopy
  log: Pick<EtcdLog, 'append'>
  /** The term of this hub. It is given up when memory and the log may differ. */
  won: Pick<Term, 'abandon'>
  /** Observes the duration of an append, in seconds. */
  observe: (seconds: number) => void
  /** Called when a line is durable, and when one was refused. */
  onDurable: () => void
  onFailure: (error: unknown) => void
}

/**
 * Creates the queue of the writes of a leader: a line is first appended to the log in etcd, and then written to the redo
 * log of this hub.
 */
export function createLeaderQueue({ copy, log, won, observe, onDurable, onFailure }: LeaderQueueNeeds): GroupCommit {
  return createGroupCommit({
    durable: copy.applied,
    async append(first, transactions) {
      const fromMs = performance.now()
      await log.append(first, transactions)
      observe((performance.now() - fromMs) / 1000)
      await copy.record(first, transactions)
      if (copy.fault !== null) won.abandon()
    },
    onDurable() {
      copy.memory.succeed()
      copy.consider()
      onDurable()
    },
    onFailure(error) {
      const { refusal, endsTerm } = refusalOf(error)
      onFailure(error)
      const expected = copy.applied
      const failure = copy.memory.fail(refusal)
      if (endsTerm || copy.applied !== expected) won.abandon()
      return failure
    }
  })
}
