import { rm } from 'node:fs/promises'
import { machineTimeOf } from '../base/clock.js'
import type { DeploymentRow } from '../model/deployment.js'
import { unfinishedDeployments } from '../store/tables/deployments.js'
import { recoverTargets } from './extract.js'
import type { Executors } from './executors.js'
import { makeDirectories, sharedChanges, type DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import { openOutput } from './output.js'
import { endOf, eventOf, moveRecord, notifyOf, type Outcome } from './record.js'
import { removeStrays } from './strays.js'

type RecoveryNeeds = DeployNeeds & { files: DeployFiles; executors: Executors }

const sentences = {
  queued: 'The server was restarted before the deployment had its turn',
  running: 'The server was restarted while the deployment was running'
}

/**
 * What a start finds: targets in the middle of a change are put back, what was queued or running has failed, and files
 * that nobody will ask for go.
 */
export async function recover(needs: RecoveryNeeds): Promise<void> {
  const startedMs = machineTimeOf(needs.clock)
  await makeDirectories(needs.home)
  const onProblem = (deployId: string, error: unknown): void =>
    needs.log(`The target of deployment ${deployId} could not be put back yet`, error)
  const onLost = (deployId: string): void =>
    needs.log(`The target of deployment ${deployId} cannot be put back: it or its staging directory is gone. Deploy again`)
  const putBack = new Set(await recoverTargets(needs.executors, { home: needs.home, onProblem, onLost }))
  for (const row of unfinishedDeployments(needs.store)) await endInterrupted(needs, row, putBack.has(row.id))
  await removeStrays(needs, startedMs)
}

async function endInterrupted(needs: RecoveryNeeds, row: DeploymentRow, isPutBack: boolean): Promise<void> {
  const errorMessage = sentences[row.status === 'queued' ? 'queued' : 'running']
  const outcome: Outcome = { status: 'failed', cause: 'restart', errorMessage }
  const end = { ...row, ...endOf(row, outcome, needs.clock.now()), steps: endSteps(row, needs.clock.now()) }
  const note = isPutBack ? '; the target directory was put back as it was' : ''
  await sayLast(needs, row.id, errorMessage + note)
  await rm(sharedChanges(needs.files.changes(row.id)), { force: true }).catch(() => {})
  const final = await moveRecord(needs, row.id, { to: 'failed', cause: 'restart', patch: end })
  if (final === undefined) return
  notifyOf(needs, final, { trigger: row.triggerSource, event: eventOf('failed'), errorMessage })
}

/** A log that cannot be written must not keep the server from starting. */
async function sayLast(needs: RecoveryNeeds, deployId: string, sentence: string): Promise<void> {
  try {
    const output = await openOutput({ path: needs.files.output(deployId), clock: needs.clock })
    output.say(`✗ ${sentence}`)
    await output.flush()
  } catch (error) {
    needs.log(`The output of deployment ${deployId} could not be completed`, error)
  }
}

function endSteps(row: DeploymentRow, nowMs: number): DeploymentRow['steps'] {
  const endedAt = new Date(nowMs).toISOString()
  return row.steps.map(step => (step.endedAt === null ? { ...step, status: 'failed', endedAt } : step))
}
