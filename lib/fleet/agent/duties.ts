/*
 * Takes the orders of the hub, and has them done: for each project one work at a time (duty-works.ts). An order that cannot
 * be stored, because the disk is full, is obeyed later, and so is a work whose result cannot be.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { elapsedOf } from '../../base/clock.js'
import type { OrderLine } from '../../model/fleet-wire.js'
import type { Duty } from '../../model/duty.js'
import { deleteDuty, listDuties } from '../../store/tables/duties.js'
import { obey, workOf } from '../duty.js'
import { createDutyWorks, noResult, type DutyWork, type DutyWorksNeeds } from './duty-works.js'
import { keepDuty } from './kept-duty.js'
import { defaultRetriesMs, waitAfter } from './ready.js'

/** The duties of an agent. */
export interface Duties {
  /** Takes an order. One that is not newer than the last one is only answered again. */
  take(order: OrderLine): void
  /** Forgets a project that is no longer placed on the node. */
  unplaced(projectId: string): void
  /** Continues what an earlier process began. */
  start(): void
  all(): Iterable<Duty>
  find(projectId: string): Duty | undefined
  /** Stops what waits for the hub, and waits for the rest. */
  stop(): Promise<void>
}

/** Dependencies of the duties. */
export interface DutiesNeeds extends DutyWorksNeeds {
  /** Called when a project is no longer placed on the node. */
  removed(projectId: string): Promise<void>
}

interface Entry extends DutyWork {
  running: Promise<void> | null
  /** Number of failures in a row that were no refusals of the work. */
  failures: number
}

/** Creates the duties, with those of the store. */
export function createDuties(needs: DutiesNeeds): Duties {
  const { store, clock, changed, log, retriesMs = defaultRetriesMs } = needs
  const stopping = new AbortController()
  const entries = new Map<string, Entry>()
  /** Projects that are being forgotten. */
  const leaving = new Set<Promise<void>>()
  const isCurrent = (entry: DutyWork): boolean => entries.get(entry.kept.duty.projectId) === entry
  const works = createDutyWorks(needs, { isCurrent, stopping: stopping.signal })
  for (const duty of listDuties(store)) entries.set(duty.projectId, entryOf(duty, isBegun(duty)))

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
    const { projectId } = order
    const entry = entries.get(projectId)
    const state = obey(entry?.kept.duty.state ?? null, order)
    if (state === null) return changed(projectId)
    const isOther = entry === undefined || order.number !== entry.kept.duty.state.number
    const { deployId, treeSha256, archiveSha256, archiveBytes } = order
    const release = { deployId, treeSha256, archiveSha256, archiveBytes }
    const fresh: Duty = { projectId, state, before: null, release, swapId: null, undoId: null, ...noResult }
    const known = entry ?? entryOf(fresh, false)
    entries.set(projectId, known)
    known.orderedMs = elapsedOf(clock)
    if (isOther || (state.action !== 'prepare' && state.action !== 'swap')) known.waiting?.abort()
    if (isOther) known.isInterrupted = false
    void known.kept.write(isOther ? fresh : { state }).then(
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

  return {
    take: order => obeyOrder(order, 0),
    unplaced(projectId) {
      const entry = entries.get(projectId)
      entry?.waiting?.abort()
      entries.delete(projectId)
      const left = (entry?.running ?? Promise.resolve())
        .then(() => store.write(tx => deleteDuty(tx, projectId)))
        .then(() => needs.removed(projectId))
        .catch(error => log(`Cannot remove project ${projectId}, which is no longer placed here`, error))
        .finally(() => leaving.delete(left))
      leaving.add(left)
    },
    start() {
      for (const entry of entries.values()) {
        works.followTree(entry)
        run(entry)
      }
    },
    *all() {
      for (const { kept } of entries.values()) yield kept.duty
    },
    find: projectId => entries.get(projectId)?.kept.duty,
    async stop() {
      stopping.abort()
      await Promise.all([...entries.values()].map(({ running }) => running))
      await Promise.all([...entries.values()].map(({ kept }) => kept.written()))
      await Promise.all(leaving)
    }
  }
}

/** Whether an earlier process began a work of which the result is not known. */
function isBegun({ state: { outcome } }: Duty): boolean {
  return outcome === 'begun' || outcome === 'reverting'
}
