/*
 * Scripts that ran when svc was killed: a start ends what still runs of them, before anything else is done to their
 * targets, so that no deployment has the remains of another one beside it.
 *
 * A script counts as interrupted if its processes are recorded, or its step is recorded as running (a kill may come before
 * the processes are), and its step has no end. Of a copied or restored data directory nothing runs. Its group is ended if
 * its leader still runs: same number, same start, same boot. All that has its marker is ended, whatever its group. What a
 * script that had ended by itself left running is thus left alone.
 */
import type { DeploymentRow, DeploymentStep, RanScript, ScriptProcess } from '../model/deployment.js'
import { bootId, isStillRunning } from '../proc/processes.js'
import { defaultGraceMs, stopProcesses, type Stopped } from '../proc/stop.js'
import { findDeployment, unfinishedDeployments } from '../store/tables/deployments.js'
import { deleteScriptProcess, listScriptProcesses } from '../store/tables/script-processes.js'
import { endBackground } from './background.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import { openOutput } from './output.js'
import { identityOf, linesOfRemains, markerOf, nameOf } from './script-processes.js'
import { isFinal } from './status.js'

type InterruptedNeeds = DeployNeeds & { files: DeployFiles }

/** A script that may still run. `process` null: it was not recorded. */
interface Script {
  deployId: string
  step: RanScript['step']
  process: ScriptProcess | null
}

/** Ends them all; what was ended is said in the outputs of their deployments. Never rejects: a start must not fail of it. */
export async function endInterruptedScripts(needs: InterruptedNeeds): Promise<void> {
  const recorded = listScriptProcesses(needs.store)
  const scripts = [...recorded.map(process => ({ ...process, process })), ...unrecorded(needs, recorded)]
  const failed = (error: unknown): void => needs.log('Scripts that a killed server left running could not be ended', error)
  await Promise.all(scripts.map(script => endScript(needs, script).catch(failed)))
  if (recorded.length === 0) return
  await needs.store.write(tx => recorded.forEach(one => deleteScriptProcess(tx, one))).catch(failed)
}

function unrecorded({ store }: InterruptedNeeds, recorded: readonly ScriptProcess[]): Script[] {
  const isRecorded = (deployId: string, step: string): boolean => recorded.some(one => one.deployId === deployId && one.step === step)
  return unfinishedDeployments(store).flatMap(({ id, steps }) =>
    steps
      .filter(step => step.status === 'running' && isScript(step) && !isRecorded(id, step.name))
      .map(step => ({ deployId: id, step: step.name as RanScript['step'], process: null })))
}

const isScript = ({ name }: DeploymentStep): boolean => name === 'preDeploy' || name === 'postDeploy'

async function endScript(needs: InterruptedNeeds, script: Script): Promise<void> {
  const row = findDeployment(needs.store, script.deployId)
  if (row !== undefined && !isInterrupted(row, script)) return
  const stopped = await end(script, identityOf(needs.home))
  if (row === undefined) return
  const complaint = isFinal(row.status) ? complaintOf(stopped) : null
  await say(needs, row, [...linesOf(stopped, script.step), ...(complaint === null ? [] : [`✗ ${complaint}`])])
  if (complaint !== null) await endBackground(needs, row.id, { complaint, exitCode: null })
}

/** Whether the record knows no end of the script. */
function isInterrupted({ steps }: DeploymentRow, script: Script): boolean {
  const step = steps.find(({ name }) => name === script.step)
  return step === undefined || step.status === 'running'
}

async function end({ deployId, step, process }: Script, home: string): Promise<Stopped> {
  if (process !== null && (process.bootId !== bootId() || process.home !== home)) return { endedCount: 0, left: [], isPartial: false }
  const group = process !== null && isStillRunning(process) ? process.pid : null
  return stopProcesses({ group, marker: markerOf(deployId, step), graceMs: defaultGraceMs })
}

function complaintOf({ endedCount, left }: Stopped): string {
  const script = 'The post-deploy script in the background'
  if (endedCount + left.length > 0) return `${script} was cut short: the server was restarted while it ran`
  return `${script} has ended without the server, which was restarted while it ran: how is not known`
}

function linesOf(stopped: Stopped, step: RanScript['step']): string[] {
  const { endedCount } = stopped
  const were = endedCount === 1 ? 'process was' : 'processes were'
  const ended = `→ the ${nameOf(step)} script was still running: its ${endedCount} ${were} ended`
  return [...(endedCount > 0 ? [ended] : []), ...linesOfRemains(stopped, step)]
}

/** An output that cannot be written must not keep the others from being told. */
async function say({ files, clock, log }: InterruptedNeeds, { id }: DeploymentRow, lines: string[]): Promise<void> {
  if (lines.length === 0) return
  try {
    const output = await openOutput({ path: files.output(id), clock })
    for (const line of lines) output.say(line)
    await output.flush()
  } catch (error) {
    log(`The output of deployment ${id} could not be completed`, error)
  }
}
