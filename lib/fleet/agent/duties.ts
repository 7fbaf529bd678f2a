/*
 * Does what the hub orders: for each project one work at a time. Before a work begins, the duty is on the disk, with the
 * id of the deployment that is about to be made. After a crash, the deployment's own record says what became of it; if
 * there is none, nothing was done. A duty that cannot be stored, because the disk is full, is as it was, and the order is
 * obeyed later.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { elapsedOf, type Clock } from '../../base/clock.js'
import type { Ids } from '../../base/ids.js'
import { Refusal } from '../../base/refusal.js'
import type { OrderLine } from '../../model/fleet-wire.js'
import type { Duty } from '../../model/duty.js'
import type { Store, Transaction } from '../../store/database.js'
import { deleteDuty, findHubDeployment, insertHubDeployment, listDuties, putDuty } from '../../store/tables/duties.js'
import { beginning, ended, obey, workOf, type Work } from '../duty.js'
import type { LocalDeployer } from './local.js'
import type { Release } from './releases.js'
import { defaultRetriesMs, makeReady, waitAfter } from './ready.js'
import {
  deploymentBefore,
  placedBy,
  revert,
  revertResult,
  swap,
  swapResult,
  untilFinished,
  type Placing,
  type Swapped
} from './swap.js'

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
export interface DutiesNeeds {
  store: Store
  clock: Clock
  ids: Ids
  deployer: LocalDeployer
  /** Makes a release ready: fetches and checks it. Nothing in the target changes. */
  prepare(duty: Duty, signal: AbortSignal): Promise<Release>
  /** Called after a swap that went well. */
  done(duty: Duty): void
  /** Called when there is something to report. `soon`: it is of no use to hurry. */
  changed(projectId: string, options?: { soon: boolean }): void
  /** Called when a project is no longer placed on the node. */
  removed(projectId: string): Promise<void>
  /** Waits between attempts to fetch a release, in ms. The last one is repeated. */
  retriesMs?: readonly number[]
  log(message: string, error?: unknown): void
}

interface Entry {
  duty: Duty
  /** Whether an earlier process began the work that `duty` is about. */
  isInterrupted: boolean
  /** The writes of the duty, in order. */
  written: Promise<unknown>
  running: Promise<void> | null
  /** Ends what waits for the hub, when another release is ordered. */
  waiting: AbortController | null
  orderedMs: number
  /** Number of failures in a row that were no refusals of the work. */
  failures: number
}

const noResult = { failedStep: null, output: null, tookMs: null }

