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
import { EtcdError } from './etcd/connection.js'
import { noLeader, type Problem, problemOf, refusalOf } from './refusals.js'
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

/** The work of a hub. It does nothing before `run`. */
export class Hub {
  readonly #needs: HubNeeds
  readonly #state: { -readonly [Key in keyof HubState]: HubState[Key] }
  #vacant = createSignal()
  #following: AbortController | null = null
  #leaderAsOf = 0
  #termSinceMs = 0
  #notBeforeMs = -Infinity

  constructor(needs: HubNeeds) {
    this.#needs = needs
    this.#state = {
      term: null,
      leader: null,
      commits: null,
      problem: null,
      freshAtMs: elapsedOf(needs.clock) - needs.staleMs,
      heardAtMs: -Infinity,
      isCaughtUp: false,
      isFull: false,
      outdated: null,
      removed: null
    }
  }

  get state(): HubState {
    return this.#state
  }

  /** Begins; ends when the signal aborts. Rejects only because of a bug. */
  async run(signal: AbortSignal): Promise<void> {
    const state = this.#state
    while (!signal.aborted) {
      if (state.removed !== null) return aborted(signal)
      try {
        const won = await this.#followUntilElected(signal)
        if (won !== null) await this.#lead(won, signal)
      } catch (error) {
        if (signal.aborted || state.removed !== null) continue
        await this.#cure(error, signal).catch((failed: unknown) => {
          this.#setProblem(problemOf(failed))
          return pause(againMs, signal)
        })
      }
    }
  }

  /** Takes over what a probe found: the leader's key, and the number of the last line. */
  learn({ leader: found, lastLine, asOf, askedAtMs }: Probed): void {
    const state = this.#state
    if (state.removed !== null) return
    this.#setLeader(found, asOf)
    if (state.term !== null && askedAtMs > this.#termSinceMs && found?.revision !== state.term.revision)
      state.term.abandon()
    if (found === null) {
      if (state.term === null) this.#vacant.fire()
      return
    }
    state.heardAtMs = Math.max(state.heardAtMs, askedAtMs)
    const follows = state.isCaughtUp || state.term !== null
    if (follows && lastLine <= this.#needs.copy.applied && state.problem === null)
      state.freshAtMs = Math.max(state.freshAtMs, askedAtMs)
  }

  /** Takes over the leader's key (null: there is none) as of a revision of etcd. */
  onLeaderKey(found: Pick<KeyValue, 'value' | 'createRevision'> | null, asOf: number): void {
    const state = this.#state
    const { clock, election, onChange } = this.#needs
    if (!state.isCaughtUp) {
      state.isCaughtUp = true
      this.#setProblem(null)
      state.freshAtMs = elapsedOf(clock)
    }
    this.#setLeader(found === null ? null : election.readLeader(found), asOf)
    if (found !== null) state.heardAtMs = elapsedOf(clock)
    else if (state.term === null) this.#vacant.fire()
    onChange()
  }

  /** Follows again from where it is, in case the watch is dead. */
  restart(): void {
    this.#following?.abort()
  }

  /** etcd was restored from a snapshot: revisions that were seen mean nothing, and a term may be one of before. */
  goBack(): void {
    this.#leaderAsOf = 0
    this.#state.term?.abandon()
    this.#following?.abort()
  }

  /** This hub was removed from the cluster: from now on it neither follows nor leads. */
  remove(why: Refusal): void {
    const state = this.#state
    if (state.removed !== null) return
    this.#setProblem(problemOf(why))
    state.removed = why
    state.term?.abandon()
    this.#following?.abort()
    state.leader = null
    this.#needs.onChange()
  }

  /** Replaces the key of the cluster between two writes. Refuses `no_leader`, `write_unknown`. */
  async rekey(given: Parameters<EtcdLog['rekey']>[1]): Promise<void> {
    const state = this.#state
    const { log, copy } = this.#needs
    if (state.commits === null) throw noLeader({ ...state.problem, problem: state.problem?.sentence ?? null })
    await state.commits
      .between(() => log.rekey(copy.applied, given))
      .catch((error: unknown) => {
        const { refusal, endsTerm } = refusalOf(error)
        if (endsTerm) state.term?.abandon()
        throw refusal
      })
  }

  /** Stops leading, if it leads, and waits until the lease is given up. */
  async resign(): Promise<void> {
    this.#notBeforeMs = elapsedOf(this.#needs.clock) + resignedMs
    await this.#state.term?.resign()
  }

  #setProblem(next: Problem | null): void {
    const state = this.#state
    const { warn, onChange } = this.#needs
    if (next?.sentence === state.problem?.sentence || state.removed !== null) return
    state.problem = next
    if (next !== null) warn(next.sentence)
    onChange()
  }

  #setLeader(next: Leader | null, asOf: number): void {
    const state = this.#state
    // A probe may be answered after the watch has reported something newer.
    if (asOf < this.#leaderAsOf) return
    this.#leaderAsOf = asOf
    if (next?.revision === state.leader?.revision) return
    state.leader = next
    if (next === null) this.#vacant.fire()
    this.#needs.onChange()
  }

  /** Follows the log until this hub may lead, the log fails, or the signal aborts. Returns the term that was won. */
  async #followUntilElected(signal: AbortSignal): Promise<Term | null> {
    const { log, copy, onChange } = this.#needs
    const stop = new AbortController()
    const end = () => stop.abort()
    signal.addEventListener('abort', end)
    this.#following = stop
    this.#state.isCaughtUp = false
    const reading = log.follow(copy.applied, {
      signal: stop.signal,
      take: async line => {
        this.#refuseNewer(line.transactions)
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
        const failed = await Promise.race([ended, this.#vacant.wait(stop.signal).then(() => 'vacant' as const)])
        if (failed !== 'vacant') {
          if (failed !== null && !signal.aborted) throw failed
          return null
        }
        if (stop.signal.aborted) return null
        const won = await this.#campaign(stop.signal)
        if (won !== null) return won
      }
    } finally {
      this.#following = null
      stop.abort()
      signal.removeEventListener('abort', end)
      await ended
    }
  }

  async #campaign(signal: AbortSignal): Promise<Term | null> {
    const state = this.#state
    const { copy, clock, election } = this.#needs
    this.#vacant = createSignal()
    try {
      if (!state.isCaughtUp) return null
      if (copy.fault !== null) await copy.heal()
      await pause(Math.max(await this.#needs.holdBackMs(), this.#notBeforeMs - elapsedOf(clock)), signal)
      if (state.leader !== null || signal.aborted) return null
      const won = await election.campaign(signal)
      if (won === null) {
        // The watch or the next probe says who leads, or that the key is gone again.
        await pause(againMs, signal)
        if (state.leader === null) this.#vacant.fire()
      }
      return won
    } catch (error) {
      if (signal.aborted) return null
      await pause(againMs, signal)
      if (state.leader === null) this.#vacant.fire()
      if (error instanceof Refusal) throw error
      return null
    }
  }

  /** Leads until the term has ended. */
  async #lead(won: Term, signal: AbortSignal): Promise<void> {
    const state = this.#state
    const { clock, log, copy, onChange } = this.#needs
    state.term = won
    this.#termSinceMs = elapsedOf(clock)
    const end = () => won.abandon()
    try {
      this.#setLeader({ ...this.#needs.hub, revision: won.revision }, won.revision)
      await log.catchUp(copy.applied, {
        signal: won.lost,
        take: async line => {
          this.#refuseNewer(line.transactions)
          await copy.apply(line)
        }
      })
      if (copy.schema < schemaVersion && !won.lost.aborted) await this.#migrate()
      if (won.lost.aborted || signal.aborted) return
      this.#setProblem(null)
      state.commits = createLeaderQueue({
        ...this.#needs,
        won,
        onDurable: () => {
          state.isFull = false
          onChange()
        },
        onFailure: error => void (state.isFull = error instanceof EtcdError && error.isFull)
      })
      copy.commits = state.commits
      onChange()
      signal.addEventListener('abort', end)
      await aborted(won.lost)
    } catch (error) {
      if (!won.lost.aborted) throw error
    } finally {
      signal.removeEventListener('abort', end)
      state.term = null
      if (state.leader?.revision === won.revision) this.#setLeader(null, this.#leaderAsOf)
      onChange()
      // What still waits is refused at once, because this hub has no term.
      await state.commits?.settled().catch(() => {})
      state.commits = null
      copy.commits = null
      await won.resign()
    }
  }

  /** Lets every hub migrate to the schema of this program: they do it when they read this line. */
  async #migrate(): Promise<void> {
    const { log, copy } = this.#needs
    const calls = [migrationCall()]
    await log.append(copy.applied + 1, [encodeTransaction(calls)])
    await copy.apply({ first: copy.applied + 1, transactions: [calls] })
  }

  #refuseNewer(transactions: LineTransactions): void {
    for (const calls of transactions) {
      const version = migrationOf(calls) ?? 0
      if (version > schemaVersion) throw (this.#state.outdated = newer(version))
    }
  }

  /** Decides what to do about an error of the log. Returns after the cure, or after a pause. */
  async #cure(error: unknown, signal: AbortSignal): Promise<void> {
    if (error instanceof Trimmed) {
      this.#needs.warn(`${error.message}. This hub takes a copy of the database of another hub`)
      await this.#needs.fetchImage(signal)
      this.#setProblem(null)
    } else {
      this.#setProblem(problemOf(error))
      await pause(error instanceof Refusal || error instanceof DivergedLog ? stuckMs : againMs, signal)
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
