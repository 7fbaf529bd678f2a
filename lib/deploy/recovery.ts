import type { DeploymentRow } from '../model/deployment.js'
import { findDeployment, setBeforeFrom, unfinishedDeployments } from '../store/tables/deployments.js'
import { policyOf } from '../model/policy.js'
import { findQueuedRelease, isPlaced } from '../store/tables/fleet.js'
import { findProject } from '../store/tables/projects.js'
import { rolloutOfDeployment } from '../store/tables/rollouts.js'
import { recoverTargets } from '../install/unpack/extract.js'
import { openState, type OpenExtractions } from '../install/unpack/open-extraction.js'
import type { Ends } from './ends.js'
import type { Executors } from '../install/unpack/executors.js'
import { makeDirectories, type DeployFiles } from './files.js'
import type { Maintenances } from './maintenance.js'
import type { DeployNeeds } from './needs.js'
import { endInterruptedScripts } from './scripts/interrupted-scripts.js'
import { openOutput } from './output/output.js'
import { placedPatch, recordComplete } from './placement.js'
import { endOf, eventOf, isExtracted, notHeld, sendNotice, staysSentence, type Outcome } from './record.js'
import type { Scripted } from './scripted.js'
import { isFinal } from './status.js'
import { listEarlier, removeStrays } from './strays.js'

type RecoveryNeeds = DeployNeeds & {
  files: DeployFiles
  executors: Executors
  ends: Ends
  open: OpenExtractions
  /** Takes up a deployment that was held, or whose failure is followed by a script. */
  resume(row: DeploymentRow, failure?: { sentence: string; note: string }): Promise<void>
  /** Queues a deployment again that was to be rolled out. */
  requeue(row: DeploymentRow): Promise<void>
  scripted: Pick<Scripted, 'recover' | 'leave'>
  maintenance: Pick<Maintenances, 'reconcile'>
}

const sentences = {
  server: {
    queued: 'The server was restarted before the deployment started',
    // The deployment may have finished: perhaps only the record of its result was lost.
    running: 'The server was restarted before the result of the deployment was recorded',
    unrolled: 'The server was restarted before the rollout began: no node has changed. Push again'
  },
  hub: {
    queued: 'The hub that led stopped before the deployment started',
    running: 'The hub that led stopped before the result of the deployment was recorded',
    unrolled: 'The hub that led stopped before the rollout began: no node has changed. Push again'
  }
}

/** The state of the target of an interrupted deployment. */
type TargetState = 'restored' | 'complete' | 'absent' | 'not restored' | 'lost'

const notes: Record<TargetState, string> = {
  restored: '; the target directory was restored to its earlier state',
  complete: '',
  absent:
    '; the target directory does not exist, or its path leads to another one. Check that its disk is mounted: the next deployment or server start then restores it',
  'not restored': '; the target directory could not be restored yet: the next deployment or server start tries again',
  lost: '; the target directory cannot be restored: deploy again'
}

/**
 * Repairs what an earlier server left behind. Stops scripts that still run, restores targets in the middle of a change,
 * and fails deployments that were queued or running. Deployments that were held continue, and so do those whose nodes get
 * the files: they wait again, or their rollout is followed. Then updates the records of files in place and removes unused
 * files.
 */
export async function recover(needs: RecoveryNeeds): Promise<void> {
  await makeDirectories(needs.home)
  const earlier = await listEarlier(needs.home)
  await endInterruptedScripts(needs)
  await needs.scripted.recover()
  await recoverRecords(needs)
  await needs.maintenance.reconcile()
  await removeStrays(needs, earlier)
}

async function recoverRecords(needs: RecoveryNeeds): Promise<void> {
  const { store, home, log, executors, open } = needs
  const found = new Map<string, TargetState>()
  const restored = await recoverTargets(executors, {
    home,
    open,
    async onComplete(deployId) {
      const row = findDeployment(store, deployId)
      if (row === undefined || isFinal(row.status)) return recordComplete(needs, deployId)
      if (hasFailureScript(needs, row)) {
        found.set(deployId, 'complete')
        return recordComplete(needs, deployId)
      }
      await endInterrupted(needs, row, 'complete')
      // An error keeps the journal, from which the next start learns that the files are in place.
      const unrecorded = needs.ends.unrecorded(row.id)
      if (unrecorded !== null) throw new Error(unrecorded)
    },
    onProblem(deployId, error) {
      found.set(deployId, 'not restored')
      log(`Cannot finish or undo the extraction of deployment ${deployId} yet`, error)
    },
    onAbsent(deployId) {
      found.set(deployId, 'absent')
      log(
        `Cannot restore the target of deployment ${deployId} yet: it does not exist, or its path leads to another directory. Check that its disk is mounted`
      )
    },
    onLost(deployId) {
      found.set(deployId, 'lost')
      log(`Cannot restore the target of deployment ${deployId}: its staging directory does not exist. Deploy again`)
    }
  })
  for (const deployId of restored) found.set(deployId, 'restored')
  for (const row of unfinishedDeployments(store)) {
    const isHeld = row.heldFor !== null && openState(home, row.id) !== null
    const isRollingOut = row.status === 'running' && rolloutOfDeployment(store, row.id) !== undefined
    const isWaiting = row.status === 'queued' && isPlaced(store, row.projectId) && findQueuedRelease(store, row.id)
    if (isHeld || isRollingOut || isWaiting)
      await (isWaiting ? needs.requeue : needs.resume)(row).catch(error =>
        log(`Cannot continue deployment ${row.id}`, error)
      )
    else if (needs.ends.unrecorded(row.id) === null) await endOrRunScript(needs, row, found.get(row.id) ?? null)
  }
}

