/*
 * Does what the hub orders: for each project one work at a time. Before a work begins, the duty is on the disk, with the
 * id of the deployment that is about to be made. After a crash, the deployment's own record says what became of it; if
 * there is none, nothing was done.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { elapsedOf, type Clock } from '../../base/clock.js'
import type { Ids } from '../../base/ids.js'
import { Refusal } from '../../base/refusal.js'
import { reasonOf } from '../../base/system-error.js'
import type { OrderLine } from '../../model/fleet-wire.js'
import type { Duty } from '../../model/duty.js'
import type { Store, Transaction } from '../../store/database.js'
import { deleteDuty, findHubDeployment, insertHubDeployment, listDuties, putDuty } from '../../store/tables/duties.js'
import { beginning, ended, obey, workOf, type Work } from '../duty.js'
import type { LocalDeployer } from './local.js'
import type { Release } from './releases.js'
import { deploymentBefore, revert, revertResult, swap, swapResult, untilFinished, type Swapped } from './swap.js'

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
}

const defaultRetriesMs = [500, 1000, 2000, 5000, 10_000]
const noResult = { failedStep: null, output: null, tookMs: null }

/** Creates the duties, with those of the store. */
export function createDuties(needs: DutiesNeeds): Duties {
  const { store, clock, ids, prepare, changed, log, retriesMs = defaultRetriesMs } = needs
  const stopping = new AbortController()
  const entries = new Map<string, Entry>()
  for (const duty of listDuties(store)) entries.set(duty.projectId, entryOf(duty, isBegun(duty)))

  function entryOf(duty: Duty, isInterrupted: boolean): Entry {
    const written = Promise.resolve()
    return { duty, isInterrupted, written, running: null, waiting: null, orderedMs: elapsedOf(clock) }
  }

  /** Changes a duty, in memory at once. Resolves when it is on the disk. */
  function write(entry: Entry, change: Partial<Duty>, also?: (tx: Transaction) => void): Promise<unknown> {
    const duty = { ...entry.duty, ...change }
    entry.duty = duty
    const writing = store.write(tx => {
      putDuty(tx, duty)
      also?.(tx)
    })
    entry.written = Promise.allSettled([entry.written, writing])
    return writing
  }

  function run(entry: Entry): void {
    if (entry.running !== null || stopping.signal.aborted) return
    entry.running = works(entry).then(
      () => {
        entry.running = null
        if (workOf(entry.duty.state) !== null && entries.get(entry.duty.projectId) === entry) run(entry)
      },
      error => {
        entry.running = null
        if (stopping.signal.aborted) return
        log(`Cannot do what the hub ordered for project ${entry.duty.projectId}`, error)
      }
    )
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
    const ready = await makeReady(entry)
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

  /** Fetches and checks the release of an entry. Tries again while the hub cannot be reached. */
  async function makeReady(entry: Entry): Promise<Release | Refusal | 'given up'> {
    const waiting = new AbortController()
    entry.waiting = waiting
    const signal = AbortSignal.any([waiting.signal, stopping.signal])
    let hadWrongDigest = false
    try {
      for (let attempt = 0; ; attempt++) {
        try {
          return await prepare(entry.duty, signal)
        } catch (error) {
          if (signal.aborted) return 'given up'
          const isFirstDamage = error instanceof Refusal && error.code === 'wrong_digest' && !hadWrongDigest
          if (isFirstDamage) hadWrongDigest = true
          else if (isFinal(error)) return error
          else if (attempt === 0) log(`Cannot fetch release ${entry.duty.release.deployId} yet: ${reasonOf(error)}`)
          const ms = retriesMs[Math.min(attempt, retriesMs.length - 1)] as number
          await sleep(ms, undefined, { signal }).catch(() => {})
          if (signal.aborted) return 'given up'
        }
      }
    } finally {
      entry.waiting = null
    }
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
    const earlier = deploymentBefore(store, projectId, swapId)
    const deployId = earlier === null ? null : (findHubDeployment(store, earlier)?.deployId ?? null)
    const noted = { id: undoId, projectId, deployId }
    // If the earlier files were pushed to the node itself, they are as foreign as before.
    const isOfHub = earlier === null || findHubDeployment(store, earlier) !== undefined
    await write(entry, { state: beginning(before, 'revert'), before, undoId, ...noResult }, tx => {
      if (isOfHub) insertHubDeployment(tx, noted)
    })
    await end(entry, before, revert(needs, { projectId, swapId, undoId }))
  }

  /** Takes the result of a work that has begun. */
  async function end(entry: Entry, before: Duty['state'], working: Promise<Swapped>): Promise<void> {
    const begun = entry.duty.state
    try {
      await finish(entry, begun, await working)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      // The next start finds no record, and begins again.
      if (error.code === 'shutting_down' || stopping.signal.aborted) return
      const { outcome } = before
      const answer = begun.outcome === 'begun' && outcome !== 'stuck' ? 'failed' : 'stuck'
      await finish(entry, begun, { answer, error: error.message, ...noResult })
    }
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
    const result = isRevert ? await revertResult(needs, row, swapId ?? '') : await swapResult(needs, row)
    await finish(entry, state, result)
  }

  return {
    take(order) {
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
        error => log(`Cannot store an order for project ${projectId}`, error)
      )
    },
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
      for (const entry of entries.values()) run(entry)
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

/** A failure that another attempt would not cure. */
function isFinal(error: unknown): error is Refusal {
  return error instanceof Refusal && (error.kind !== 'unavailable' || ownRefusals.has(error.code))
}

/** Refusals of this machine, not of the network. */
const ownRefusals: ReadonlySet<string> = new Set(['no_space', 'not_permitted', 'disk_full', 'variables_key'])
