import { formatSeconds } from '../base/text.js'
import type {
  DeploymentRow,
  DeploymentStatus,
  DeploymentStep,
  EventKey,
  FinalStatus,
  NotificationTrigger
} from '../model/deployment.js'
import type { Transaction } from '../store/database.js'
import { findDeployment, placeDeployment, unplaceDeployment, updateDeployment } from '../store/tables/deployments.js'
import { findProject } from '../store/tables/projects.js'
import type { DeployNeeds } from './needs.js'
import { assertTransition, type Cause } from './status.js'

/** The result of a deployment. */
export interface Outcome {
  status: FinalStatus
  cause: Cause
  /** Why it failed, or null if it succeeded. */
  errorMessage: string | null
}

/** The fields of a finished deployment that is not held any more. */
export const notHeld = { heldFor: null, holdUntil: null } as const

/** Output line of a deployment that failed after its files were in place. */
export const staysSentence = 'the files of this deployment stay in place; roll back to restore earlier files'

/** Whether the files of a deployment are in its target. */
export function isExtracted(steps: readonly DeploymentStep[]): boolean {
  return steps.some(({ name, status }) => name === 'extract' && status === 'success')
}

/**
 * Updates the record of a deployment. Assigns `placed` when the steps first say that its files are in place, and
 * removes it when they were put back. Returns the updated record, or undefined if it no longer exists.
 */
export function recordProgress(
  tx: Transaction,
  deployId: string,
  patch: Partial<DeploymentRow>
): DeploymentRow | undefined {
  // Only placeDeployment assigns the number. The patch may contain an older one.
  const { placed, ...known } = patch
  if (!updateDeployment(tx, deployId, known)) return undefined
  const row = findDeployment(tx, deployId)
  if (row !== undefined && row.revertedAt !== null) unplaceDeployment(tx, deployId)
  else if (isExtracted(patch.steps ?? [])) placeDeployment(tx, deployId)
  return findDeployment(tx, deployId)
}

/**
 * Changes the status of a record together with `patch`, in one transaction. Returns undefined if it no longer exists.
 */
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

/** Returns the fields that a result sets: status, error, end time and duration. */
export function endOf(row: DeploymentRow, outcome: Outcome, nowMs: number): Partial<DeploymentRow> {
  return {
    status: outcome.status,
    errorMessage: outcome.errorMessage,
    endTime: new Date(nowMs).toISOString(),
    duration: formatSeconds(nowMs - Date.parse(row.startTime))
  }
}

/** Sends the notification of a result or of a later correction (§6.5). Never throws. */
export function sendNotice(
  { store, notify, log }: Pick<DeployNeeds, 'store' | 'notify' | 'log'>,
  deployment: DeploymentRow,
  { trigger, event, errorMessage }: { trigger: NotificationTrigger; event: EventKey; errorMessage: string | null }
): void {
  try {
    const project = findProject(store, deployment.projectId)
    if (project !== undefined) notify({ trigger, event, deployment, project, errorMessage })
  } catch (error) {
    log(`Cannot send the notification of deployment ${deployment.id}`, error)
  }
}

/** Returns the event of a final status. */
export function eventOf(status: FinalStatus): EventKey {
  return status === 'success' ? 'deploy_success' : 'deploy_failure'
}
