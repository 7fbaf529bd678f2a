/*
 * Does what a duty demands, one work after the other: makes the release ready, puts it in place, takes it back. Before a
 * work begins, the duty is on the disk, with the id of the deployment that is about to be made. After a crash, the
 * deployment's own record says what became of it; if there is none, or its turn had not come, nothing was done.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { withAnySignal } from '../../base/async.js'
import { type Clock, elapsedOf } from '../../base/clock.js'
import type { Ids } from '../../base/digests.js'
import { reasonOf, Refusal } from '../../base/errors.js'
import { type DeploymentRow, interruptedWhile } from '../../model/deployment.js'
import type { Duty } from '../../model/fleet-wire.js'
import type { Store, Transaction } from '../../core/store/database.js'
import { findHubDeployment, insertHubDeployment, putDuty } from '../../core/store/tables/fleet.js'
import { beginning, ended, type Work, workOf } from '../duty.js'
import {
  deploymentBefore,
  type LocalDeployer,
  placedBy,
  type Placing,
  revert,
  revertResult,
  swap,
  type Swapped,
  swapResult,
  untilFinished
} from './swap.js'
import type { Release } from './releases.js'

export interface DutyWorksNeeds {
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
  /** Waits between attempts to fetch a release, in ms. The last one is repeated. */
  retriesMs?: readonly number[]
  log(message: string, error?: unknown): void
  /** Whether the project is still placed. */
  isCurrent(entry: DutyWork): boolean
  /** Ends what waits for the hub. */
  stopping: AbortSignal
}

/** A duty with what goes on for it. */
export interface DutyWork {
  kept: KeptDuty
  /** Whether an earlier process began the work that the duty is about. */
  isInterrupted: boolean
  /** Ends what waits for the hub, when another release is ordered. */
  waiting: AbortController | null
  orderedMs: number
}

/** Results that a work without a deployment does not have. */
export const noResult = { failedStep: null, output: null, tookMs: null }

export class DutyWorks {
  readonly #needs: DutyWorksNeeds

  constructor(needs: DutyWorksNeeds) {
    this.#needs = needs
  }

  /** Works until the duty demands nothing more. Rejects if a result cannot be stored, or found out, yet. */
  async run(entry: DutyWork): Promise<void> {
    while (!this.#needs.stopping.aborted && this.#needs.isCurrent(entry)) {
      await entry.kept.written()
      if (entry.isInterrupted) {
        await this.#resume(entry)
        continue
      }
      const work = workOf(entry.kept.duty.state)
      if (work === null) return
      await this.#perform(entry, work)
    }
  }

  /** Corrects the result of a swap that failed, if the recovery of this start has put other files in place. */
  followTree(entry: DutyWork): void {
    const { store, log } = this.#needs
    const { outcome } = entry.kept.duty.state
    if (outcome !== 'stuck' && outcome !== 'failed') return
    const found = placedBy(store, this.#placingOf(entry)).length > 0 ? 'stuck' : 'failed'
    if (found === outcome) return
    const state = { ...entry.kept.duty.state, outcome: found } as const
    void entry.kept.write({ state }).catch(error => log('Cannot store what is in place', error))
  }

  #placingOf({ kept }: DutyWork): Placing {
    const { projectId, swapId, release } = kept.duty
    return { projectId, swapId: swapId ?? '', releaseId: release.deployId }
  }

