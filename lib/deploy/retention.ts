import { rm, stat } from 'node:fs/promises'
import { type DeploymentRow, isRevertPending } from '../model/deployment.js'
import type { Reader } from '../core/store/database.js'
import {
  archivedDeployments,
  requireDeployment,
  liveDeployment,
  type Placement,
  placements,
  setBeforeFrom,
  updateDeployment
} from '../core/store/tables/deployments.js'
import { doneBefore, lastRollout } from '../core/store/tables/rollouts.js'
import { Refusal } from '../base/errors.js'
import type { Actor } from '../model/audit.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import { auditsWithin, isFinal, refuseUnlessFinal, type Ends } from './record.js'
import type { OfferedScripts } from './scripts/scripts.js'

/** Archives of failed deployments that each project keeps: enough to find out what went wrong. */
const keptFailedArchives = 3

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
function undoable(db: Reader, projectId: string, steps: number): Placement[] {
  return placements(db, projectId).slice(0, steps)
}

/** Removes old archives of a project and returns their deployments. Updates the records before it removes the files. */
export async function pruneArchives(
  { store, files, quota, log }: Pick<DeployNeeds, 'store' | 'quota' | 'log'> & { files: DeployFiles },
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
  files.packs.shrinkLater(bytes => quota.changed(projectId, -bytes), log)
  return ids
}

/** Removes the files of archives whose records say so already. Returns the bytes freed. */
async function removeArchives(
  { files, quota }: { files: DeployFiles } & Pick<DeployNeeds, 'quota'>,
  projectId: string,
  ids: readonly string[]
): Promise<number> {
  let freed = 0
  for (const id of ids) {
    // The record is updated already. The next start, or storage/clean, removes what cannot be removed now.
    const { freedBytes } = await files.packs.remove(id).catch(() => ({ freedBytes: 0 }))
    const bytes = freedBytes + (await removeArchive(files.scriptedImages(id)))
    quota.changed(projectId, -bytes)
    freed += bytes
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

export type ArchiveRemovalNeeds = Pick<DeployNeeds, 'store' | 'settings' | 'quota' | 'audit' | 'auditWithin'> & {
  files: DeployFiles
  ends: Pick<Ends, 'settle'>
}

export function createArchiveRemoval(needs: ArchiveRemovalNeeds) {
  const { store, settings, quota, files, ends } = needs
  const auditWithin = auditsWithin(needs)
  return {
    /**
     * Returns the record and the freed bytes. `force` also deletes an archive that an exact undo needs. Audited. Refuses
     * (`conflict`): not_finished, no_archive, archive_needed.
     */
    async deleteArchive(
      deployId: string,
      { force, actor }: { force: boolean; actor: Actor }
    ): Promise<{ row: DeploymentRow; freedBytes: number }> {
      // An end that is still kept in memory is recorded first: it may have put the files in place.
      await ends.settle()
      const row = await store.write(tx => {
        const found = requireDeployment(tx, deployId)
        actor.checkAgain?.(true)
        refuseIfNeeded(tx, found, force ? 0 : retentionOf(settings).steps)
        updateDeployment(tx, deployId, { hasArtifact: false })
        const detail = force ? 'forced' : null
        const { projectId } = found
        auditWithin(tx, { action: 'deployment.delete_archive', actor, projectId, target: deployId, detail })
        return { ...found, hasArtifact: false }
      })
      const freedBytes = await removeArchives({ files, quota }, row.projectId, [deployId])
      return { row, freedBytes }
    }
  }
}

/** Refuses an archive that is needed: always if it is in use, and if one of the last `steps` exact undos needs it. */
function refuseIfNeeded(db: Reader, row: DeploymentRow, steps: number): void {
  const { id, projectId } = row
  refuseUnlessFinal(row, 'delete the archive of')
  if (!row.hasArtifact) throw noArchive(id, 'deletion')
  if (isRevertPending(row)) throw needed(id, 'the earlier files are still to be put back')
  if (liveDeployment(db, projectId)?.id === id) throw needed(id, 'its files are in the target. Deploy others first')
  if (rolledOut(db, projectId).has(id)) throw needed(id, 'nodes get it from this server. Roll others out first')
  const undo = undoable(db, projectId, steps).find(({ id: own, beforeFrom }) => own === id || beforeFrom?.includes(id))
  if (undo === undefined) return
  const advice = 'Force it, and this deployment cannot be undone exactly any more'
  throw needed(id, `an exact undo of deployment ${undo.id} needs it. ${advice}`)
}

function needed(deployId: string, why: string): Refusal {
  return new Refusal('conflict', 'archive_needed', `Cannot delete the archive of deployment ${deployId}: ${why}`)
}

/** How the archive of a deployment is deployed again: in its project, or in another one. */
export type Again = 'again' | 'promotion'

/** What is refused, in words. */
const doing = { again: 'roll back to', promotion: 'promote', deletion: 'delete the archive of' } as const

/** Throws the 409 for a deployment that cannot be rolled back to (`again`), or promoted. */
export function refuseRollback(source: DeploymentRow, kind: Again = 'again'): void {
  refuseUnlessFinal(source, doing[kind])
  if (!source.hasArtifact) throw noArchive(source.id, kind)
  if (source.exact) throw partialArchive(source.id, kind)
}

/** Returns the 409 for a deployment whose archive has only what differed from an earlier state. */
function partialArchive(deployId: string, kind: Again): Refusal {
  const sentence =
    kind === 'again'
      ? `Cannot put the files of deployment ${deployId} over the others: it brought back only what differed. Roll back exactly`
      : `Cannot promote deployment ${deployId}: it brought back only what differed, from a release that is not known any more`
  return new Refusal('conflict', 'partial_archive', sentence)
}

/** Returns the 409 for an archive that was removed, by retention or by hand. */
export function noArchive(deployId: string, kind: keyof typeof doing): Refusal {
  const sentence = `Cannot ${doing[kind]} deployment ${deployId}: its archive has been removed`
  return new Refusal('conflict', 'no_archive', sentence)
}

/**
 * Returns the scripts that a rollback offers in addition to the project's own: the client scripts that ran in the
 * source deployment. Whether they are allowed is decided when the rollback starts. The client's variables are not
 * stored: a rollback has no client variables.
 */
export function offeredBySource(source: Pick<DeploymentRow, 'scripts'>): OfferedScripts {
  const ran = source.scripts.filter(script => script.source === 'client')
  const preDeploy = ran.find(script => script.step === 'preDeploy')
  const postDeploy = ran.find(script => script.step === 'postDeploy')
  return {
    origin: 'source deployment',
    preDeploy: preDeploy?.script,
    postDeploy: postDeploy?.script,
    postDeployAsync: postDeploy?.async
  }
}