/** Whether a script follows the failure of an interrupted deployment. A rollout has those of its nodes. */
function hasFailureScript({ store }: RecoveryNeeds, row: DeploymentRow): boolean {
  const project = findProject(store, row.projectId)
  if (row.status !== 'running' || project === undefined || isPlaced(store, project.id)) return false
  // A repair that had not run a script was asked to run none.
  const isSilent = row.triggerSource === 'repair' && row.scripts.length === 0
  const hasBegun = row.steps.some(({ name }) => name === 'onFailure' || name === 'rollout')
  return !isSilent && !hasBegun && policyOf(project).onFailureScript !== null
}

async function endOrRunScript(needs: RecoveryNeeds, row: DeploymentRow, target: TargetState | null): Promise<void> {
  if (!hasFailureScript(needs, row)) return endInterrupted(needs, row, target)
  const failure = { sentence: reasonFor(needs, row), note: target === null ? '' : notes[target] }
  const ended = { ...row, steps: endSteps(row, needs.clock.now()) }
  await needs.resume(ended, failure).catch(async error => {
    needs.log(`Cannot run the on-failure script of deployment ${row.id}`, error)
    await endInterrupted(needs, row, target)
  })
}

async function endInterrupted(needs: RecoveryNeeds, row: DeploymentRow, target: TargetState | null): Promise<void> {
  const { clock } = needs
  const errorMessage = reasonFor(needs, row)
  const outcome: Outcome = { status: 'failed', cause: 'restart', errorMessage }
  const placed = target === 'complete' ? await placedPatch(needs, row, clock.now()) : null
  const { beforeFrom = null } = placed ?? {}
  if (beforeFrom !== null) await needs.store.write(tx => setBeforeFrom(tx, row.id, beforeFrom)).catch(() => {})
  const known = { ...row, ...placed?.patch }
  const end = { ...known, ...endOf(row, outcome, clock.now()), steps: endSteps(known, clock.now()), ...notHeld }
  const note = target === null ? '' : notes[target]
  await appendLines(needs, row.id, [
    ...(isExtracted(end.steps) ? [`→ ${staysSentence}`] : []),
    `✗ ${errorMessage}${note}`
  ])
  const final = await needs.ends.record(end, outcome)
  if (final.placed === null) await needs.scripted.leave(row.id)
  sendNotice(needs, final, { trigger: row.triggerSource, event: eventOf('failed'), errorMessage })
}

function reasonFor({ copies, store }: RecoveryNeeds, row: DeploymentRow): string {
  const said = sentences[copies === undefined ? 'server' : 'hub']
  if (row.status === 'queued') return said.queued
  // The on-failure script had begun.
  if (row.errorMessage !== null) return row.errorMessage
  const wasPlaced = findQueuedRelease(store, row.id) !== undefined || row.steps.some(({ name }) => name === 'rollout')
  return wasPlaced ? said.unrolled : said.running
}

/** Appends the last lines to an output. A failure must not stop the start. */
async function appendLines(needs: RecoveryNeeds, deployId: string, sentences: string[]): Promise<void> {
  try {
    const output = await openOutput({ path: needs.files.output(deployId), clock: needs.clock })
    for (const sentence of sentences) output.say(sentence)
    await output.flush()
    await output.sync()
  } catch (error) {
    needs.log(`Cannot append to the output of deployment ${deployId}`, error)
  }
}

function endSteps(row: DeploymentRow, nowMs: number): DeploymentRow['steps'] {
  const endedAt = new Date(nowMs).toISOString()
  return row.steps.map(step => (step.endedAt === null ? { ...step, status: 'failed', endedAt } : step))
}
