import { isRevertPending, type DeploymentRow } from '../model/deployment.js'
import type { OpenExtractions } from '../install/unpack/open-extraction.js'
import { findDeployment } from '../store/tables/deployments.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import { openOutput } from './output/output.js'
import { recordProgress } from './record.js'
import { isFinal } from './status.js'

/**
 * Returns what becomes of deployments whose undo journal says that their files are in place, but not that they are
 * settled. A running deployment is left to its own run. A finished one is settled if its record says that its files are
 * in place. Every other one is put back.
 */
export function createOpenDeployments(
  needs: Pick<DeployNeeds, 'store' | 'clock' | 'log'> & { files: DeployFiles }
): OpenExtractions {
  const { store, clock, files, log } = needs

  async function say(deployId: string): Promise<void> {
    try {
      const output = await openOutput({ path: files.output(deployId), clock })
      output.say('→ the earlier files are back after all')
      await output.flush()
    } catch (error) {
      log(`Cannot append to the output of deployment ${deployId}`, error)
    }
  }

  return {
    decide(deployId) {
      const row = findDeployment(store, deployId)
      if (row === undefined) return 'revert'
      if (!isFinal(row.status)) return 'leave'
      return row.placed !== null && !isRevertPending(row) ? 'settle' : 'revert'
    },
    async onReverted(deployId) {
      const row = findDeployment(store, deployId)
      if (row === undefined || row.revertedAt !== null) return
      await store.write(tx => recordProgress(tx, deployId, revertedPatch(row, clock.now())))
      await say(deployId)
    }
  }
}

/** Returns the fields that say that the earlier files of a deployment are back. */
export function revertedPatch(row: Pick<DeploymentRow, 'revertReason'>, nowMs: number): Partial<DeploymentRow> {
  const revertedAt = new Date(nowMs).toISOString()
  return { revertedAt, revertReason: row.revertReason ?? 'restart', heldFor: null, holdUntil: null }
}
