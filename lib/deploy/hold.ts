/*
 * A held deployment: its files are in place, and the earlier ones can still be put back. It is held while its
 * post-deploy script runs, while its checks run, and until it is confirmed, as its plan says. The record says so before
 * the undo journal does (install/undo.ts), so that a start finds out what to do.
 */
import type { CheckResult, DeploymentStep, RevertReason } from '../model/deployment.js'
import { openWindow } from './confirm-window.js'
import { Interrupted, StepFailure, StopRequest, Suspension } from './failure.js'
import { GateFailure } from './gate.js'
import { longestMs, type HoldPhase, type HoldPlan } from './hold-plan.js'
import type { LiveRun } from './output/live.js'
import { isExtracted, recordProgress } from './record.js'
import { runScript, type ScriptStage } from './scripts/script-run.js'
import type { Scripted } from './scripted.js'
import type { ChosenScript } from './scripts/scripts.js'
import { backSentence, reportFailedRevert, revert, settle, type HeldDeployment, type SettleNeeds } from './settle.js'

/** A held deployment in its pipeline. */
export interface Hold {
  plan: HoldPlan
  /** Whether the files are in place. */
  isPlaced(): boolean
  /** Says that the files are in place. */
  placed(): void
  /** Begins a phase. The record gets it with the next step. */
  begin(phase: HoldPhase): void
  /** Runs the checks. Returns the sentence of the step. */
  check(): Promise<string>
  /** Waits until the deployment is confirmed. Returns the sentence of the step. */
  confirm(): Promise<string>
  /** Settles the deployment: the earlier files cannot be put back any more. */
  settle(): Promise<void>
  /** Returns why an error puts the earlier files back; null if they stay away. */
  reasonFor(error: unknown): RevertReason | null
  /** Puts the earlier files back, and runs the post-deploy script again. Returns the sentence of the step. */
  revert(step: DeploymentStep): Promise<string>
  /** Records the reason of a revert that is about to begin. */
  willRevert(reason: RevertReason): void
  /** Returns an error with the result of the revert added to its sentence. */
  withResult(error: unknown, failure: unknown): unknown
}

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

/** Creates the hold of one deployment. */
export function createHold(needs: HoldNeeds): Hold {
  const { clock, store, plan, held, log } = needs
  const { row, live, output } = held
  let phase: HoldPhase | 'settle' = row.heldFor ?? 'post'
  live.isHeld = row.heldFor !== null
  /** What a revert could not put back. */
  let missing: string | null = null

  /** Runs `work` until the deployment is stopped, or the server stops. */
  async function untilStopped<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
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

  /** Keeps the results of the checks. A change of an answer is recorded at once, so that users see it. */
  function noteResults(results: CheckResult[]): void {
    const isNews = results.some(({ ok, message }, index) => {
      const before = row.checks[index]
      return before?.ok !== ok || before.message !== message
    })
    row.checks = results
    if (!isNews) return
    store
      .write(tx => recordProgress(tx, row.id, { checks: results }))
      .catch(error => log(`Cannot record the checks of deployment ${row.id} yet`, error))
  }

  function hold(next: HoldPhase, untilMs: number): void {
    phase = next
    row.heldFor = next
    row.holdUntil = new Date(untilMs).toISOString()
  }

  return {
    plan,
    isPlaced: () => live.isHeld,
    placed() {
      live.isHeld = true
    },
    begin(next) {
      hold(next, clock.now() + longestMs(plan, next, needs.stage().timeoutMs))
    },
    async check() {
      await untilStopped(signal => needs.runGate({ signal, onResults: noteResults }))
      return 'all checks passed'
    },
    async confirm() {
      const nowMs = clock.now()
      // The clock may have been set back while the server was stopped.
      const longestMs = (plan.confirmSeconds ?? Infinity) * 1000
      const window = openWindow({ ms: Math.min(Date.parse(row.holdUntil as string) - nowMs, longestMs), nowMs })
      row.holdUntil = window.until
      live.window = window
      output.say(`→ waiting for "svc confirm" until ${window.until}`)
      try {
        if (await untilStopped(signal => window.decided(signal))) return 'confirmed'
      } finally {
        live.window = null
      }
      throw new StepFailure(
        plan.confirmSeconds === null
          ? 'Nobody confirmed the deployment in time'
          : `Nobody confirmed the deployment within ${plan.confirmSeconds} s`
      )
    },
    async settle() {
      phase = 'settle'
      await settle(needs, held)
      live.isHeld = false
      row.heldFor = null
      row.holdUntil = null
    },
    reasonFor(error) {
      if (error instanceof Interrupted) return error.reason
      if (error instanceof StopRequest) return error.by === 'cancel' ? 'operator' : 'restart'
      if (phase === 'settle' || !isExtracted(needs.steps())) return 'error'
      if (phase === 'post') return plan.revertsOnPostFailure ? 'post' : null
      if (phase === 'confirm') return 'confirm'
      return isFailedGate(error) && plan.gate?.onFailure === 'keep' ? null : 'check'
    },
    willRevert(reason) {
      row.revertReason = reason
    },
    async revert(step) {
      missing = await revert(needs, held, needs.steps())
      live.isHeld = false
      await needs.scripted.leave(row.id)
      await afterRevert(needs, step)
      return 'reverted'
    },
    withResult(error, failure) {
      const result = failure === null ? backSentence(needs, row) : reportFailedRevert(needs, held, failure)
      const sentence = `${(error as Error).message}; ${result}${missing === null ? '' : `. ${missing}`}`
      if (error instanceof StopRequest) return new StopRequest(error.by, sentence)
      return new StepFailure(sentence, { cause: (error as Error).cause })
    }
  }
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
