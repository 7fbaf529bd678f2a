import { countOf, formatSeconds } from '../base/text.js'
import { closing } from '../base/async.js'
import { formatBytes } from '../base/shared/api.js'
import type { DeploymentStep, StepName } from '../model/deployment.js'
import type { Extracted } from '../core/install/unpack/extraction.js'
import { type Clock, elapsedOf, instantOf } from '../base/clock.js'
import { type Interrupted, sentenceOf, StepFailure, Suspension } from './failure.js'
import type { Hold } from './hold.js'
import { leaveRunning } from './scripts/script-processes.js'
import {
  type ChosenScript,
  type ChosenScripts,
  runScript,
  type ScriptStage,
  startScript,
  type Tail
} from './scripts/scripts.js'
import type { Output } from './output/output.js'

/** Everything that one run of the pipeline uses. */
export interface PipelineRun {
  steps: Steps
  scripts: ChosenScripts
  stage: ScriptStage
  makeTarget(): Promise<unknown>
  extract(): Promise<Extracted>
  /** How the deployment is held after its files are in place; null: it is not. */
  hold: Hold | null
  /** Begins to watch what a script changes. Resolves with the function that ends it (scripted.ts). */
  watch(): Promise<(options?: { isLate: boolean }) => Promise<void>>
  /** Writes the list of changes for the post-deploy script. Returns its path. */
  writeChanges(changes: Uint8Array[]): Promise<string>
  /** Runs the script for a failure (turn.ts). Never rejects. */
  failed(error: unknown): Promise<void>
  /** Runs it after a success that takes a release back. Never rejects. */
  done(): Promise<void>
  discardUpload(): Promise<void>
}

/** Work that is left after a run. */
export interface PipelineResult {
  /** The post-deploy script that still runs in the background, or null. */
  tail: Tail | null
}

/**
 * Runs the six steps of one deployment in the order of the specification (§3). A deployment that is held has its checks
 * and its confirmation after the post-deploy script.
 */
export async function runPipeline(run: PipelineRun, result: PipelineResult): Promise<void> {
  const { steps, scripts } = run
  // Step 1, 'store', is done before the record exists: see intake.ts.
  await cleaningUp(run, async () => {
    await steps.run('target', () => makeTarget(run))
    await steps.run('preDeploy', step => runWatched(run, scripts.preDeploy, step))
    run.hold?.begin('post')
    await orGoBack(run, async () => {
      await steps.run('extract', () => extract(run))
      await steps.run('postDeploy', step => runPostDeploy(run, result, step))
      if (result.tail !== null) leaveRunning(steps.all())
      await confirmHold(run, { fromConfirm: false })
    })
    await run.done()
  })
}

/**
 * Where a start continues a deployment: a held one at its checks or its confirmation, or by putting the files back; an
 * interrupted one with what follows a failure.
 */
export type ResumePoint =
  | { at: 'check' | 'confirm' }
  | { at: 'revert'; error: Interrupted }
  | { at: 'failure'; error: Error }

/** Continues a deployment that was held, or ran, when the server stopped. */
export async function resumePipeline(run: PipelineRun, point: ResumePoint): Promise<void> {
  await cleaningUp(run, async () => {
    if (point.at === 'failure') throw point.error
    await orGoBack(run, async () => {
      if (point.at === 'revert') throw point.error
      await confirmHold(run, { fromConfirm: point.at === 'confirm' })
    })
    await run.done()
  })
}

/** Runs the checks and waits for the confirmation, as the plan says. */
async function confirmHold({ hold, steps }: PipelineRun, { fromConfirm }: { fromConfirm: boolean }): Promise<void> {
  if (hold === null) return
  if (hold.plan.gate !== null && !fromConfirm) {
    hold.begin('check')
    await steps.run('check', () => hold.check())
  }
  if (hold.plan.confirmSeconds !== null) {
    if (!fromConfirm) hold.begin('confirm')
    await steps.run('confirm', () => hold.confirm({ isNew: !fromConfirm }))
  }
}

/** Settles a held deployment, or puts the earlier files back if `work` fails. */
async function orGoBack({ hold, steps }: PipelineRun, work: () => Promise<void>): Promise<void> {
  try {
    await work()
    await hold?.settle()
  } catch (error) {
    if (hold === null || !hold.isPlaced() || error instanceof Suspension) throw error
    const reason = hold.reasonFor(error)
    if (reason === null) {
      await hold.settle()
      throw error
    }
    hold.willRevert(reason)
    const failure = await steps
      .run('revert', step => hold.revert(step))
      .then(
        () => null,
        (failure: unknown) => failure
      )
    throw hold.withResult(error, failure)
  }
}

