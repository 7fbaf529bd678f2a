import { rm } from 'node:fs/promises'
import { machineTimeOf } from '../base/clock.js'
import type { DeploymentRow } from '../model/deployment.js'
import { findDeployment, unfinishedDeployments } from '../store/tables/deployments.js'
import { recoverTargets } from './extract.js'
import type { Ends } from './ends.js'
import type { Executors } from './executors.js'
import { makeDirectories, sharedChanges, type DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import { openOutput } from './output.js'
import { placedPatch, recordComplete } from './placement.js'
import { endOf, eventOf, isExtracted, notifyOf, staysSentence, type Outcome } from './record.js'
import { isFinal } from './status.js'
import { removeStrays } from './strays.js'

type RecoveryNeeds = DeployNeeds & { files: DeployFiles; executors: Executors; ends: Ends }

const sentences = {
  queued: 'The server was restarted before the deployment had its turn',
  // It may have come to its end, and only the record of that was lost.
  running: 'The server was restarted before the end of the deployment was recorded'
}

/** What was found of the target of an interrupted deployment. */
type TargetState = 'put back' | 'complete' | 'absent' | 'not put back' | 'lost'

const notes: Record<TargetState, string> = {
  'put back': '; the target directory was put back as it was',
  complete: '',
  absent: '; the target directory is not there: the next deployment, or start, puts back what is left of it',
  'not put back': '; the target directory could not be put back yet: the next deployment, or start, tries again',
  lost: '; the target directory cannot be put back: deploy again'
}

/**
 * What a start finds: targets in the middle of a change are put back, what was queued or running has failed, records say
 * which files are in place, and files that nobody will ask for go.
 */
export async function recover(needs: RecoveryNeeds): Promise<void> {
  const startedMs = machineTimeOf(needs.clock)
  await makeDirectories(needs.home)
  await recoverRecords(needs)
  await removeStrays(needs, startedMs)
}

async function recoverRecords(needs: RecoveryNeeds): Promise<void> {
  const { store, home, log, executors } = needs
  const found = new Map<string, TargetState>()
  const putBack = await recoverTargets(executors, {
    home,
    async onComplete(deployId) {
      const row = findDeployment(store, deployId)
      if (row === undefined || isFinal(row.status)) return recordComplete(needs, deployId)
      await endInterrupted(needs, row, 'complete')
      // Else the journal is what the next start knows it by.
      const unrecorded = needs.ends.unrecorded(row.id)
      if (unrecorded !== null) throw new Error(unrecorded)
    },
    onProblem(deployId, error) {
      found.set(deployId, 'not put back')
      log(`The extraction of deployment ${deployId} could not be brought to its end yet`, error)
    },
    onAbsent(deployId) {
      found.set(deployId, 'absent')
      const isKnown = findDeployment(store, deployId) !== undefined
      if (isKnown) log(`The target of deployment ${deployId} could not be put back yet: it is not there. Is its disk missing?`)
      return isKnown
    },
    onLost(deployId) {
      found.set(deployId, 'lost')
      log(`The target of deployment ${deployId} cannot be put back: its staging directory is gone. Deploy again`)
    }
  })
  for (const deployId of putBack) found.set(deployId, 'put back')
  for (const row of unfinishedDeployments(store)) {
    if (needs.ends.unrecorded(row.id) === null) await endInterrupted(needs, row, found.get(row.id) ?? null)
  }
}

async function endInterrupted(needs: RecoveryNeeds, row: DeploymentRow, target: TargetState | null): Promise<void> {
  const { files, clock } = needs
  const errorMessage = sentences[row.status === 'queued' ? 'queued' : 'running']
  const outcome: Outcome = { status: 'failed', cause: 'restart', errorMessage }
  const placed = target === 'complete' ? await placedPatch(needs, row, clock.now()) : {}
  const known = { ...row, ...placed }
  const end = { ...known, ...endOf(row, outcome, clock.now()), steps: endSteps(known, clock.now()) }
  const note = target === null ? '' : notes[target]
  await sayLast(needs, row.id, [...(isExtracted(end.steps) ? [`→ ${staysSentence}`] : []), `✗ ${errorMessage}${note}`])
  await rm(sharedChanges(files.changes(row.id)), { force: true }).catch(() => {})
  const final = await needs.ends.record(end, outcome)
  notifyOf(needs, final, { trigger: row.triggerSource, event: eventOf('failed'), errorMessage })
}

/** A log that cannot be written must not keep the server from starting. */
async function sayLast(needs: RecoveryNeeds, deployId: string, sentences: string[]): Promise<void> {
  try {
    const output = await openOutput({ path: needs.files.output(deployId), clock: needs.clock })
    for (const sentence of sentences) output.say(sentence)
    await output.flush()
    await output.sync()
  } catch (error) {
    needs.log(`The output of deployment ${deployId} could not be completed`, error)
  }
}

function endSteps(row: DeploymentRow, nowMs: number): DeploymentRow['steps'] {
  const endedAt = new Date(nowMs).toISOString()
  return row.steps.map(step => (step.endedAt === null ? { ...step, status: 'failed', endedAt } : step))
}
