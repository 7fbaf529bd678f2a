import { notFound, Refusal } from '../base/errors.js'
import type { Actor } from '../model/audit.js'
import type { DeploymentRow, FinalStatus } from '../model/deployment.js'
import { requireDeployment } from '../core/store/tables/deployments.js'
import { nameOfActor } from '../core/store/tables/projects.js'
import { StopRequest } from './failure.js'
import type { DeployFiles } from './files.js'
import type { Live, LiveRun } from './output/live.js'
import type { Ends } from './ends.js'
import type { DeployNeeds } from './needs.js'
import { openOutput } from './output/output.js'
import type { Queue } from './queue.js'
import type { WaitingDeployments } from './waiting.js'
import { eventOf, moveRecord, refuseIfFinal, refuseUnlessFinal, sendNotice } from './record.js'

export interface CorrectionNeeds extends DeployNeeds {
  files: DeployFiles
  live: Live
  queue: Queue
  waiting: Pick<WaitingDeployments, 'takeBack'>
  ends: Pick<Ends, 'current' | 'settle'>
}

/** Who corrects a record. `why`: the sentence of the record and its output, if it is not that somebody wants it. */
export interface MarkedBy {
  actor: Actor
  why?: string
}

/** User actions on running deployments and on finished records. */
export type Correction = ReturnType<typeof createCorrection>

/** Creates the user actions on deployments. */
export function createCorrection(needs: CorrectionNeeds) {
  const { store, clock, files, live, queue, waiting, ends, log } = needs

  async function cancel(deployId: string, actor: Actor): Promise<DeploymentRow> {
    const row = ends.current(requireDeployment(store, deployId))
    refuseIfFinal(row, 'cancel')
    const run = live.find(deployId)
    if (run === undefined)
      throw new Error(`Deployment ${deployId} is ${row.status}, but it is not in the list of live deployments`)
    const request = new StopRequest('cancel', `Cancelled by ${nameOfActor(store, actor.name)}`)
    run.stop(request)
    await (queue.takeBack(deployId) ?? waiting.takeBack(deployId))?.drop(request)
    const final = await run.finished
    const ok = final.status === 'failed'
    needs.audit({ action: 'deployment.cancel', actor, projectId: row.projectId, target: deployId, ok })
    if (!ok) refuseIfFinal(final, 'cancel')
    return final
  }

  async function mark(deployId: string, status: FinalStatus, { actor, why }: MarkedBy): Promise<DeploymentRow> {
    const was = ends.current(requireDeployment(store, deployId))
    refuseUnlessFinal(was, 'mark')
    // An end that is still kept in memory is recorded first.
    await ends.settle()
    const sentence = why ?? `Marked as ${status} by ${nameOfActor(store, actor.name)}`
    const errorMessage = status === 'success' ? null : (was.errorMessage ?? sentence)
    const row = await moveRecord(needs, deployId, { to: status, cause: 'correction', patch: { errorMessage } })
    if (row === undefined) throw notFound('Deployment', deployId)
    await say(deployId, `→ ${sentence} (it was ${was.status})`)
    const detail = `${was.status} → ${status}${why === undefined ? '' : `: ${why}`}`
    needs.audit({ action: 'deployment.mark_status', actor, projectId: row.projectId, target: deployId, detail })
    sendNotice(needs, row, { trigger: 'manual', event: eventOf(status), errorMessage })
    return row
  }

  /** Appends a line to the output. A background script may be writing to the same output. */
  async function say(deployId: string, line: string): Promise<void> {
    try {
      const output = live.find(deployId)?.output ?? (await openOutput({ path: files.output(deployId), clock }))
      output.say(line)
      await output.flush()
    } catch (error) {
      log(`Cannot append to the output of deployment ${deployId}`, error)
    }
  }

  return { cancel, mark }
}

export interface ConfirmationNeeds extends Pick<DeployNeeds, 'store' | 'audit'> {
  live: Live
  ends: Pick<Ends, 'current'>
}

/** User decisions about deployments whose earlier files can still be put back. */
export type Confirmation = ReturnType<typeof createConfirmation>

/** Creates the user decisions about held deployments. */
export function createConfirmation({ store, audit, live, ends }: ConfirmationNeeds) {
  function requireHeld(row: DeploymentRow, doing: string): LiveRun {
    const run = live.find(row.id)
    if (run !== undefined && !run.isOver && run.isHeld) return run
    throw row.revertReason !== null ? tooLate(row, doing) : notWaiting(row, doing)
  }

  return {
    /**
     * Confirms a deployment that waits for it. Resolves with its final record. Audited. Refuses: 404, 409 `not_waiting`,
     * `too_late`.
     */
    async confirm(deployId: string, actor: Actor): Promise<DeploymentRow> {
      const row = ends.current(requireDeployment(store, deployId))
      const run = requireHeld(row, 'confirm')
      if (run.window === null) throw notWaiting(row, 'confirm')
      if (!run.window.confirm()) throw tooLate(row, 'confirm')
      const final = await run.finished
      const ok = final.status === 'success'
      audit({ action: 'deployment.confirm', actor, projectId: row.projectId, target: deployId, ok })
      if (!ok) throw tooLate(final, 'confirm')
      return final
    },

    /**
     * Puts the earlier files of a held deployment back. Resolves with its final record. Audited. Refuses: 404, 409
     * `not_waiting`, `too_late`.
     */
    async revert(deployId: string, actor: Actor): Promise<DeploymentRow> {
      const row = ends.current(requireDeployment(store, deployId))
      const run = requireHeld(row, 'revert')
      run.stop(new StopRequest('cancel', `Reverted by ${nameOfActor(store, actor.name)}`))
      const final = await run.finished
      const ok = final.revertedAt !== null
      audit({ action: 'deployment.revert', actor, projectId: row.projectId, target: deployId, ok })
      if (final.status === 'success') throw tooLate(final, 'revert')
      return final
    },

    /** Returns when the window of a deployment ends that waits to be confirmed, or null. */
    confirmUntil: (deployId: string): string | null => live.find(deployId)?.window?.until ?? null
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
