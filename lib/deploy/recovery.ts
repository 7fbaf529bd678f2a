import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { machineTimeOf } from '../base/clock.js'
import type { DeploymentRow } from '../model/deployment.js'
import { findDeployment, unfinishedDeployments } from '../store/tables/deployments.js'
import { recoverTargets } from './extract.js'
import type { Executors } from './executors.js'
import { archiveFilePattern, makeDirectories, snapshotPattern, sharedChanges, temporaryFilePattern, type DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import { endInterruptedScripts } from './interrupted-scripts.js'
import { openOutput } from './output.js'
import { endOf, eventOf, moveRecord, notifyOf, type Outcome } from './record.js'

type RecoveryNeeds = DeployNeeds & { files: DeployFiles; executors: Executors }

const sentences = {
  queued: 'The server was restarted before the deployment had its turn',
  running: 'The server was restarted while the deployment was running'
}

/**
 * What a start finds: scripts that still run are ended, targets in the middle of a change are put back, what was queued or running has failed, and files
 * that nobody will ask for go.
 */
export async function recover(needs: RecoveryNeeds): Promise<void> {
  const startedMs = machineTimeOf(needs.clock)
  await makeDirectories(needs.home)
  await endInterruptedScripts(needs)
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

/**
 * Uploads that never came to be a deployment, and archives that were pruned or never recorded. An archive without a
 * record goes only where its upload is still there under its other name: somebody may have lost the database, and the
 * archives are then all there is left.
 */
async function removeStrays({ home, files, store }: RecoveryNeeds, startedMs: number): Promise<void> {
  const uploads = await oldFiles(home.tmp, temporaryFilePattern, startedMs)
  const uploadIds = new Set(uploads.map(({ fileId }) => fileId))
  for (const { name, fileId } of await oldFiles(home.deployments, archiveFilePattern, startedMs)) {
    const deployId = name.slice(0, -'.zip'.length)
    const row = findDeployment(store, deployId)
    if (row === undefined && uploadIds.has(fileId)) await files.remove(deployId)
    if (row?.hasArtifact === false) await rm(files.archive(deployId), { force: true })
  }
  for (const { name } of uploads) await rm(join(home.tmp, name), { force: true })
  await removeSnapshots(home.tmp)
}

/** Second names that a backup gave; it ended with the process that wrote it. */
async function removeSnapshots(tmp: string): Promise<void> {
  const names = (await readdir(tmp)).filter(name => snapshotPattern.test(name))
  for (const name of names) await rm(join(tmp, name), { recursive: true, force: true })
}

interface FoundFile {
  name: string
  /** The same for each name of one file. */
  fileId: string
}

/** Files that were there before this start; what is newer belongs to somebody at work. */
async function oldFiles(directory: string, pattern: RegExp, startedMs: number): Promise<FoundFile[]> {
  const names = (await readdir(directory)).filter(name => pattern.test(name))
  const old: FoundFile[] = []
  for (const name of names) {
    const stats = await stat(join(directory, name)).catch(() => null)
    if (stats?.isFile() && stats.mtimeMs < startedMs) old.push({ name, fileId: `${stats.dev}:${stats.ino}` })
  }
  return old
}
