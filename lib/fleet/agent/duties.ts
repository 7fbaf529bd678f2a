/*
 * Takes the orders of the hub, and has them done: for each project one work at a time (duty-works.ts). An order that cannot
 * be stored, because the disk is full, is obeyed later, and so is a work whose result cannot be.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { elapsedOf } from '../../base/clock.js'
import type { Duty, OrderLine } from '../../model/fleet-wire.js'
import {
  beginEpoch,
  deleteHubDeployments,
  hasHubDeployment,
  listDuties,
  listEpochs,
  putDuty
} from '../../core/store/tables/fleet.js'
import {
  defaultRetriesMs,
  type DutyWork,
  DutyWorks,
  type DutyWorksNeeds,
  keepDuty,
  noResult,
  waitAfter
} from './duty-works.js'
import { type DutyAnswer, type Ignored, obey, workOf } from '../duty.js'
import type { Reader, Transaction } from '../../core/store/database.js'

/** An order that was not obeyed, and why. */
export type IgnoredOrder = Pick<DutyAnswer, 'rolloutId' | 'attempt'> & { error: string }

export interface DutiesNeeds extends Omit<DutyWorksNeeds, 'isCurrent' | 'stopping'> {
  nodeId: string
  /** Called when a project is no longer placed on the node. */
  removed(projectId: string): Promise<void>
}

interface Entry extends DutyWork {
  running: Promise<void> | null
  /** Number of failures in a row that were no refusals of the work. */
  failures: number
}

export class Duties {
  readonly #needs: DutiesNeeds
  readonly #stopping = new AbortController()
  readonly #histories: Histories
  readonly #entries = new Map<string, Entry>()
  /** The last orders for projects that are not placed here any more. */
  readonly #removed = new Map<string, Duty>()
  readonly #ignored = new Map<string, IgnoredOrder>()
  /** Projects that are being removed. */
  readonly #leaving = new Map<string, Promise<void>>()
  readonly #works: DutyWorks

