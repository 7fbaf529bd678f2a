import { rm, stat } from 'node:fs/promises'
import type { DeploymentRow } from '../model/deployment.js'
import type { Reader } from '../store/database.js'
import { archivedDeployments, liveDeployment, updateDeployment } from '../store/tables/deployments.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import { isFinal } from './status.js'

/** Of failed deployments, per project: enough to look into what went wrong. */
export const keptFailedArchives = 3

type Archived = Pick<DeploymentRow, 'id' | 'status'>

/**
 * Which archives of one project may go, apart from that of what is live. `rows`: its deployments that have one, newest
 * first. The newest success stays, as something to go back to; so does whatever is queued or running. Being rolled back to needs no protection: a rollback
 * links the archive under its own id before anything else.
 */
export function archivesToPrune(rows: readonly Archived[], keepSuccessful: number): string[] {
  const finished = rows.filter(row => isFinal(row.status))
  const successful = finished.filter(row => row.status === 'success')
  const failed = finished.filter(row => row.status === 'failed')
  const pruned = [...successful.slice(Math.max(1, keepSuccessful)), ...failed.slice(keptFailedArchives)]
  return pruned.map(row => row.id)
}

/**
 * Deployments of a project whose archives may go: all but that of what is live, the `keep` newest, and those that
 * `archivesToPrune` spares.
 */
export function prunableArchives(db: Reader, projectId: string, keep: number): string[] {
  const live = liveDeployment(db, projectId)?.id
  return archivesToPrune(archivedDeployments(db, projectId), keep).filter(id => id !== live)
}

/** Removes the archives of a project that may go; records say so before the files are gone. Their ids. */
export async function pruneArchives(
  { store, files, quota }: Pick<DeployNeeds, 'store' | 'quota'> & { files: DeployFiles },
  projectId: string,
  keep: number
): Promise<string[]> {
  if (prunableArchives(store, projectId, keep).length === 0) return []
  const ids = await store.write(tx => {
    const chosen = prunableArchives(tx, projectId, keep)
    for (const id of chosen) updateDeployment(tx, id, { hasArtifact: false })
    return chosen
  })
  for (const id of ids) quota.changed(projectId, -(await removeArchive(files.archive(id))))
  return ids
}

/** The bytes that it has freed: none while the archive has another name, that of a rollback. */
async function removeArchive(path: string): Promise<number> {
  const stats = await stat(path).catch(() => null)
  // The record says so already: a file that cannot be removed is tried again by the next start, or storage/clean.
  if (!(await rm(path, { force: true }).then(() => true, () => false))) return 0
  return stats?.nlink === 1 ? stats.size : 0
}
