import { notFound } from '../base/errors.js'
import type { Actor } from '../model/audit.js'
import type { DeploymentRow, FinalStatus } from '../model/deployment.js'
import { findDeployment } from '../store/tables/deployments.js'
import { StopRequest } from './failure.js'
import type { DeployFiles } from './files.js'
import type { Live } from './output/live.js'
import type { Ends } from './ends.js'
import type { DeployNeeds } from './needs.js'
import { openOutput } from './output/output.js'
import type { Queue } from './queue.js'
import { eventOf, moveRecord, sendNotice } from './record.js'
import { refuseIfFinal, refuseUnlessFinal } from './status.js'

/** Dependencies of `createCorrection`. */
export interface CorrectionNeeds extends DeployNeeds {
  files: DeployFiles
  live: Live
  queue: Queue
  ends: Pick<Ends, 'current' | 'settle'>
}

/** Who corrects a record. `why`: the sentence of the record and its output, if it is not that somebody wants it. */
interface MarkedBy {
  actor: Actor
  why?: string
}

/** User actions on running deployments and on finished records. */
export interface Correction {
  cancel(deployId: string, actor: Actor): Promise<DeploymentRow>
  mark(deployId: string, status: FinalStatus, by: MarkedBy): Promise<DeploymentRow>
}

/** Creates the user actions on deployments. */
export function createCorrection(needs: CorrectionNeeds): Correction {
  const { store, clock, files, live, queue, ends, log } = needs

  async function cancel(deployId: string, actor: Actor): Promise<DeploymentRow> {
    const row = requireRow(deployId)
    refuseIfFinal(row, 'cancel')
    const run = live.find(deployId)
    if (run === undefined)
      throw new Error(`Deployment ${deployId} is ${row.status}, but it is not in the list of live deployments`)
    const request = new StopRequest('cancel', `Cancelled by ${actor.name}`)
    run.stop(request)
    await queue.takeBack(deployId)?.drop(request)
    const final = await run.finished
    const ok = final.status === 'failed'
    needs.audit({ action: 'deployment.cancel', actor, projectId: row.projectId, target: deployId, ok })
    if (!ok) refuseIfFinal(final, 'cancel')
    return final
  }

  async function mark(deployId: string, status: FinalStatus, { actor, why }: MarkedBy): Promise<DeploymentRow> {
    const was = requireRow(deployId)
    refuseUnlessFinal(was, 'mark')
    // An end that is still kept in memory is recorded first.
    await ends.settle()
    const sentence = why ?? `Marked as ${status} by ${actor.name}`
    const errorMessage = status === 'success' ? null : (was.errorMessage ?? sentence)
    const row = await moveRecord(needs, deployId, { to: status, cause: 'correction', patch: { errorMessage } })
    if (row === undefined) throw notFound('Deployment', deployId)
    await say(deployId, `→ ${sentence} (it was ${was.status})`)
    const detail = `${was.status} → ${status}${why === undefined ? '' : `: ${why}`}`
    needs.audit({ action: 'deployment.mark_status', actor, projectId: row.projectId, target: deployId, detail })
    sendNotice(needs, row, { trigger: 'manual', event: eventOf(status), errorMessage })
    return row
  }

  function requireRow(deployId: string): DeploymentRow {
    const row = findDeployment(store, deployId)
    if (row === undefined) throw notFound('Deployment', deployId)
    return ends.current(row)
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
