import { formatSeconds } from '../base/duration.js'
import type { DeploymentRow, DeploymentStatus, DeploymentStep } from '../model/deployment.js'
import type { EventKey, FinalStatus, NotificationTrigger } from '../model/deployment.js'
import type { Transaction } from '../store/database.js'
import { findDeployment, placeDeployment, updateDeployment } from '../store/tables/deployments.js'
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

/** What the output says of a deployment that failed when its files were in place. */
export const staysSentence = 'the files of this deployment stay in place; a rollback brings earlier ones back'

/** Whether the files of a deployment came to be in its target. */
export function isExtracted(steps: readonly DeploymentStep[]): boolean {
  return steps.some(({ name, status }) => name === 'extract' && status === 'success')
}

/**
 * Writes what is known of a deployment; `placed` is given with the steps that first say that its files are in place.
 * Returns the record as it is now; undefined: it is gone.
 */
export function recordProgress(tx: Transaction, deployId: string, patch: Partial<DeploymentRow>): DeploymentRow | undefined {
  // Only placeDeployment knows the number; the patch may be older.
  const { placed, ...known } = patch
  if (!updateDeployment(tx, deployId, known)) return undefined
  if (isExtracted(patch.steps ?? [])) placeDeployment(tx, deployId)
  return findDeployment(tx, deployId)
}

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
    return recordProgress(tx, deployId, { ...move.patch, status: move.to })
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
