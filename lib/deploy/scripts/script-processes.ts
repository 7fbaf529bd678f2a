import { systemActor } from '../../model/audit.js'
import { statSync } from 'node:fs'
import { countOf } from '../../base/text.js'
import {
  type DeploymentRow,
  type DeploymentStep,
  type RanScript,
  type ScriptProcess,
  scriptSteps
} from '../../model/deployment.js'
import {
  bootId,
  defaultGraceMs,
  isStillRunning,
  knownProcess,
  type KnownProcess,
  type Marker,
  type Stopped,
  stopProcesses
} from '../../core/proc/stop.js'
import {
  deleteScriptProcess,
  findDeployment,
  insertScriptProcess,
  listScriptProcesses,
  unfinishedDeployments,
  updateDeployment
} from '../../core/store/tables/deployments.js'
import type { DeployFiles, DeployHome } from '../files.js'
import type { DeployNeeds } from '../needs.js'
import { continueOutput } from '../output/output.js'
import { isFinal, sendNotice } from '../record.js'

/** The running scripts of one deployment, recorded so that the next start finds them if svc is killed. */
export type ScriptProcesses = ReturnType<typeof createScriptProcesses>

/**
 * Delay before a script is recorded: a short one is not worth two writes. A background script is recorded at once,
 * because nothing else says that it runs.
 */
const recordAfterMs = 200

/**
 * Returns the marker of a script. Clients cannot set it (model/variable.ts), scripts do not inherit it
 * (core/proc/environment.ts).
 */
function markerOf(deployId: string, step: RanScript['step']): Marker {
  return { name: 'SVC_SCRIPT', value: `${deployId}:${step}` }
}

/** Returns the name of a script as sentences use it. */
export const nameOf = (step: RanScript['step']): string => names[step]

const names = { preDeploy: 'pre-deploy', postDeploy: 'post-deploy', onFailure: 'on-failure' } as const

/** Returns the output lines about a stopped script whose processes may not all have ended. */
export function linesOfRemains({ left, isPartial }: Stopped, step: RanScript['step']): string[] {
  const script = `the ${nameOf(step)} script`
  const count = countOf(left.length, 'process', 'processes')
  return [
    ...(left.length > 0 ? [`✗ cannot stop ${count} of ${script}: ${left.join(', ')}`] : []),
    ...(isPartial
      ? [`✗ ${script} may still have running processes: the system hides processes of other users from svc`]
      : [])
  ]
}

/** Returns an identity that distinguishes a data directory from a copy of it. */
export function identityOf({ deployments }: Pick<DeployHome, 'deployments'>): string {
  const { dev, ino } = statSync(deployments)
  return `${dev}:${ino}`
}

/** Creates the recorder of the scripts of one deployment. */
export function createScriptProcesses(
  { store, home, log }: Pick<DeployNeeds, 'store' | 'home' | 'log'>,
  deployId: string
) {
  const recorded = new Set<RanScript['step']>()
  const timers = new Map<RanScript['step'], NodeJS.Timeout>()

  function record(step: RanScript['step'], known: KnownProcess): void {
    recorded.add(step)
    store
      .write(tx => insertScriptProcess(tx, { deployId, step, ...known, home: identityOf(home) }))
      .catch(error => log(`Cannot record the process of a script of deployment ${deployId}`, error))
  }

  return {
    /** Returns the variable that all processes of a script have in their environment, unless they remove it. */
    markerOf: (step: RanScript['step']): Marker => markerOf(deployId, step),

    /** Records a process group. Nobody waits for the write: until then, the next start finds the group by its marker. */
    began({ step, async }: Pick<RanScript, 'step' | 'async'>, pid: number): void {
      const known = knownProcess(pid)
      // Even a background script that has already ended is recorded: its step has no end before endBackground.
      if (async) record(step, known ?? { pid, startedAt: '', bootId: bootId() })
      else if (known !== null) timers.set(step, setTimeout(record, recordAfterMs, step, known))
    },

    /** Removes the record of a script that has ended. */
    ended(step: RanScript['step']): void {
      clearTimeout(timers.get(step))
      // If this fails, the deployment's record still says that the step has ended.
      if (recorded.delete(step)) store.write(tx => deleteScriptProcess(tx, { deployId, step })).catch(() => {})
    }
  }
}

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
    const output = await continueOutput({ path: files.output(id), clock })
    for (const line of lines) output.say(line)
    await output.flush()
  } catch (error) {
    log(`Cannot append to the output of deployment ${id}`, error)
  }
}

/*
 * The end of a post-deploy script in the background. It does not change the status of the deployment (§3). Its step is
 * `running` while the script runs, and then contains the result.
 */

type BackgroundNeeds = Pick<DeployNeeds, 'store' | 'clock' | 'audit' | 'notify' | 'log'>

/** The result of a background script. */
export interface BackgroundEnd {
  /** The error as a sentence, or null if svc knows of none. */
  complaint: string | null
  /** Null if there is no exit code, or svc did not observe the end. */
  exitCode: number | null
  /** The deployment's record if it is kept in memory (deploy/record.ts). It then contains the end of the script, too. */
  kept?: DeploymentRow | null
}

/** Marks the post-deploy step as still running, because its script continues in the background. */
export function leaveRunning(steps: readonly DeploymentStep[]): void {
  for (const step of steps) if (step.name === 'postDeploy') Object.assign(step, { status: 'running', endedAt: null })
}

/**
 * Records the result of a background script in its step. Reports a failure to the audit log and by notification. The
 * deployment must be final. Does nothing if the deployment no longer exists, or its step already has an end.
 */
export async function endBackground(needs: BackgroundNeeds, deployId: string, end: BackgroundEnd): Promise<void> {
  const { kept = null } = end
  const row =
    kept !== null
      ? withEnd(kept, end, needs.clock.now())
      : await needs.store
          .write(tx => {
            // In the same write: a start that finds the processes relies on a step without an end.
            deleteScriptProcess(tx, { deployId, step: 'postDeploy' })
            const found = findDeployment(tx, deployId)
            if (found === undefined || !found.steps.some(isInBackground)) return undefined
            const ended = withEnd(found, end, needs.clock.now())
            updateDeployment(tx, deployId, { steps: ended.steps })
            return ended
          })
          .catch(error => {
            needs.log(`Cannot record the result of the background script of deployment ${deployId}`, error)
            return findDeployment(needs.store, deployId)
          })
  if (row !== undefined && end.complaint !== null) reportBackgroundFailure(needs, row, end.complaint)
}

function withEnd(row: DeploymentRow, end: BackgroundEnd, nowMs: number): DeploymentRow {
  for (const step of row.steps.filter(isInBackground)) Object.assign(step, endOfStep(end, nowMs))
  return row
}

function endOfStep({ complaint, exitCode }: BackgroundEnd, nowMs: number): Partial<DeploymentStep> {
  return { status: complaint === null ? 'success' : 'failed', endedAt: new Date(nowMs).toISOString(), exitCode }
}

function isInBackground({ name, status }: DeploymentStep): boolean {
  return name === 'postDeploy' && status === 'running'
}

/** Reports a failed or stopped background script. The status of the deployment does not change (§3). */
function reportBackgroundFailure(needs: BackgroundNeeds, row: DeploymentRow, complaint: string): void {
  needs.audit({
    action: 'deploy.post_deploy_failed',
    actor: systemActor,
    projectId: row.projectId,
    target: row.id,
    detail: complaint,
    ok: false
  })
  sendNotice(needs, row, { trigger: 'async_post_deploy', event: 'deploy_failure', errorMessage: complaint })
}