  async #perform(entry: DutyWork, work: Work): Promise<void> {
    const { prepare, log, stopping, retriesMs = defaultRetriesMs } = this.#needs
    const { state } = entry.kept.duty
    if (work === 'revert') return this.#performRevert(entry)
    const waiting = new AbortController()
    entry.waiting = waiting
    const ready = await withAnySignal({ signals: [waiting.signal, stopping] }, signal =>
      makeReady({
        prepare: signal => prepare(entry.kept.duty, signal),
        retriesMs,
        failed: reason => log(`Cannot fetch release ${entry.kept.duty.release.deployId} yet: ${reason}`),
        signal
      })
    ).finally(() => (entry.waiting = null))
    if (ready === 'given up') return
    // Another order may have come since.
    if (entry.kept.duty.state.rolloutId !== state.rolloutId || workOf(entry.kept.duty.state) !== work) return
    if (ready instanceof Refusal) {
      const result = work === 'prepare' ? 'refused' : 'failed'
      return this.#finish(entry, state, { answer: result, error: ready.message, ...noResult })
    }
    if (work === 'prepare') await this.#finish(entry, state, { answer: 'prepared', error: null, ...noResult })
    else await this.#performSwap(entry, ready)
  }

  async #performSwap(entry: DutyWork, release: Release): Promise<void> {
    const { ids, changed } = this.#needs
    const before = entry.kept.duty.state
    const begun = beginning(before, 'swap')
    const swapId = ids.id('dep_')
    const {
      projectId,
      release: { deployId }
    } = entry.kept.duty
    const noted = { id: swapId, projectId, deployId }
    await entry.kept.write({ state: begun, before, swapId, undoId: null, ...noResult }, tx =>
      insertHubDeployment(tx, noted)
    )
    changed(projectId, { soon: true })
    await this.#end(entry, before, swap(this.#needs, { duty: entry.kept.duty, swapId, release }))
  }

  async #performRevert(entry: DutyWork): Promise<void> {
    const { ids, store } = this.#needs
    const before = entry.kept.duty.state
    const { projectId, swapId } = entry.kept.duty
    if (swapId === null) {
      const error = 'The deployment that put the release in place is not known'
      return this.#finish(entry, before, { answer: 'stuck', error, ...noResult })
    }
    const undoId = ids.id('dep_')
    const placing = this.#placingOf(entry)
    const earlier = deploymentBefore(store, projectId, placedBy(store, placing).at(-1) ?? swapId)
    const deployId = earlier === null ? null : (findHubDeployment(store, earlier)?.deployId ?? null)
    const noted = { id: undoId, projectId, deployId }
    // If the earlier files were pushed to the node itself, they are as foreign as before.
    const isOfHub = earlier === null || findHubDeployment(store, earlier) !== undefined
    await entry.kept.write({ state: beginning(before, 'revert'), before, undoId, ...noResult }, tx => {
      if (isOfHub) insertHubDeployment(tx, noted)
    })
    await this.#end(entry, before, revert(this.#needs, { ...placing, undoId }))
  }

  /** Takes the result of a work that has begun. */
  async #end(entry: DutyWork, before: Duty['state'], working: Promise<Swapped>): Promise<void> {
    const begun = entry.kept.duty.state
    const result = await working.catch((error: unknown) => {
      if (error instanceof Refusal) return error
      throw error
    })
    if (!(result instanceof Refusal)) return this.#finish(entry, begun, result)
    // The next start finds no record, and begins again.
    if (result.code === 'shutting_down' || this.#needs.stopping.aborted) return
    const isInPlace = placedBy(this.#needs.store, this.#placingOf(entry)).length > 0
    const answer = begun.outcome === 'begun' && before.outcome !== 'stuck' && !isInPlace ? 'failed' : 'stuck'
    await this.#finish(entry, begun, { answer, error: result.message, ...noResult })
  }

  async #finish(
    entry: DutyWork,
    begun: Duty['state'],
    result: Omit<Swapped, 'answer'> & { answer: Swapped['answer'] | 'prepared' | 'refused' }
  ): Promise<void> {
    const { clock, changed } = this.#needs
    const { answer, error, failedStep, output } = result
    const state = ended(entry.kept.duty.state, { begun, result: answer, error })
    const tookMs = Math.round(elapsedOf(clock) - entry.orderedMs)
    // Another release may have been ordered since.
    if (state === entry.kept.duty.state) return
    await entry.kept.write({ state, before: null, failedStep, output, tookMs })
    changed(entry.kept.duty.projectId)
    if (answer === 'good') this.#needs.done(entry.kept.duty)
  }

  /**
   * Whether a work that an earlier process began is done again: one whose turn never came, and a way back that has not put the
   * earlier files in place. A release that had begun has failed: its scripts may have done something.
   */
  #isToBeginAgain(entry: DutyWork, row: DeploymentRow): boolean {
    const interrupted = interruptedWhile(row)
    if (interrupted !== 'running' || entry.kept.duty.state.outcome !== 'reverting') return interrupted === 'queued'
    return placedBy(this.#needs.store, this.#placingOf(entry)).length > 0
  }

  /** Finds out what became of the work that an earlier process began. */
  async #resume(entry: DutyWork): Promise<void> {
    const { state, before, swapId, undoId } = entry.kept.duty
    const isRevert = state.outcome === 'reverting'
    const deployId = isRevert ? undoId : swapId
    entry.isInterrupted = false
    const row = deployId === null ? null : await untilFinished(this.#needs, deployId, this.#needs.stopping)
    const current = entry.kept.duty.state
    if (row === null || this.#isToBeginAgain(entry, row)) {
      if (current.rolloutId !== state.rolloutId) return
      const { outcome, doneAttempt, error } = before ?? { outcome: 'none', doneAttempt: 0, error: null }
      await entry.kept.write({ state: { ...current, outcome, doneAttempt, error }, before: null })
      return this.#needs.changed(entry.kept.duty.projectId)
    }
    const placing = this.#placingOf(entry)
    const result = isRevert
      ? await revertResult(this.#needs, row, placing)
      : await swapResult(this.#needs, row, placing.releaseId)
    await this.#finish(entry, state, result)
  }
}

/*
 * One duty of a node, in memory and in the database. A change is in memory at once; one that cannot be stored, because the
 * disk is full, is taken back.
 */

export type KeptDuty = ReturnType<typeof keepDuty>

/** Keeps a duty, which need not be stored yet. */
export function keepDuty(store: Pick<Store, 'write'>, first: Duty) {
  let duty = first
  let written: Promise<unknown> = Promise.resolve()
  return {
    get duty() {
      return duty
    },

    /** Changes the duty, in memory at once. Resolves when it is on the disk; if that fails, the duty is as before. */
    write(change: Partial<Duty>, also?: (tx: Transaction) => void): Promise<unknown> {
      const before = duty
      const next = { ...before, ...change }
      duty = next
      const writing = store.write(tx => {
        putDuty(tx, next)
        also?.(tx)
      })
      const restore = (): void => void (duty === next && (duty = before))
      written = Promise.allSettled([written, writing.catch(restore)])
      return writing
    },

    /** Resolves when the writes until now have ended, well or not. */
    written: (): Promise<unknown> => written
  }
}

/* Fetches and checks the release of a duty, again and again while the hub cannot be reached. */

/** Waits between attempts, in ms. The last one is repeated. */
export const defaultRetriesMs: readonly number[] = [500, 1000, 2000, 5000, 10_000]

/** Returns the wait after an attempt; the first one is 0. */
export function waitAfter(attempt: number, retriesMs: readonly number[]): number {
  return retriesMs[Math.min(attempt, retriesMs.length - 1)] as number
}

/** How a release is made ready. */
export interface ReadyOptions {
  prepare(signal: AbortSignal): Promise<Release>
  retriesMs: readonly number[]
  /** Called when the first attempt has failed. */
  failed(reason: string): void
  signal: AbortSignal
}

/** Returns a release that is ready, or the refusal that another attempt would not cure. */
export async function makeReady({
  prepare,
  retriesMs,
  failed,
  signal
}: ReadyOptions): Promise<Release | Refusal | 'given up'> {
  let hadWrongDigest = false
  for (let attempt = 0; ; attempt++) {
    try {
      return await prepare(signal)
    } catch (error) {
      if (signal.aborted) return 'given up'
      const isFirstDamage = error instanceof Refusal && error.code === 'wrong_digest' && !hadWrongDigest
      if (isFirstDamage) hadWrongDigest = true
      else if (isFinal(error)) return error
      else if (attempt === 0) failed(reasonOf(error))
      await sleep(waitAfter(attempt, retriesMs), undefined, { signal }).catch(() => {})
      if (signal.aborted) return 'given up'
    }
  }
}

function isFinal(error: unknown): error is Refusal {
  return error instanceof Refusal && (error.kind !== 'unavailable' || ownRefusals.has(error.code))
}

/** Refusals of this machine, not of the network. */
const ownRefusals: ReadonlySet<string> = new Set(['no_space', 'not_permitted', 'disk_full', 'variables_key'])
