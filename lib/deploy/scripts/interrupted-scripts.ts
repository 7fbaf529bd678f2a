/*
 * Scripts that were running when svc was killed. The next start stops those that still run before it changes their
 * targets, so that no deployment runs beside remains of another one.
 *
 * A script counts as interrupted if its step has no end, and either its processes are recorded or its step is recorded
 * as running (svc may be killed before the processes are recorded). A copied or restored data directory has no running
 * scripts. The process group is stopped if its leader still runs: same number, same start, same boot. Every process
 * with the script's marker is stopped, whatever its group. Processes that outlive a script which ended by itself are
 * left alone.
 */
import {
  scriptSteps,
  type DeploymentRow,
  type DeploymentStep,
  type RanScript,
  type ScriptProcess
} from '../../model/deployment.js'
import { bootId, defaultGraceMs, isStillRunning, type Stopped, stopProcesses } from '../../proc/stop.js'
import {
  deleteScriptProcess,
  findDeployment,
  listScriptProcesses,
  unfinishedDeployments
} from '../../store/tables/deployments.js'
import { endBackground } from './background.js'
import type { DeployFiles } from '../files.js'
import type { DeployNeeds } from '../needs.js'
import { openOutput } from '../output/output.js'
import { identityOf, linesOfRemains, markerOf, nameOf } from './script-processes.js'
import { isFinal } from '../status.js'

type InterruptedNeeds = DeployNeeds & { files: DeployFiles }

/** A script that may still run. `process` is null if it was not recorded. */
interface Script {
  deployId: string
  step: RanScript['step']
  process: ScriptProcess | null
}

/**
 * Stops all interrupted scripts and reports it in the outputs of their deployments. Never rejects: a start must not
 * fail.
 */
export async function endInterruptedScripts(needs: InterruptedNeeds): Promise<void> {
  const recorded = listScriptProcesses(needs.store)
  const scripts = [...recorded.map(process => ({ ...process, process })), ...unrecorded(needs, recorded)]
  const failed = (error: unknown): void => needs.log('Cannot stop scripts that an earlier server left running', error)
  await Promise.all(scripts.map(script => endScript(needs, script).catch(failed)))
  if (recorded.length === 0) return
  await needs.store.write(tx => recorded.forEach(one => deleteScriptProcess(tx, one))).catch(failed)
}

function unrecorded({ store }: InterruptedNeeds, recorded: readonly ScriptProcess[]): Script[] {
  const isRecorded = (deployId: string, step: string): boolean =>
    recorded.some(one => one.deployId === deployId && one.step === step)
  return unfinishedDeployments(store).flatMap(({ id, steps }) =>
    steps
      .filter(isRunningScript)
      .filter(({ name }) => !isRecorded(id, name))
      .map(({ name }) => ({ deployId: id, step: name === 'revert' ? 'postDeploy' : name, process: null }))
  )
}

/** The step `revert` runs the post-deploy script. */
const isRunningScript = (step: DeploymentStep): step is DeploymentStep & { name: RanScript['step'] | 'revert' } =>
  step.status === 'running' && (step.name === 'revert' || scriptSteps.some(name => name === step.name))
const isRevert = ({ name }: DeploymentStep): boolean => name === 'revert'

async function endScript(needs: InterruptedNeeds, script: Script): Promise<void> {
  const row = findDeployment(needs.store, script.deployId)
  if (row !== undefined && !isInterrupted(row, script)) return
  const stopped = await end(script, identityOf(needs.home))
  if (row === undefined) return
  const complaint = isFinal(row.status) ? complaintOf(stopped) : null
  await say(needs, row, [...linesOf(stopped, script.step), ...(complaint === null ? [] : [`✗ ${complaint}`])])
  if (complaint !== null) await endBackground(needs, row.id, { complaint, exitCode: null })
}

/** Whether the record contains no end of the script. */
function isInterrupted({ steps }: DeploymentRow, script: Script): boolean {
  // The post-deploy script runs again in the step `revert`.
  const isAgain = script.step === 'postDeploy' && steps.some(isRevert)
  const step = steps.find(({ name }) => name === (isAgain ? 'revert' : script.step))
  return step === undefined || step.status === 'running'
}

async function end({ deployId, step, process }: Script, home: string): Promise<Stopped> {
  if (process !== null && (process.bootId !== bootId() || process.home !== home))
    return { endedCount: 0, left: [], isPartial: false }
  const group = process !== null && isStillRunning(process) ? process.pid : null
  return stopProcesses({ group, marker: markerOf(deployId, step), graceMs: defaultGraceMs })
}

function complaintOf({ endedCount, left }: Stopped): string {
  const script = 'The post-deploy script in the background'
  if (endedCount + left.length > 0) return `${script} was interrupted: the server was restarted while it ran`
  return `${script} ended while the server was down: its exit code is unknown`
}

function linesOf(stopped: Stopped, step: RanScript['step']): string[] {
  const { endedCount } = stopped
  const were = endedCount === 1 ? 'process was' : 'processes were'
  const ended = `→ the ${nameOf(step)} script was still running: its ${endedCount} ${were} stopped`
  return [...(endedCount > 0 ? [ended] : []), ...linesOfRemains(stopped, step)]
}

/** Appends lines to an output. A failure must not affect the other outputs. */
async function say({ files, clock, log }: InterruptedNeeds, { id }: DeploymentRow, lines: string[]): Promise<void> {
  if (lines.length === 0) return
  try {
    const output = await openOutput({ path: files.output(id), clock })
    for (const line of lines) output.say(line)
    await output.flush()
  } catch (error) {
    log(`Cannot append to the output of deployment ${id}`, error)
  }
}
