import { countOf } from '../base/count.js'
import { closing } from '../base/closing.js'
import { formatBytes } from '../shared/size.js'
import type { DeploymentStep } from '../model/deployment.js'
import { leaveRunning } from './scripts/background.js'
import type { Extracted } from '../install/unpack/extraction.js'
import { runScript, startScript, type ScriptStage, type Tail } from './scripts/script-run.js'
import type { ChosenScripts } from './scripts/scripts.js'
import type { Steps } from './steps.js'

/** Everything that one run of the pipeline uses. */
export interface PipelineRun {
  steps: Steps
  scripts: ChosenScripts
  stage: ScriptStage
  makeTarget(): Promise<unknown>
  extract(): Promise<Extracted>
  /** Writes the list of changes for the post-deploy script. Returns its path. */
  writeChanges(changes: Uint8Array[]): Promise<string>
  discardUpload(): Promise<void>
}

/** Work that is left after a run. */
export interface PipelineResult {
  /** The post-deploy script that still runs in the background, or null. */
  tail: Tail | null
}

/** Runs the six steps of one deployment in the order of the specification (§3). */
export async function runPipeline(run: PipelineRun, result: PipelineResult): Promise<void> {
  const { steps, stage, scripts } = run
  // Step 1, 'store', is done before the record exists: see intake.ts.
  await closing(async defer => {
    defer(() => steps.run('cleanup', () => discardUpload(run)))
    await steps.run('target', () => makeTarget(run))
    await steps.run('preDeploy', step => runScript(stage, scripts.preDeploy, step))
    await steps.run('extract', () => extract(run))
    await steps.run('postDeploy', step => runPostDeploy(run, result, step))
    if (result.tail !== null) leaveRunning(steps.all())
  })
}

async function makeTarget(run: PipelineRun): Promise<string> {
  await run.makeTarget()
  return `prepared the target directory ${run.stage.target}`
}

async function extract(run: PipelineRun): Promise<string> {
  const { fileCount, bytes, changedCount, changes } = await run.extract()
  if (run.scripts.postDeploy !== null) await passChanges(run, changes)
  return `extracted ${countOf(fileCount, 'file')} (${formatBytes(bytes)}), ${changedCount} new or changed`
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
  if (chosen === null || !chosen.async) return runScript(stage, chosen, step)
  const { sentence, tail } = await startScript(stage, chosen, step)
  result.tail = tail
  return sentence
}

async function discardUpload(run: PipelineRun): Promise<string> {
  await run.discardUpload()
  return 'removed the temporary zip'
}
