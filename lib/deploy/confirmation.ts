import { notFound, Refusal } from '../base/errors.js'
import type { Actor } from '../model/audit.js'
import type { DeploymentRow } from '../model/deployment.js'
import { findDeployment } from '../store/tables/deployments.js'
import type { Ends } from './ends.js'
import { StopRequest } from './failure.js'
import type { DeployNeeds } from './needs.js'
import type { Live, LiveRun } from './output/live.js'

/** Dependencies of `createConfirmation`. */
export interface ConfirmationNeeds extends Pick<DeployNeeds, 'store' | 'audit'> {
  live: Live
  ends: Pick<Ends, 'current'>
}

/** User decisions about deployments whose earlier files can still be put back. */
export interface Confirmation {
  /**
   * Confirms a deployment that waits for it. Resolves with its final record. Audited. Refuses: 404, 409 `not_waiting`,
   * `too_late`.
   */
  confirm(deployId: string, actor: Actor): Promise<DeploymentRow>
  /**
   * Puts the earlier files of a held deployment back. Resolves with its final record. Audited. Refuses: 404, 409
   * `not_waiting`, `too_late`.
   */
  revert(deployId: string, actor: Actor): Promise<DeploymentRow>
  /** Returns when the window of a deployment ends that waits to be confirmed, or null. */
  confirmUntil(deployId: string): string | null
}

/** Creates the user decisions about held deployments. */
export function createConfirmation({ store, audit, live, ends }: ConfirmationNeeds): Confirmation {
  function requireRow(deployId: string): DeploymentRow {
    const row = findDeployment(store, deployId)
    if (row === undefined) throw notFound('Deployment', deployId)
    return ends.current(row)
  }

  function requireHeld(row: DeploymentRow, doing: string): LiveRun {
    const run = live.find(row.id)
    if (run !== undefined && !run.isOver && run.isHeld) return run
    throw row.revertReason !== null ? tooLate(row, doing) : notWaiting(row, doing)
  }

  return {
    async confirm(deployId, actor) {
      const row = requireRow(deployId)
      const run = requireHeld(row, 'confirm')
      if (run.window === null) throw notWaiting(row, 'confirm')
      if (!run.window.confirm()) throw tooLate(row, 'confirm')
      const final = await run.finished
      const ok = final.status === 'success'
      audit({ action: 'deployment.confirm', actor, projectId: row.projectId, target: deployId, ok })
      if (!ok) throw tooLate(final, 'confirm')
      return final
    },
    async revert(deployId, actor) {
      const row = requireRow(deployId)
      const run = requireHeld(row, 'revert')
      run.stop(new StopRequest('cancel', `Reverted by ${actor.name}`))
      const final = await run.finished
      const ok = final.revertedAt !== null
      audit({ action: 'deployment.revert', actor, projectId: row.projectId, target: deployId, ok })
      if (final.status === 'success') throw tooLate(final, 'revert')
      return final
    },
    confirmUntil: deployId => live.find(deployId)?.window?.until ?? null
  }
}

function notWaiting({ id, status }: DeploymentRow, doing: string): Refusal {
  const sentence =
    doing === 'confirm'
      ? `Cannot confirm deployment ${id}: it does not wait for a confirmation (${status})`
      : `Cannot revert deployment ${id}: the earlier files are not kept any more (${status}). Roll back instead`
  return new Refusal('conflict', 'not_waiting', sentence)
}

function tooLate({ id, status, revertReason }: DeploymentRow, doing: string): Refusal {
  const state = revertReason === null ? `it is already ${status}` : 'the earlier files are being put back, or are back'
  return new Refusal('conflict', 'too_late', `Cannot ${doing} deployment ${id}: ${state}`)
}
