import { countOf } from '../base/count.js'
import { closing } from '../base/closing.js'
import { formatBytes } from '../base/size.js'
import type { DeploymentStep } from '../model/deployment.js'
import { leaveRunning } from './background.js'
import type { Extracted } from './extraction.js'
import { runScript, startScript, type ScriptStage, type Tail } from './script-run.js'
import type { ChosenScripts } from './scripts.js'
import type { Steps } from './steps.js'

/** What one run of the pipeline works with. */
export interface PipelineRun {
  steps: Steps
  scripts: ChosenScripts
  stage: ScriptStage
  makeTarget(): Promise<unknown>
  extract(): Promise<Extracted>
  /** Keeps what changed for the post-deploy script; gives the path. */
  writeChanges(changes: Uint8Array[]): Promise<string>
  discardUpload(): Promise<void>
}

/** What a run has left to do. */
export interface PipelineResult {
  tail: Tail | null
}

/** The six steps of one deployment, in the order of the specification (§3). */
export async function runPipeline(run: PipelineRun, result: PipelineResult): Promise<void> {
  const { steps, stage, scripts } = run
  // 'store' was done before there was a record: intake.ts.
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
  return `the target directory ${run.stage.target} is there`
}

async function extract(run: PipelineRun): Promise<string> {
  const { fileCount, bytes, changedCount, changes } = await run.extract()
  if (run.scripts.postDeploy !== null) await tellChanges(run, changes)
  return `${countOf(fileCount, 'file')}, ${formatBytes(bytes)} in place, ${changedCount} of them new or changed`
}

/** The files are in place: what the script cannot be told must not keep it from running. */
async function tellChanges(run: PipelineRun, changes: Uint8Array[]): Promise<void> {
  try {
    run.stage = { ...run.stage, env: { ...run.stage.env, SVC_CHANGES: await run.writeChanges(changes) } }
  } catch (error) {
    const why = (error as Error).message
    run.stage.output.say(`→ the list of changes could not be written: the post-deploy script runs without it, SVC_CHANGES is empty (${why})`)
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
  return 'the temporary zip is removed'
}
