import { setTimeout as sleep } from 'node:timers/promises'
import { formatSeconds } from '../base/duration.js'
import { Refusal } from '../base/refusal.js'
import type { DeploymentRow, DeploymentStatus } from '../model/deployment.js'
import type { EventKey, FinalStatus, NotificationTrigger } from '../model/deployment.js'
import { findDeployment, updateDeployment } from '../store/tables/deployments.js'
import { findProject } from '../store/tables/projects.js'
import type { DeployNeeds } from './needs.js'
import { assertTransition, type Cause } from './status.js'

/** How a deployment ended. */
export interface Outcome {
  status: FinalStatus
  cause: Cause
  /** Why it failed; null: it did not. */
  errorMessage: string | null
}

/** A full disk may have room again a moment later, and the end of a deployment is worth the wait. */
const finalRetriesMs = [100, 1_000, 5_000, 15_000]

/** Moves a record to another state, in one transaction with `patch`; the record as it is now. Gone: undefined. */
export function moveRecord(
  { store }: Pick<DeployNeeds, 'store'>,
  deployId: string,
  move: { to: DeploymentStatus; cause: Cause; patch?: Partial<DeploymentRow> }
): Promise<DeploymentRow | undefined> {
  return store.write(tx => {
    const row = findDeployment(tx, deployId)
    if (row === undefined) return undefined
    assertTransition(row.status, move.to, move.cause)
    const patch = { ...move.patch, status: move.to }
    updateDeployment(tx, deployId, patch)
    return { ...row, ...patch }
  })
}

/** The end of a record: its time, its duration, its outcome. */
export function endOf(row: DeploymentRow, outcome: Outcome, nowMs: number): Partial<DeploymentRow> {
  return {
    status: outcome.status,
    errorMessage: outcome.errorMessage,
    endTime: new Date(nowMs).toISOString(),
    duration: formatSeconds(nowMs - Date.parse(row.startTime))
  }
}

/** As moveRecord, tried again for a while: nobody else will do it before the next start. */
export async function moveToEnd(
  needs: Pick<DeployNeeds, 'store' | 'log'>,
  row: DeploymentRow,
  outcome: Outcome
): Promise<DeploymentRow> {
  const move = { to: outcome.status, cause: outcome.cause, patch: row }
  for (const waitMs of [...finalRetriesMs, null]) {
    try {
      return (await moveRecord(needs, row.id, move)) ?? row
    } catch (error) {
      needs.log(`The end of deployment ${row.id} (${outcome.status}) could not be recorded`, error)
      if (waitMs === null || !(error instanceof Refusal)) return row
      await sleep(waitMs)
    }
  }
  return row
}

/** Tells the world how a deployment ended, or what became of it afterwards (§6.5). Never throws. */
export function notifyOf(
  { store, notify, log }: Pick<DeployNeeds, 'store' | 'notify' | 'log'>,
  deployment: DeploymentRow,
  { trigger, event, errorMessage }: { trigger: NotificationTrigger; event: EventKey; errorMessage: string | null }
): void {
  try {
    const project = findProject(store, deployment.projectId)
    if (project !== undefined) notify({ trigger, event, deployment, project, errorMessage })
  } catch (error) {
    log(`The notification of deployment ${deployment.id} failed`, error)
  }
}

/** The event of a final state. */
export function eventOf(status: FinalStatus): EventKey {
  return status === 'success' ? 'deploy_success' : 'deploy_failure'
}
