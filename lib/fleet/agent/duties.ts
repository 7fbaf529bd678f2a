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
import { type DutyAnswer, type Ignored, obey, workOf } from '../duty.js'
import type { Reader, Transaction } from '../../core/store/database.js'
import {
  createDutyWorks,
  defaultRetriesMs,
  type DutyWork,
  type DutyWorksNeeds,
  keepDuty,
  noResult,
  waitAfter
} from './duty-works.js'

/** The duties of an agent. */
export type Duties = ReturnType<typeof createDuties>

/** An order that was not obeyed, and why. */
export type IgnoredOrder = Pick<DutyAnswer, 'rolloutId' | 'attempt'> & { error: string }

export interface DutiesNeeds extends DutyWorksNeeds {
  nodeId: string
  /** Called when a project is no longer placed on the node. */
  removed(projectId: string): Promise<void>
}

interface Entry extends DutyWork {
  running: Promise<void> | null
  /** Number of failures in a row that were no refusals of the work. */
  failures: number
}

/** Creates the duties, with those of the store. */
export function createDuties(needs: DutiesNeeds) {
  const { store, clock, nodeId, changed, log, retriesMs = defaultRetriesMs } = needs
  const stopping = new AbortController()
  const histories = createHistories(store)
  const entries = new Map<string, Entry>()
  /** The last orders for projects that are not placed here any more. */
  const removed = new Map<string, Duty>()
  const ignored = new Map<string, IgnoredOrder>()
  /** Projects that are being removed. */
  const leaving = new Map<string, Promise<void>>()
  const isCurrent = (entry: DutyWork): boolean => entries.get(entry.kept.duty.projectId) === entry
  const works = createDutyWorks(needs, { isCurrent, stopping: stopping.signal })
  for (const duty of listDuties(store)) {
    if (duty.isRemoved) removed.set(duty.projectId, duty)
    else entries.set(duty.projectId, entryOf(duty, isBegun(duty)))
  }

  function entryOf(duty: Duty, isInterrupted: boolean): Entry {
    const kept = keepDuty(store, duty)
    return { kept, isInterrupted, running: null, waiting: null, orderedMs: elapsedOf(clock), failures: 0 }
  }

  function run(entry: Entry): void {
    if (entry.running !== null || stopping.signal.aborted) return
    entry.running = works.run(entry).then(
      () => {
        entry.running = null
        entry.failures = 0
        if (workOf(entry.kept.duty.state) !== null && isCurrent(entry)) run(entry)
      },
      error => {
        entry.running = null
        if (stopping.signal.aborted) return
        if (entry.failures === 0)
          log(`Cannot do what the hub ordered for project ${entry.kept.duty.projectId} yet`, error)
        void later(entry.failures++, () => {
          // What has begun is found out from the records.
          entry.isInterrupted = isBegun(entry.kept.duty)
          if (isCurrent(entry)) run(entry)
        })
      }
    )
  }

  /** Does something after the wait for an attempt, unless the duties stop. */
  async function later(attempt: number, work: () => void): Promise<void> {
    await sleep(waitAfter(attempt, retriesMs), undefined, { signal: stopping.signal, ref: false }).then(work, () => {})
  }

  /** Takes an order. `attempt` is the number of attempts to store it that have failed. */
  function obeyOrder(order: OrderLine, attempt: number): void {
    const { projectId, rolloutId, epoch } = order
    const gone = leaving.get(projectId)
    if (gone !== undefined) return void gone.then(() => obeyOrder(order, attempt))
    const entry = entries.get(projectId)
    const last = (entry?.kept.duty ?? removed.get(projectId))?.state
    const before = last === undefined ? null : { ...last, epoch: last.epoch || histories.first(epoch) }
    const obeyed = obey(before, order, { isReplaced: histories.isReplaced(epoch) })
    if ('ignored' in obeyed) return ignore(order, obeyed.ignored)
    ignored.delete(projectId)
    const { state } = obeyed
    const isOther = entry === undefined || rolloutId !== entry.kept.duty.state.rolloutId
    const { deployId, treeSha256, archiveSha256, archiveBytes } = order
    const release = { deployId, treeSha256, archiveSha256, archiveBytes }
    const own = { projectId, nodeId, isRemoved: false }
    const fresh: Duty = { ...own, state, before: null, release, swapId: null, undoId: null, ...noResult }
    const known = entry ?? entryOf(fresh, false)
    entries.set(projectId, known)
    known.orderedMs = elapsedOf(clock)
    if (isOther || (state.action !== 'prepare' && state.action !== 'swap')) known.waiting?.abort()
    if (isOther) known.isInterrupted = false
    void known.kept.write(isOther ? fresh : { ...own, state }, histories.follow(epoch)).then(
      () => {
        changed(projectId)
        run(known)
      },
      error => {
        if (stopping.signal.aborted) return
        if (attempt === 0) log(`Cannot store an order for project ${projectId} yet`, error)
        if (entry === undefined && known.kept.duty === fresh) entries.delete(projectId)
        // An order that came since is newer, and this one is then only answered.
        void later(attempt, () => obeyOrder(order, attempt + 1))
      }
    )
  }

  function ignore({ projectId, rolloutId, attempt }: OrderLine, why: Ignored): void {
    if (why === 'known') ignored.delete(projectId)
    else {
      const error = `The node does not obey an order of rollout ${rolloutId}. ${why.why}`
      ignored.set(projectId, { rolloutId, attempt, error })
      log(`Ignored an order for project ${projectId}. ${why.why}`)
    }
    changed(projectId)
  }

  /** Writes that a project is not placed here any more. Its last order stays, so that no earlier one is obeyed. */
  async function writeRemoved(projectId: string, duty: Duty | undefined): Promise<void> {
    if (duty !== undefined) {
      const nothing = { action: 'none', hasPrepared: false, outcome: 'none', doneAttempt: 0, error: null } as const
      const state = { ...duty.state, ...nothing }
      removed.set(projectId, { ...duty, isRemoved: true, state, before: null, swapId: null, undoId: null, ...noResult })
    }
    const last = removed.get(projectId)
    await store.write(tx => {
      if (last !== undefined) putDuty(tx, last)
      deleteHubDeployments(tx, projectId)
    })
  }

  const isOwn = (duty: Duty): boolean => duty.nodeId === nodeId || duty.nodeId === ''

  return {
    /** Takes an order. One that is not newer than the last one is only answered. */
    take: (order: OrderLine): void => obeyOrder(order, 0),

    /** Removes a project that is no longer placed on the node, if the hub had placed it. */
    unplaced(projectId: string): void {
      const entry = entries.get(projectId)
      const isOfHub = entry === undefined ? hasHubDeployment(store, projectId) : isOwn(entry.kept.duty)
      if (!isOfHub || leaving.has(projectId)) return
      entry?.waiting?.abort()
      entries.delete(projectId)
      ignored.delete(projectId)
      const left = (entry?.running ?? Promise.resolve())
        .then(() => entry?.kept.written())
        .then(() => writeRemoved(projectId, entry?.kept.duty))
        .then(() => needs.removed(projectId))
        .catch(error => log(`Cannot remove project ${projectId}, which is no longer placed here`, error))
        .finally(() => leaving.delete(projectId))
      leaving.set(projectId, left)
    },

    /** Continues what an earlier process began. */
    start(): void {
      for (const entry of entries.values()) {
        works.followTree(entry)
        run(entry)
      }
    },

    /** The duties for the hub. */
    *all(): Iterable<Duty> {
      for (const { kept } of entries.values()) if (isOwn(kept.duty)) yield kept.duty
    },
    find(projectId: string): Duty | undefined {
      const duty = entries.get(projectId)?.kept.duty
      return duty !== undefined && isOwn(duty) ? duty : undefined
    },

    /** Returns the answer to an order that was not obeyed, if it was the last one of its project. */
    ignored: (projectId: string): IgnoredOrder | undefined => ignored.get(projectId),

    /** Stops what waits for the hub, and waits for the rest. */
    async stop(): Promise<void> {
      stopping.abort()
      await Promise.all([...entries.values()].map(({ running }) => running))
      await Promise.all([...entries.values()].map(({ kept }) => kept.written()))
      await Promise.all(leaving.values())
    }
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
