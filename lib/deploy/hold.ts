/*
 * A held deployment: its files are in place, and the earlier ones can still be put back. It is held while its
 * post-deploy script runs, while its checks run, and until it is confirmed, as its plan says. The record says so before
 * the undo journal does (core/install/undo.ts), so that a start finds out what to do.
 */

import { systemActor } from '../model/audit.js'
import type { CheckResult, DeploymentRow, DeploymentStep, RevertReason } from '../model/deployment.js'
import type { Gate, Policy } from '../model/policy.js'
import { countOf } from '../base/text.js'
import { messageOf } from '../base/errors.js'
import type { Displaced } from '../core/install/before-images.js'
import type { Executors } from '../core/install/unpack/executors.js'
import { removeJournal, revertExtraction, settleExtraction } from '../core/install/unpack/extract.js'
import { liveDeployment } from '../core/store/tables/deployments.js'
import { type LiveRun, openWindow } from './output/live.js'
import { Interrupted, StepFailure, StopRequest, Suspension } from './failure.js'
import { GateFailure } from './gate.js'
import { isExtracted, recordProgress, revertedPatch, sendNotice } from './record.js'
import { type ChosenScript, runScript, type ScriptStage } from './scripts/scripts.js'
import type { Scripted } from './scripted.js'
import type { DeployNeeds } from './needs.js'
import type { Output } from './output/output.js'

/** What a held deployment consists of. */
export interface HoldNeeds extends SettleNeeds {
  held: HeldDeployment & { live: LiveRun }
  plan: HoldPlan
  /** The steps of the run. */
  steps(): DeploymentStep[]
  /** The script that runs again after the earlier files are back; null: none. */
  script: ChosenScript | null
  stage(): ScriptStage
  /** Begins to watch what a script changes. Resolves with the function that ends it. */
  watch(): Promise<() => Promise<void>>
  scripted: Pick<Scripted, 'leave'>
  /** Runs the checks. Throws a GateFailure. */
  runGate(options: { signal: AbortSignal; onResults(results: CheckResult[]): void }): Promise<void>
  /** Runs each check once and says what it answered. */
  reportGate(signal: AbortSignal): Promise<void>
}

/** A held deployment in its pipeline. */
export class Hold {
  readonly #needs: HoldNeeds
  readonly plan: HoldPlan
  readonly #row: DeploymentRow
  readonly #live: LiveRun
  #phase: HoldPhase | 'settle'
  /** What a revert could not put back. */
  #missing: string | null = null

  constructor(needs: HoldNeeds) {
    this.#needs = needs
    const { plan, held } = needs
    this.plan = plan
    this.#row = held.row
    this.#live = held.live
    this.#phase = held.row.heldFor ?? 'post'
    held.live.isHeld = held.row.heldFor !== null
  }

  /** Whether the files are in place. */
  isPlaced(): boolean {
    return this.#live.isHeld
  }

  /** Says that the files are in place. */
  placed(): void {
    this.#live.isHeld = true
  }

  /** Begins a phase. The record gets it with the next step. */
  begin(next: HoldPhase): void {
    this.#hold(next, this.#needs.clock.now() + longestMs(this.plan, next, this.#needs.stage().timeoutMs))
  }

  /** Runs the checks. Returns the sentence of the step. */
  async check(): Promise<string> {
    await untilStopped(this.#live, signal =>
      this.#needs.runGate({ signal, onResults: results => this.#noteResults(results) })
    )
    return 'all checks passed'
  }

