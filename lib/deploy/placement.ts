import type { DeploymentRow, DeploymentStep } from '../model/deployment.js'
import { findDeployment, setBeforeFrom } from '../store/tables/deployments.js'
import type { ScriptedLine } from '../model/manifest.js'
import { readScripted, sourcesOfScripted } from '../install/scripted-file.js'
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

/**
 * Returns the record's fields for a deployment whose journal says that its files are in place, and where the contents are
 * that it replaced (`Placement.beforeFrom`).
 */
export async function placedPatch(
  { files, log }: Pick<PlacementNeeds, 'files' | 'log'>,
  row: DeploymentRow,
  nowMs: number
): Promise<{ patch: Pick<DeploymentRow, 'steps' | 'fileCount'>; beforeFrom: readonly string[] | null }> {
  const endedAt = new Date(nowMs).toISOString()
  const steps = row.steps.map((step): DeploymentStep => {
    return step.name === 'extract' ? { ...step, status: 'success', endedAt: step.endedAt ?? endedAt } : step
  })
  const summary = await summarizeManifest(files.manifest(row.id)).catch((error: unknown) => {
    log(`Cannot read the file list of deployment ${row.id}`, error)
    return null
  })
  const fileCount = row.fileCount ?? summary?.fileCount ?? null
  const beforeFrom = summary && [
    ...new Set([...summary.beforeFrom, ...(await sourcesOfScripts(files.scripted(row.id)))])
  ]
  return { patch: { steps, fileCount }, beforeFrom }
}

/** Returns the same for what its scripts changed, which only the process that was killed had in its memory. */
async function sourcesOfScripts(path: string): Promise<string[]> {
  const lines: ScriptedLine[] = []
  for await (const line of readScripted(path)) lines.push(line)
  return sourcesOfScripted(lines)
}

/**
 * Records that the files of a deployment are in place, if its journal says so but that could not be recorded before.
 * The status does not change. Does nothing if the record no longer exists or already says so.
 */
export async function recordComplete(needs: PlacementNeeds, deployId: string): Promise<void> {
  const { store, clock, files, log, outputOf = () => undefined } = needs
  const row = findDeployment(store, deployId)
  if (row === undefined || row.placed !== null || isExtracted(row.steps)) return
  const { patch, beforeFrom } = await placedPatch(needs, row, clock.now())
  await store.write(tx => {
    if (beforeFrom !== null) setBeforeFrom(tx, deployId, beforeFrom)
    return recordProgress(tx, deployId, patch)
  })
  if (!isFinal(row.status)) return
  try {
    const output = outputOf(deployId) ?? (await openOutput({ path: files.output(deployId), clock }))
    output.say('→ the files of this deployment are in place after all; roll back to restore earlier files')
    await output.flush()
  } catch (error) {
    log(`Cannot append to the output of deployment ${deployId}`, error)
  }
}
