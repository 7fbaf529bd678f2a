import { rm, stat } from 'node:fs/promises'
import type { DeploymentRow } from '../model/deployment.js'
import type { Reader } from '../store/database.js'
import {
  archivedDeployments,
  liveDeployment,
  placements,
  setBeforeFrom,
  updateDeployment,
  type Placement
} from '../store/tables/deployments.js'
import { doneBefore, lastRollout } from '../store/tables/rollouts.js'
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
 * own id. `needed` are kept, too.
 */
export function archivesToPrune(
  rows: readonly Archived[],
  keepSuccessful: number,
  needed: ReadonlySet<string> = new Set()
): string[] {
  const finished = rows.filter(row => isFinal(row.status))
  const successful = finished.filter(row => row.status === 'success')
  const failed = finished.filter(row => row.status === 'failed')
  const pruned = [...successful.slice(Math.max(1, keepSuccessful)), ...failed.slice(keptFailedArchives)]
  return pruned.map(row => row.id).filter(id => !needed.has(id))
}

/** What a project keeps. */
export interface Retention {
  /** Number of archives of successful deployments. */
  archives: number
  /** Number of deployments that can be undone exactly. */
  steps: number
}

/**
 * Returns what a project keeps. A way back over a number of deployments needs one archive more than that, so there are
 * fewer steps than archives. `archives` replaces the setting.
 */
export function retentionOf(
  settings: Pick<DeployNeeds['settings'], 'number'>,
  archives = settings.number('keep_archives')
): Retention {
  return { archives, steps: Math.max(0, Math.min(settings.number('keep_undo'), archives - 1)) }
}

/**
 * Returns the deployments of a project whose archives can be removed: all except the live one, the newest successes,
 * those that a way back needs, and those that `archivesToPrune` keeps.
 */
export function prunableArchives(db: Reader, projectId: string, { archives, steps }: Retention): string[] {
  const live = liveDeployment(db, projectId)?.id
  // The own archives, too: they contain files that only got another mode or time.
  const needed = new Set(undoable(db, projectId, steps).flatMap(({ id, beforeFrom }) => [id, ...(beforeFrom ?? [])]))
  for (const id of rolledOut(db, projectId)) needed.add(id)
  return archivesToPrune(archivedDeployments(db, projectId), archives, needed).filter(id => id !== live)
}

/**
 * Returns the deployments that nodes of a project still fetch: the last rollout is resumed, or reaches late nodes, and after
 * its revert they get the release of before.
 */
export function rolledOut(db: Reader, projectId: string): Set<string> {
  const last = lastRollout(db, projectId)
  const earlier = last?.state === 'reverted' ? doneBefore(db, projectId, last.number) : undefined
  return new Set([last, earlier].flatMap(rollout => (rollout === undefined ? [] : [rollout.deployId])))
}

/** Returns the deployments that an exact undo is kept for, newest first. */
export function undoable(db: Reader, projectId: string, steps: number): Placement[] {
  return placements(db, projectId).slice(0, steps)
}

/** Removes old archives of a project and returns their deployments. Updates the records before it removes the files. */
export async function pruneArchives(
  { store, files, quota }: Pick<DeployNeeds, 'store' | 'quota'> & { files: DeployFiles },
  projectId: string,
  keep: Retention
): Promise<string[]> {
  await pruneImages({ store, files, quota }, projectId, keep)
  if (prunableArchives(store, projectId, keep).length === 0) return []
  const ids = await store.write(tx => {
    const chosen = prunableArchives(tx, projectId, keep)
    for (const id of chosen) updateDeployment(tx, id, { hasArtifact: false })
    return chosen
  })
  await removeArchives({ files, quota }, projectId, ids)
  return ids
}

/** Removes the files of archives whose records say so already. Returns the bytes freed. */
export async function removeArchives(
  { files, quota }: { files: DeployFiles } & Pick<DeployNeeds, 'quota'>,
  projectId: string,
  ids: readonly string[]
): Promise<number> {
  let freed = 0
  for (const id of ids) {
    for (const path of [files.archive(id), files.scriptedImages(id)]) {
      const bytes = await removeArchive(path)
      quota.changed(projectId, -bytes)
      freed += bytes
    }
  }
  return freed
}

/** Removes the before-images of deployments that cannot be undone exactly any more. */
async function pruneImages(
  { store, files, quota }: Pick<DeployNeeds, 'store' | 'quota'> & { files: DeployFiles },
  projectId: string,
  { steps }: Retention
): Promise<void> {
  const choose = (db: Reader): Placement[] => {
    const kept = new Set(undoable(db, projectId, steps).map(({ id }) => id))
    return placements(db, projectId).filter(({ id, beforeFrom }) => beforeFrom?.includes('before') && !kept.has(id))
  }
  if (choose(store).length === 0) return
  const chosen = await store.write(tx => {
    const images = choose(tx)
    for (const { id, beforeFrom } of images) {
      setBeforeFrom(tx, id, [...(beforeFrom ?? []).filter(source => source !== 'before'), 'none'])
    }
    return images
  })
  for (const { id } of chosen) quota.changed(projectId, -(await removeArchive(files.before(id))))
}

/** Removes an archive and returns the bytes freed: 0 while a rollback still links the same file. */
export async function removeArchive(path: string): Promise<number> {
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