/** Removes the temporary zip at the end, unless the next start continues the deployment. */
async function cleaningUp(run: PipelineRun, work: () => Promise<void>): Promise<void> {
  let isSuspended = false
  await closing(async defer => {
    defer(() => (isSuspended ? run.discardUpload() : run.steps.run('cleanup', () => discardUpload(run))))
    await work().catch(async error => {
      isSuspended = error instanceof Suspension
      if (!isSuspended) await run.failed(error)
      throw error
    })
  })
}

async function makeTarget(run: PipelineRun): Promise<string> {
  await run.makeTarget()
  return `prepared the target directory ${run.stage.target}`
}

async function extract(run: PipelineRun): Promise<string> {
  const { fileCount, bytes, changedCount, modeCount, removedCount, changes } = await run.extract()
  if (run.scripts.postDeploy !== null) await passChanges(run, changes)
  const modes = modeCount === 0 ? '' : `, ${modeCount} with other permissions`
  const removed = removedCount === 0 ? '' : `, ${removedCount} removed`
  return `extracted ${countOf(fileCount, 'file')} (${formatBytes(bytes)}), ${changedCount} new or changed${modes}${removed}`
}

/** Passes the list of changes to the script. The files are in place, so a failure must not stop the script. */
async function passChanges(run: PipelineRun, changes: Uint8Array[]): Promise<void> {
  try {
    run.stage = { ...run.stage, env: { ...run.stage.env, SVC_CHANGES: await run.writeChanges(changes) } }
  } catch (error) {
    const why = (error as Error).message
    run.stage.output.say(
      `→ cannot write the list of changes: the post-deploy script runs with an empty SVC_CHANGES (${why})`
    )
  }
}

async function runPostDeploy(run: PipelineRun, result: PipelineResult, step: DeploymentStep): Promise<string | null> {
  const chosen = run.scripts.postDeploy
  const { stage } = run
  if (chosen === null || !chosen.async) return runWatched(run, chosen, step)
  const end = await run.watch()
  try {
    const { sentence, tail } = await startScript(stage, chosen, step)
    result.tail = tail.finally(() => end({ isLate: true }))
    return sentence
  } catch (error) {
    await end()
    throw error
  }
}

/** Runs a script, and notes what it changes. */
async function runWatched(run: PipelineRun, chosen: ChosenScript | null, step: DeploymentStep): Promise<string | null> {
  if (chosen === null) return null
  const end = await run.watch()
  return runScript(run.stage, chosen, step).finally(() => end())
}

async function discardUpload(run: PipelineRun): Promise<string> {
  await run.discardUpload()
  return 'removed the temporary zip'
}

/** The steps of a run as they are recorded, with their start and end times. */
export type Steps = ReturnType<typeof createSteps>

/** The work of one step. Returns a sentence for the output, or null if the step is skipped. */
export type StepWork = (step: DeploymentStep) => Promise<string | null>

export interface StepsNeeds {
  clock: Clock
  output: Output
  signal: AbortSignal
  /** Steps that are done already: step 1. */
  done: readonly DeploymentStep[]
  /** Writes the steps to the record. */
  save(steps: DeploymentStep[]): Promise<void>
}

/** Creates the list of steps of one run. */
export function createSteps({ clock, output, signal, done, save }: StepsNeeds) {
  const steps = done.map(step => ({ ...step }))

  async function carryOut(step: DeploymentStep, work: StepWork): Promise<void> {
    const startedMs = elapsedOf(clock)
    await save(steps)
    const sentence = await work(step)
    if (sentence !== null) output.say(`→ ${sentence} (${formatSeconds(elapsedOf(clock) - startedMs)})`)
    await output.flush()
    step.status = sentence === null ? 'skipped' : 'success'
  }

  return {
    /**
     * Runs a step. `work` returns a sentence for the output, or null if there was nothing to do. Throws a StepFailure
     * whose message is for the record, or the reason of the aborted signal.
     */
    async run(name: StepName, work: StepWork): Promise<void> {
      const isClosing = name === 'cleanup' || name === 'revert' || name === 'onFailure'
      if (!isClosing) signal.throwIfAborted()
      const step: DeploymentStep = { name, status: 'running', startedAt: instantOf(clock), endedAt: null }
      steps.push(step)
      try {
        await carryOut(step, work)
      } catch (error) {
        // The next start continues the step.
        if (error instanceof Suspension) throw error
        step.status = 'failed'
        step.endedAt = instantOf(clock)
        if (signal.aborted && !isClosing) throw signal.reason
        throw new StepFailure(sentenceOf(error, name), { cause: error })
      }
      step.endedAt = instantOf(clock)
    },
    all: (): DeploymentStep[] => steps
  }
}
