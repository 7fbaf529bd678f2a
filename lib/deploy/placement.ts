import { stat } from 'node:fs/promises'
import type { DeploymentRow, DeploymentStep } from '../model/deployment.js'
import { findDeployment } from '../store/tables/deployments.js'
import { setBeforeFrom, wayBackOf } from '../store/tables/placements.js'
import { summarizeManifest } from '../install/manifest.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import { openOutput, type Output } from './output/output.js'
import { isExtracted, recordProgress } from './record.js'
import { isFinal } from './status.js'

type PlacementNeeds = Pick<DeployNeeds, 'store' | 'clock' | 'log'> & {
  files: DeployFiles
  /** Returns the output of a deployment that is still writing to it. */
  outputOf?(deployId: string): Output | undefined
}

/** Returns the record's fields for a deployment whose journal says that its files are in place. */
export async function placedPatch(
  { files, log }: Pick<PlacementNeeds, 'files' | 'log'>,
  row: DeploymentRow,
  nowMs: number
): Promise<Pick<DeploymentRow, 'steps' | 'fileCount'>> {
  const endedAt = new Date(nowMs).toISOString()
  const steps = row.steps.map((step): DeploymentStep => {
    return step.name === 'extract' ? { ...step, status: 'success', endedAt: step.endedAt ?? endedAt } : step
  })
  const fileCount =
    row.fileCount ??
    (await summarizeManifest(files.manifest(row.id)).then(
      manifest => manifest.fileCount,
      (error: unknown) => {
        log(`Cannot read the file list of deployment ${row.id}`, error)
        return null
      }
    ))
  return { steps, fileCount }
}

/** Records what a way back from a deployment needs, as its files in the data directory say. */
export async function noteWayBack(
  { store, files, log }: Pick<PlacementNeeds, 'store' | 'files' | 'log'>,
  deployId: string
): Promise<void> {
  try {
    const { beforeFrom } = await summarizeManifest(files.manifest(deployId))
    const beforeBytes = await stat(files.before(deployId)).then(
      ({ size }) => size,
      () => 0
    )
    await store.write(tx => setBeforeFrom(tx, deployId, wayBackOf(deployId, { beforeFrom, beforeBytes })))
  } catch (error) {
    log(`Cannot find out what a way back from deployment ${deployId} needs`, error)
  }
}

/**
 * Records that the files of a deployment are in place, if its journal says so but that could not be recorded before.
 * The status does not change. Does nothing if the record no longer exists or already says so.
 */
export async function recordComplete(needs: PlacementNeeds, deployId: string): Promise<void> {
  const { store, clock, files, log, outputOf = () => undefined } = needs
  const row = findDeployment(store, deployId)
  if (row === undefined || row.placed !== null || isExtracted(row.steps)) return
  const patch = await placedPatch(needs, row, clock.now())
  await store.write(tx => recordProgress(tx, deployId, patch))
  await noteWayBack(needs, deployId)
  if (!isFinal(row.status)) return
  try {
    const output = outputOf(deployId) ?? (await openOutput({ path: files.output(deployId), clock }))
    output.say('→ the files of this deployment are in place after all; roll back to restore earlier files')
    await output.flush()
  } catch (error) {
    log(`Cannot append to the output of deployment ${deployId}`, error)
  }
}