  constructor(needs: DutiesNeeds) {
    this.#needs = needs
    this.#histories = createHistories(needs.store)
    this.#works = new DutyWorks({
      ...needs,
      isCurrent: entry => this.#isCurrent(entry),
      stopping: this.#stopping.signal
    })
    for (const duty of listDuties(needs.store)) {
      if (duty.isRemoved) this.#removed.set(duty.projectId, duty)
      else this.#entries.set(duty.projectId, this.#entryOf(duty, isBegun(duty)))
    }
  }

  /** Takes an order. One that is not newer than the last one is only answered. */
  take(order: OrderLine): void {
    this.#obeyOrder(order, 0)
  }

  /** Removes a project that is no longer placed on the node, if the hub had placed it. */
  unplaced(projectId: string): void {
    const { store, log } = this.#needs
    const entry = this.#entries.get(projectId)
    const isOfHub = entry === undefined ? hasHubDeployment(store, projectId) : this.#isOwn(entry.kept.duty)
    if (!isOfHub || this.#leaving.has(projectId)) return
    entry?.waiting?.abort()
    this.#entries.delete(projectId)
    this.#ignored.delete(projectId)
    const left = (entry?.running ?? Promise.resolve())
      .then(() => entry?.kept.written())
      .then(() => this.#writeRemoved(projectId, entry?.kept.duty))
      .then(() => this.#needs.removed(projectId))
      .catch(error => log(`Cannot remove project ${projectId}, which is no longer placed here`, error))
      .finally(() => this.#leaving.delete(projectId))
    this.#leaving.set(projectId, left)
  }

  /** Continues what an earlier process began. */
  start(): void {
    for (const entry of this.#entries.values()) {
      this.#works.followTree(entry)
      this.#run(entry)
    }
  }

  *all(): Iterable<Duty> {
    for (const { kept } of this.#entries.values()) if (this.#isOwn(kept.duty)) yield kept.duty
  }

  find(projectId: string): Duty | undefined {
    const duty = this.#entries.get(projectId)?.kept.duty
    return duty !== undefined && this.#isOwn(duty) ? duty : undefined
  }

  /** Returns the answer to an order that was not obeyed, if it was the last one of its project. */
  ignored(projectId: string): IgnoredOrder | undefined {
    return this.#ignored.get(projectId)
  }

  /** Stops what waits for the hub, and waits for the rest. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await Promise.all([...this.#entries.values()].map(({ running }) => running))
    await Promise.all([...this.#entries.values()].map(({ kept }) => kept.written()))
    await Promise.all(this.#leaving.values())
  }

  #isCurrent(entry: DutyWork): boolean {
    return this.#entries.get(entry.kept.duty.projectId) === entry
  }

  #entryOf(duty: Duty, isInterrupted: boolean): Entry {
    const { store, clock } = this.#needs
    const kept = keepDuty(store, duty)
    return { kept, isInterrupted, running: null, waiting: null, orderedMs: elapsedOf(clock), failures: 0 }
  }

  #run(entry: Entry): void {
    if (entry.running !== null || this.#stopping.signal.aborted) return
    entry.running = this.#works.run(entry).then(
      () => {
        entry.running = null
        entry.failures = 0
        if (workOf(entry.kept.duty.state) !== null && this.#isCurrent(entry)) this.#run(entry)
      },
      error => {
        entry.running = null
        if (this.#stopping.signal.aborted) return
        if (entry.failures === 0)
          this.#needs.log(`Cannot do what the hub ordered for project ${entry.kept.duty.projectId} yet`, error)
        void this.#later(entry.failures++, () => {
          // What has begun is found out from the records.
          entry.isInterrupted = isBegun(entry.kept.duty)
          if (this.#isCurrent(entry)) this.#run(entry)
        })
      }
    )
  }

  /** Does something after the wait for an attempt, unless the duties stop. */
  async #later(attempt: number, work: () => void): Promise<void> {
    const ms = waitAfter(attempt, this.#needs.retriesMs ?? defaultRetriesMs)
    await sleep(ms, undefined, { signal: this.#stopping.signal, ref: false }).then(work, () => {})
  }

  /** Takes an order. `attempt` is the number of attempts to store it that have failed. */
  #obeyOrder(order: OrderLine, attempt: number): void {
    const { nodeId, clock, changed, log } = this.#needs
    const { projectId, rolloutId, epoch } = order
    const gone = this.#leaving.get(projectId)
    if (gone !== undefined) return void gone.then(() => this.#obeyOrder(order, attempt))
    const entry = this.#entries.get(projectId)
    const last = (entry?.kept.duty ?? this.#removed.get(projectId))?.state
    const before = last === undefined ? null : { ...last, epoch: last.epoch || this.#histories.first(epoch) }
    const obeyed = obey(before, order, { isReplaced: this.#histories.isReplaced(epoch) })
    if ('ignored' in obeyed) return this.#ignore(order, obeyed.ignored)
    this.#ignored.delete(projectId)
    const { state } = obeyed
    const isOther = entry === undefined || rolloutId !== entry.kept.duty.state.rolloutId
    const { deployId, treeSha256, archiveSha256, archiveBytes } = order
    const release = { deployId, treeSha256, archiveSha256, archiveBytes }
    const own = { projectId, nodeId, isRemoved: false }
    const fresh: Duty = { ...own, state, before: null, release, swapId: null, undoId: null, ...noResult }
    const known = entry ?? this.#entryOf(fresh, false)
    this.#entries.set(projectId, known)
    known.orderedMs = elapsedOf(clock)
    if (isOther || (state.action !== 'prepare' && state.action !== 'swap')) known.waiting?.abort()
    if (isOther) known.isInterrupted = false
    void known.kept.write(isOther ? fresh : { ...own, state }, this.#histories.follow(epoch)).then(
      () => {
        changed(projectId)
        this.#run(known)
      },
      error => {
        if (this.#stopping.signal.aborted) return
        if (attempt === 0) log(`Cannot store an order for project ${projectId} yet`, error)
        if (entry === undefined && known.kept.duty === fresh) this.#entries.delete(projectId)
        // An order that came since is newer, and this one is then only answered.
        void this.#later(attempt, () => this.#obeyOrder(order, attempt + 1))
      }
    )
  }

  #ignore({ projectId, rolloutId, attempt }: OrderLine, why: Ignored): void {
    const { log, changed } = this.#needs
    if (why === 'known') this.#ignored.delete(projectId)
    else {
      const error = `The node does not obey an order of rollout ${rolloutId}. ${why.why}`
      this.#ignored.set(projectId, { rolloutId, attempt, error })
      log(`Ignored an order for project ${projectId}. ${why.why}`)
    }
    changed(projectId)
  }

  /** Writes that a project is not placed here any more. Its last order stays, so that no earlier one is obeyed. */
  async #writeRemoved(projectId: string, duty: Duty | undefined): Promise<void> {
    if (duty !== undefined) {
      const nothing = { action: 'none', hasPrepared: false, outcome: 'none', doneAttempt: 0, error: null } as const
      const state = { ...duty.state, ...nothing }
      const noWork = { before: null, swapId: null, undoId: null, ...noResult }
      this.#removed.set(projectId, { ...duty, isRemoved: true, state, ...noWork })
    }
    const last = this.#removed.get(projectId)
    await this.#needs.store.write(tx => {
      if (last !== undefined) putDuty(tx, last)
      deleteHubDeployments(tx, projectId)
    })
  }

  #isOwn(duty: Duty): boolean {
    return duty.nodeId === this.#needs.nodeId || duty.nodeId === ''
  }
}

/** Whether an earlier process began a work of which the result is not known. */
function isBegun({ state: { outcome } }: Duty): boolean {
  return outcome === 'begun' || outcome === 'reverting'
}

/* The histories of the hub's database that a node has seen: in memory at once, and in the database with the order. */

/** The histories that a node has seen. */
export type Histories = ReturnType<typeof createHistories>

/** Creates the list, with those of the store. */
export function createHistories(store: Reader) {
  const all = listEpochs(store)
  return {
    /** Whether a hub has followed another history since. */
    isReplaced: (epoch: string): boolean => all.includes(epoch) && all.at(-1) !== epoch,
    /** Returns the history of what was ordered before histories had names, if an order of `epoch` arrives. */
    first: (epoch: string): string => all[0] ?? epoch,
    /** Follows a history from now on. Returns what writes it. */
    follow(epoch: string): (tx: Transaction) => void {
      if (!all.includes(epoch)) all.push(epoch)
      return tx => beginEpoch(tx, epoch)
    }
  }
}
