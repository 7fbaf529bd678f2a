import { rm, stat } from 'node:fs/promises'
import type { DeploymentRow } from '../model/deployment.js'
import type { Reader } from '../store/database.js'
import { archivedDeployments, liveDeployment, updateDeployment } from '../store/tables/deployments.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import { isFinal } from './status.js'

/** Archives of failed deployments that each project keeps: enough to find out what went wrong. */
export const keptFailedArchives = 3

type Archived = Pick<DeploymentRow, 'id' | 'status'>

/**
 * Returns the archives of one project that can be removed. `rows` are its deployments with an archive, newest first.
 * The caller protects the live deployment. This function keeps the newest success, to roll back to, and everything that
 * is queued or running. The source of a rollback needs no protection: the rollback first links the archive under its
 * own id.
 */
export function archivesToPrune(rows: readonly Archived[], keepSuccessful: number): string[] {
  const finished = rows.filter(row => isFinal(row.status))
  const successful = finished.filter(row => row.status === 'success')
  const failed = finished.filter(row => row.status === 'failed')
  const pruned = [...successful.slice(Math.max(1, keepSuccessful)), ...failed.slice(keptFailedArchives)]
  return pruned.map(row => row.id)
}

/**
 * Returns the deployments of a project whose archives can be removed: all except the live one, the `keep` newest
 * successes, and those that `archivesToPrune` keeps.
 */
export function prunableArchives(db: Reader, projectId: string, keep: number): string[] {
  const live = liveDeployment(db, projectId)?.id
  return archivesToPrune(archivedDeployments(db, projectId), keep).filter(id => id !== live)
}

/** Removes old archives of a project and returns their deployments. Updates the records before it removes the files. */
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

/** Removes an archive and returns the bytes freed: 0 while a rollback still links the same file. */
async function removeArchive(path: string): Promise<number> {
  const stats = await stat(path).catch(() => null)
  // The record is updated already. The next start, or storage/clean, removes a file that cannot be removed now.
  if (
    !(await rm(path, { force: true }).then(
      () => true,
      () => false
    ))
  )
    return 0
  return stats?.nlink === 1 ? stats.size : 0
}
