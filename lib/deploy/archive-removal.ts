import { notFound, Refusal } from '../base/errors.js'
import type { Actor } from '../model/audit.js'
import { isRevertPending, type DeploymentRow } from '../model/deployment.js'
import type { Reader } from '../store/database.js'
import { findDeployment, liveDeployment, updateDeployment } from '../store/tables/deployments.js'
import type { Ends } from './ends.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import { removeArchives, retentionOf, rolledOut, undoable } from './retention.js'
import { noArchive } from './rollback.js'
import { refuseUnlessFinal } from './status.js'

/** Dependencies of `createArchiveRemoval`. */
export type ArchiveRemovalNeeds = Pick<DeployNeeds, 'store' | 'settings' | 'quota' | 'audit'> & {
  files: DeployFiles
  ends: Pick<Ends, 'settle'>
}

/** Deletes the archive of one deployment. */
export interface ArchiveRemoval {
  /**
   * Returns the record and the freed bytes. `force` also deletes an archive that an exact undo needs. Audited. Refuses
   * (`conflict`): not_finished, no_archive, archive_needed.
   */
  deleteArchive(
    deployId: string,
    request: { force: boolean; actor: Actor }
  ): Promise<{ row: DeploymentRow; freedBytes: number }>
}

/** Creates the function. */
export function createArchiveRemoval({
  store,
  settings,
  quota,
  audit,
  files,
  ends
}: ArchiveRemovalNeeds): ArchiveRemoval {
  return {
    async deleteArchive(deployId, { force, actor }) {
      // An end that is still kept in memory is recorded first: it may have put the files in place.
      await ends.settle()
      const row = await store.write(tx => {
        const found = findDeployment(tx, deployId)
        if (found === undefined) throw notFound('Deployment', deployId)
        refuseIfNeeded(tx, found, force ? 0 : retentionOf(settings).steps)
        updateDeployment(tx, deployId, { hasArtifact: false })
        return { ...found, hasArtifact: false }
      })
      const freedBytes = await removeArchives({ files, quota }, row.projectId, [deployId])
      const detail = force ? 'forced' : null
      audit({ action: 'deployment.delete_archive', actor, projectId: row.projectId, target: deployId, detail })
      return { row, freedBytes }
    }
  }
}

/** Refuses an archive that is needed: always if it is in use, and if one of the last `steps` exact undos needs it. */
function refuseIfNeeded(db: Reader, row: DeploymentRow, steps: number): void {
  const { id, projectId } = row
  refuseUnlessFinal(row, 'delete the archive of')
  if (!row.hasArtifact) throw noArchive(id, 'delete the archive of')
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