/** Creates the duties, with those of the store. */
export function createDuties(needs: DutiesNeeds): Duties {
  const { store, clock, ids, prepare, changed, log, retriesMs = defaultRetriesMs } = needs
  const stopping = new AbortController()
  const entries = new Map<string, Entry>()
  for (const duty of listDuties(store)) entries.set(duty.projectId, entryOf(duty, isBegun(duty)))

  function entryOf(duty: Duty, isInterrupted: boolean): Entry {
    const written = Promise.resolve()
    return { duty, isInterrupted, written, running: null, waiting: null, orderedMs: elapsedOf(clock), failures: 0 }
  }

  /** Changes a duty, in memory at once. Resolves when it is on the disk; if that fails, the duty is as before. */
  function write(entry: Entry, change: Partial<Duty>, also?: (tx: Transaction) => void): Promise<unknown> {
    const before = entry.duty
    const duty = { ...before, ...change }
    entry.duty = duty
    const writing = store.write(tx => {
      putDuty(tx, duty)
      also?.(tx)
    })
    const restore = (): void => void (entry.duty === duty && (entry.duty = before))
    entry.written = Promise.allSettled([entry.written, writing.catch(restore)])
    return writing
  }

  function run(entry: Entry): void {
    if (entry.running !== null || stopping.signal.aborted) return
    entry.running = works(entry).then(
      () => {
        entry.running = null
        entry.failures = 0
        if (workOf(entry.duty.state) !== null && entries.get(entry.duty.projectId) === entry) run(entry)
      },
      error => {
        entry.running = null
        if (stopping.signal.aborted) return
        if (entry.failures === 0) log(`Cannot do what the hub ordered for project ${entry.duty.projectId} yet`, error)
        void later(entry.failures++, () => {
          // What has begun is found out from the records.
          entry.isInterrupted = isBegun(entry.duty)
          if (entries.get(entry.duty.projectId) === entry) run(entry)
        })
      }
    )
  }

  /** Does something after the wait for an attempt, unless the duties stop. */
  async function later(attempt: number, work: () => void): Promise<void> {
    await sleep(waitAfter(attempt, retriesMs), undefined, { signal: stopping.signal, ref: false }).then(work, () => {})
  }

  function placingOf({ duty: { projectId, swapId, release } }: Entry): Placing {
    return { projectId, swapId: swapId ?? '', releaseId: release.deployId }
  }

  async function works(entry: Entry): Promise<void> {
    while (!stopping.signal.aborted && entries.get(entry.duty.projectId) === entry) {
      await entry.written
      if (entry.isInterrupted) {
        await resume(entry)
        continue
      }
      const work = workOf(entry.duty.state)
      if (work === null) return
      await perform(entry, work)
    }
  }

  async function perform(entry: Entry, work: Work): Promise<void> {
    const { state } = entry.duty
    if (work === 'revert') return performRevert(entry)
    const waiting = new AbortController()
    entry.waiting = waiting
    const ready = await makeReady({
      prepare: signal => prepare(entry.duty, signal),
      retriesMs,
      failed: reason => log(`Cannot fetch release ${entry.duty.release.deployId} yet: ${reason}`),
      signal: AbortSignal.any([waiting.signal, stopping.signal])
    }).finally(() => (entry.waiting = null))
    if (ready === 'given up') return
    // Another order may have come since.
    if (entry.duty.state.number !== state.number || workOf(entry.duty.state) !== work) return
    if (ready instanceof Refusal) {
      const result = work === 'prepare' ? 'refused' : 'failed'
      return finish(entry, state, { answer: result, error: ready.message, ...noResult })
    }
    if (work === 'prepare') await finish(entry, state, { answer: 'prepared', error: null, ...noResult })
    else await performSwap(entry, ready)
  }

  async function performSwap(entry: Entry, release: Release): Promise<void> {
    const before = entry.duty.state
    const begun = beginning(before, 'swap')
    const swapId = ids.id('dep_')
    const {
      projectId,
      release: { deployId }
    } = entry.duty
    const noted = { id: swapId, projectId, deployId }
    await write(entry, { state: begun, before, swapId, undoId: null, ...noResult }, tx =>
      insertHubDeployment(tx, noted)
    )
    changed(projectId, { soon: true })
    await end(entry, before, swap(needs, { duty: entry.duty, swapId, release }))
  }

  async function performRevert(entry: Entry): Promise<void> {
    const before = entry.duty.state
    const { projectId, swapId } = entry.duty
    if (swapId === null) {
      const error = 'The deployment that put the release in place is not known'
      return finish(entry, before, { answer: 'stuck', error, ...noResult })
    }
    const undoId = ids.id('dep_')
    const placing = placingOf(entry)
    const earlier = deploymentBefore(store, projectId, placedBy(store, placing).at(-1) ?? swapId)
    const deployId = earlier === null ? null : (findHubDeployment(store, earlier)?.deployId ?? null)
    const noted = { id: undoId, projectId, deployId }
    // If the earlier files were pushed to the node itself, they are as foreign as before.
    const isOfHub = earlier === null || findHubDeployment(store, earlier) !== undefined
    await write(entry, { state: beginning(before, 'revert'), before, undoId, ...noResult }, tx => {
      if (isOfHub) insertHubDeployment(tx, noted)
    })
    await end(entry, before, revert(needs, { ...placing, undoId }))
  }

  /** Takes the result of a work that has begun. */
  async function end(entry: Entry, before: Duty['state'], working: Promise<Swapped>): Promise<void> {
    const begun = entry.duty.state
    const result = await working.catch((error: unknown) => {
      if (error instanceof Refusal) return error
      throw error
    })
    if (!(result instanceof Refusal)) return finish(entry, begun, result)
    // The next start finds no record, and begins again.
    if (result.code === 'shutting_down' || stopping.signal.aborted) return
    const isInPlace = placedBy(store, placingOf(entry)).length > 0
    const answer = begun.outcome === 'begun' && before.outcome !== 'stuck' && !isInPlace ? 'failed' : 'stuck'
    await finish(entry, begun, { answer, error: result.message, ...noResult })
  }

  async function finish(
    entry: Entry,
    begun: Duty['state'],
    result: Omit<Swapped, 'answer'> & { answer: Swapped['answer'] | 'prepared' | 'refused' }
  ): Promise<void> {
    const { answer, error, failedStep, output } = result
    const state = ended(entry.duty.state, { begun, result: answer, error })
    const tookMs = Math.round(elapsedOf(clock) - entry.orderedMs)
    // Another release may have been ordered since.
    if (state === entry.duty.state) return
    await write(entry, { state, before: null, failedStep, output, tookMs })
    changed(entry.duty.projectId)
    if (answer === 'good') needs.done(entry.duty)
  }

  /** Corrects the result of a swap that failed, if the recovery of this start has put other files in place. */
  function followTree(entry: Entry): void {
    const { outcome } = entry.duty.state
    if (outcome !== 'stuck' && outcome !== 'failed') return
    const found = placedBy(store, placingOf(entry)).length > 0 ? 'stuck' : 'failed'
    if (found === outcome) return
    const state = { ...entry.duty.state, outcome: found } as const
    void write(entry, { state }).catch(error => log('Cannot store what is in place', error))
  }

  /** Finds out what became of the work that an earlier process began. */
  async function resume(entry: Entry): Promise<void> {
    const { state, before, swapId, undoId } = entry.duty
    const isRevert = state.outcome === 'reverting'
    const deployId = isRevert ? undoId : swapId
    entry.isInterrupted = false
    const row = deployId === null ? null : await untilFinished(needs, deployId, stopping.signal)
    const current = entry.duty.state
    if (row === null) {
      if (current.number !== state.number) return
      const { outcome, doneAttempt, error } = before ?? { outcome: 'none', doneAttempt: 0, error: null }
      await write(entry, { state: { ...current, outcome, doneAttempt, error }, before: null })
      return changed(entry.duty.projectId)
    }
    const placing = placingOf(entry)
    const result = isRevert ? await revertResult(needs, row, placing) : await swapResult(needs, row, placing.releaseId)
    await finish(entry, state, result)
  }

  /** Takes an order. `attempt` is the number of attempts to store it that have failed. */
  function obeyOrder(order: OrderLine, attempt: number): void {
    const { projectId } = order
    const entry = entries.get(projectId)
    const state = obey(entry?.duty.state ?? null, order)
    if (state === null) return changed(projectId)
    const isOther = entry === undefined || order.number !== entry.duty.state.number
    const { deployId, treeSha256, archiveSha256, archiveBytes } = order
    const release = { deployId, treeSha256, archiveSha256, archiveBytes }
    const fresh: Duty = { projectId, state, before: null, release, swapId: null, undoId: null, ...noResult }
    const known = entry ?? entryOf(fresh, false)
    entries.set(projectId, known)
    known.orderedMs = elapsedOf(clock)
    if (isOther || (state.action !== 'prepare' && state.action !== 'swap')) known.waiting?.abort()
    if (isOther) known.isInterrupted = false
    void write(known, isOther ? fresh : { state }).then(
      () => {
        changed(projectId)
        run(known)
      },
      error => {
        if (stopping.signal.aborted) return
        if (attempt === 0) log(`Cannot store an order for project ${projectId} yet`, error)
        if (entry === undefined && known.duty === fresh) entries.delete(projectId)
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
      void (entry?.running ?? Promise.resolve())
        .then(() => store.write(tx => deleteDuty(tx, projectId)))
        .then(() => needs.removed(projectId))
        .catch(error => log(`Cannot remove project ${projectId}, which is no longer placed here`, error))
    },
    start() {
      for (const entry of entries.values()) {
        followTree(entry)
        run(entry)
      }
    },
    *all() {
      for (const { duty } of entries.values()) yield duty
    },
    find: projectId => entries.get(projectId)?.duty,
    async stop() {
      stopping.abort()
      await Promise.all([...entries.values()].map(({ running }) => running))
      await Promise.all([...entries.values()].map(({ written }) => written))
    }
  }
}

/** Whether an earlier process began a work of which the result is not known. */
function isBegun({ state: { outcome } }: Duty): boolean {
  return outcome === 'begun' || outcome === 'reverting'
}