  /** Waits until the deployment is confirmed. Returns the sentence of the step. `isNew`: nobody was told of it yet. */
  async confirm({ isNew }: { isNew: boolean }): Promise<string> {
    return awaitConfirmation(this.#needs, this.#needs.held, { seconds: this.plan.confirmSeconds, isNew })
  }

  /** Settles the deployment: the earlier files cannot be put back any more. */
  async settle(): Promise<void> {
    this.#phase = 'settle'
    await settle(this.#needs, this.#needs.held)
    this.#live.isHeld = false
    this.#row.heldFor = null
    this.#row.holdUntil = null
  }

  /** Returns why an error puts the earlier files back; null if they stay away. */
  reasonFor(error: unknown): RevertReason | null {
    if (error instanceof Interrupted) return error.reason
    if (error instanceof StopRequest) return error.by === 'cancel' ? 'operator' : 'restart'
    if (this.#phase === 'settle' || !isExtracted(this.#needs.steps())) return 'error'
    if (this.#phase === 'post') return this.plan.revertsOnPostFailure ? 'post' : null
    if (this.#phase === 'confirm') return 'confirm'
    return isFailedGate(error) && this.plan.gate?.onFailure === 'keep' ? null : 'check'
  }

  /** Records the reason of a revert that is about to begin. */
  willRevert(reason: RevertReason): void {
    this.#row.revertReason = reason
  }

  /** Puts the earlier files back, and runs the post-deploy script again. Returns the sentence of the step. */
  async revert(step: DeploymentStep): Promise<string> {
    this.#missing = await revert(this.#needs, this.#needs.held, this.#needs.steps())
    this.#live.isHeld = false
    await this.#needs.scripted.leave(this.#row.id)
    await afterRevert(this.#needs, step)
    return 'reverted'
  }

  /** Returns an error with the result of the revert added to its sentence. */
  withResult(error: unknown, failure: unknown): unknown {
    const result =
      failure === null
        ? backSentence(this.#needs, this.#row)
        : reportFailedRevert(this.#needs, this.#needs.held, failure)
    const sentence = `${(error as Error).message}; ${result}${this.#missing === null ? '' : `. ${this.#missing}`}`
    if (error instanceof StopRequest) return new StopRequest(error.by, sentence)
    return new StepFailure(sentence, { cause: (error as Error).cause })
  }

  /** Keeps the results of the checks. A change of an answer is recorded at once, so that users see it. */
  #noteResults(results: CheckResult[]): void {
    const isNews = results.some(({ ok, message }, index) => {
      const before = this.#row.checks[index]
      return before?.ok !== ok || before.message !== message
    })
    this.#row.checks = results
    if (!isNews) return
    this.#needs.store
      .write(tx => recordProgress(tx, this.#row.id, { checks: results }))
      .catch(error => this.#needs.log(`Cannot record the checks of deployment ${this.#row.id} yet`, error))
  }

  #hold(next: HoldPhase, untilMs: number): void {
    this.#phase = next
    this.#row.heldFor = next
    this.#row.holdUntil = new Date(untilMs).toISOString()
  }
}

/** Runs `work` until the deployment is stopped, or the server stops. */
async function untilStopped<T>(live: LiveRun, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const stop = new AbortController()
  const abort = (): void => stop.abort()
  for (const signal of [live.suspending, live.signal]) {
    signal.addEventListener('abort', abort)
    if (signal.aborted) abort()
  }
  try {
    return await work(stop.signal)
  } catch (error) {
    if (live.suspending.aborted) throw new Suspension()
    live.signal.throwIfAborted()
    throw error
  } finally {
    for (const signal of [live.suspending, live.signal]) signal.removeEventListener('abort', abort)
  }
}

/**
 * Waits until a deployment is confirmed, at most until its `holdUntil`. Returns the sentence of the step. `isNew`: nobody
 * was told of it yet.
 */
export async function awaitConfirmation(
  needs: Parameters<typeof sendNotice>[0] & Pick<DeployNeeds, 'clock'>,
  { row, live, output }: HeldDeployment & { live: LiveRun },
  { seconds, isNew }: { seconds: number | null; isNew: boolean }
): Promise<string> {
  const nowMs = needs.clock.now()
  // The clock may have been set back while the server was stopped.
  const longestMs = (seconds ?? Infinity) * 1000
  const window = openWindow({ ms: Math.min(Date.parse(row.holdUntil as string) - nowMs, longestMs), nowMs })
  row.holdUntil = window.until
  live.window = window
  if (isNew) {
    const notice = { trigger: 'confirmation', event: 'deploy_waiting', errorMessage: null } as const
    sendNotice(needs, { ...row, status: 'running' }, notice)
  }
  output.say(`→ waiting for "svc confirm" until ${window.until.slice(0, 19).replace('T', ' ')} UTC`)
  try {
    if (await untilStopped(live, signal => window.decided(signal))) return 'confirmed'
  } finally {
    live.window = null
  }
  throw new StepFailure(
    seconds === null ? 'Nobody confirmed the deployment in time' : `Nobody confirmed the deployment within ${seconds} s`
  )
}

function isFailedGate(error: unknown): boolean {
  return error instanceof GateFailure || (error instanceof StepFailure && error.cause instanceof GateFailure)
}

/**
 * Runs the post-deploy script again, so that a service is restarted on the earlier files, and reports the checks. The
 * files are back whatever these do.
 */
async function afterRevert(
  { held, plan, script, stage, watch, reportGate }: HoldNeeds,
  step: DeploymentStep
): Promise<void> {
  const { live, output } = held
  if (plan.runsRevertScript && script !== null && !live.forced.aborted) {
    const base = stage()
    const env = { ...base.env, SVC_DEPLOY_MODE: 'revert' }
    // A cancelled deployment is reverted as well: only the end of the server stops the script.
    const again = { ...base, env, signal: live.forced, onRan: () => {} }
    const end = await watch()
    const line = await runScript(again, { ...script, async: false }, step).catch((error: Error) => `✗ ${error.message}`)
    await end()
    if (line !== null) output.say(line.startsWith('✗') ? line : `→ ${line}`)
  }
  if (plan.gate !== null && !live.forced.aborted) await reportGate(live.forced)
}

/** How long, and why, a deployment can be put back after its files are in place. */
export interface HoldPlan {
  /** The checks that must pass; null: none. */
  gate: Gate | null
  /** The time in which it must be confirmed; null: it need not be. */
  confirmSeconds: number | null
  /** Whether a failed post-deploy script puts the earlier files back. */
  revertsOnPostFailure: boolean
  /** Whether the post-deploy script runs again after the earlier files are back. */
  runsRevertScript: boolean
}

/** The plan of a deployment that was held by a policy that has been removed since. */
export const bareHold: HoldPlan = {
  gate: null,
  confirmSeconds: null,
  revertsOnPostFailure: true,
  runsRevertScript: true
}

/** Returns the plan of a deployment, or null if it is settled as soon as its files are in place. */
export function holdPlanOf(policy: Policy, confirmSeconds: number | null): HoldPlan | null {
  const gate = policy.gate !== null && policy.gate.after.length > 0 ? policy.gate : null
  const seconds = confirmSeconds ?? policy.confirm?.seconds ?? null
  const revertsOnPostFailure = policy.onPostFailure === 'revert'
  if (gate === null && seconds === null && !revertsOnPostFailure) return null
  return { gate, confirmSeconds: seconds, revertsOnPostFailure, runsRevertScript: policy.revertScript === 'post' }
}

/** The steps in which a deployment is held. */
export type HoldPhase = NonNullable<DeploymentRow['heldFor']>

/** Time that an extraction may take before its deployment is put back by a start that finds it. */
const extractionMs = 60 * 60_000
/** Time for everything between the steps. */
const marginMs = 60_000

/**
 * Returns an upper bound of the time until a deployment is settled, from the beginning of a phase on. The phase `post`
 * includes the extraction.
 */
export function longestMs({ gate, confirmSeconds }: HoldPlan, phase: HoldPhase, scriptTimeoutMs: number): number {
  const windowMs = (confirmSeconds ?? 0) * 1000
  if (phase === 'confirm') return windowMs
  const gateMs = gate === null ? 0 : (gate.deadline + gate.stableFor + gate.timeout) * 1000
  const checkMs = gateMs + windowMs + marginMs
  return phase === 'check' ? checkMs : extractionMs + scriptTimeoutMs + checkMs
}

/* The end of a deployment that was held: it is settled, or the earlier files are put back. */

/** Maximum number of paths in a sentence about files that are not back. */
const shownPaths = 10

export interface SettleNeeds extends Pick<DeployNeeds, 'store' | 'home' | 'clock' | 'audit' | 'notify' | 'log'> {
  executors: Executors
}

export interface HeldDeployment {
  row: DeploymentRow
  output: Output
}

/** Settles a deployment: from now on its files stay. Its result is not recorded yet. */
async function settle({ executors, home }: SettleNeeds, { row }: HeldDeployment): Promise<void> {
  if (!(await settleExtraction(executors, home, row.id))) throw new Error('The earlier files have been put back')
}

/**
 * Puts the earlier files back and records that. Resolves with a sentence about those that could not be put back, or with
 * null. Throws if that is not possible now; the record then says what is to be done, and the next start or deployment tries
 * again.
 */
async function revert(
  needs: SettleNeeds,
  { row, output }: HeldDeployment,
  steps: DeploymentStep[]
): Promise<string | null> {
  const { store, home, clock, executors, log } = needs
  const displaced = await revertExtraction(executors, home, row.id)
  Object.assign(row, revertedPatch(row, clock.now()))
  try {
    await store.write(tx => recordProgress(tx, row.id, { ...row, steps, status: 'running' }))
    await removeJournal(home, row.id)
  } catch (error) {
    log(`Cannot record yet that the files before deployment ${row.id} are back`, error)
  }
  const notBack = displaced?.notBack ?? []
  const isBack = displaced === null || notBack.length === 0
  output.say(`→ ${backSentence(needs, row)}${isBack ? '' : ', except what could not be put back'}`)
  if (displaced !== null && displaced.count > 0) output.say(`→ ${displacedSentence(displaced)}`)
  if (isBack) return null
  const missing = missingSentence(displaced.directory, notBack)
  output.say(`! ${missing}`)
  auditFailedRevert(needs, row, missing)
  return missing
}

/** Returns the sentence that says which files are in the target now. */
function backSentence({ store }: Pick<SettleNeeds, 'store'>, row: DeploymentRow): string {
  // If the record could not be written yet, it still says that this deployment is live.
  const live = liveDeployment(store, row.projectId)
  const isKnown = live !== undefined && live.id !== row.id
  return isKnown ? `the earlier files are back, ${live.id} is live` : 'the earlier files are back'
}

function displacedSentence({ directory, paths, count }: Displaced): string {
  const more = count > paths.length ? `, and ${count - paths.length} more` : ''
  return `${countOf(count, 'file')} edited meanwhile kept in ${directory}: ${paths.join(', ')}${more}`
}

function missingSentence(directory: string, notBack: readonly string[]): string {
  const more = notBack.length > shownPaths ? `, and ${notBack.length - shownPaths} more` : ''
  const paths = notBack.slice(0, shownPaths).join(', ')
  return `${countOf(notBack.length, 'earlier file')} not back, something is in the way: ${paths}${more}. Copies are in ${directory}/.earlier`
}

function auditFailedRevert({ audit }: SettleNeeds, { id, projectId }: DeploymentRow, detail: string): void {
  audit({ action: 'deployment.revert_failed', actor: systemActor, projectId, target: id, detail, ok: false })
}

/** Reports a revert that failed. It is never silent: it is in the output, in the log and in the audit log. */
function reportFailedRevert(needs: SettleNeeds, { row }: HeldDeployment, error: unknown): string {
  const why = messageOf(error)
  auditFailedRevert(needs, row, why)
  needs.log(`Cannot put back the files before deployment ${row.id}. The next start or deployment tries again`, error)
  return `the earlier files are not back yet: ${why}. The next start or deployment tries again`
}

/** Whether a deployment was stopped before everything that comes before its checks was done. */
function wasCutShort({ steps }: Pick<DeploymentRow, 'steps'>): boolean {
  return !isExtracted(steps) || !steps.some(({ name }) => name === 'check' || name === 'confirm')
}

/** Why a start puts a held deployment back, or null if it can continue. */
export function restartReason(row: DeploymentRow, nowMs: number): RevertReason | null {
  if (row.revertReason !== null) return row.revertReason
  if (wasCutShort(row)) return 'restart'
  const isPast = row.holdUntil === null || Date.parse(row.holdUntil) <= nowMs
  if (!isPast) return null
  return row.steps.some(({ name }) => name === 'confirm') ? 'confirm' : 'restart'
}
