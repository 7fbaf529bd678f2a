/*
 * The end of a post-deploy script in the background. It does not change the status of the deployment (§3). Its step is
 * `running` while the script runs, and then contains the result.
 */
import type { DeploymentRow, DeploymentStep } from '../../model/deployment.js'
import { deleteScriptProcess, findDeployment, updateDeployment } from '../../store/tables/deployments.js'
import type { DeployNeeds } from '../needs.js'
import { sendNotice } from '../record.js'

type BackgroundNeeds = Pick<DeployNeeds, 'store' | 'clock' | 'audit' | 'notify' | 'log'>

/** The result of a background script. */
export interface BackgroundEnd {
  /** The error as a sentence, or null if svc knows of none. */
  complaint: string | null
  /** Null if there is no exit code, or svc did not observe the end. */
  exitCode: number | null
  /** The deployment's record if it is kept in memory (ends.ts). It then contains the end of the script, too. */
  kept?: DeploymentRow | null
}

/** Marks the post-deploy step as still running, because its script continues in the background. */
export function leaveRunning(steps: readonly DeploymentStep[]): void {
  for (const step of steps) if (step.name === 'postDeploy') Object.assign(step, { status: 'running', endedAt: null })
}

/**
 * Records the result of a background script in its step. Reports a failure to the audit log and by notification. The
 * deployment must be final. Does nothing if the deployment no longer exists, or its step already has an end.
 */
export async function endBackground(needs: BackgroundNeeds, deployId: string, end: BackgroundEnd): Promise<void> {
  const { kept = null } = end
  const row =
    kept !== null
      ? withEnd(kept, end, needs.clock.now())
      : await needs.store
          .write(tx => {
            // In the same write: a start that finds the processes relies on a step without an end.
            deleteScriptProcess(tx, { deployId, step: 'postDeploy' })
            const found = findDeployment(tx, deployId)
            if (found === undefined || !found.steps.some(isInBackground)) return undefined
            const ended = withEnd(found, end, needs.clock.now())
            updateDeployment(tx, deployId, { steps: ended.steps })
            return ended
          })
          .catch(error => {
            needs.log(`Cannot record the result of the background script of deployment ${deployId}`, error)
            return findDeployment(needs.store, deployId)
          })
  if (row !== undefined && end.complaint !== null) reportBackgroundFailure(needs, row, end.complaint)
}

function withEnd(row: DeploymentRow, end: BackgroundEnd, nowMs: number): DeploymentRow {
  for (const step of row.steps.filter(isInBackground)) Object.assign(step, endOfStep(end, nowMs))
  return row
}

function endOfStep({ complaint, exitCode }: BackgroundEnd, nowMs: number): Partial<DeploymentStep> {
  return { status: complaint === null ? 'success' : 'failed', endedAt: new Date(nowMs).toISOString(), exitCode }
}

function isInBackground({ name, status }: DeploymentStep): boolean {
  return name === 'postDeploy' && status === 'running'
}

/** Reports a failed or stopped background script. The status of the deployment does not change (§3). */
function reportBackgroundFailure(needs: BackgroundNeeds, row: DeploymentRow, complaint: string): void {
  needs.audit({
    action: 'deploy.post_deploy_failed',
    actor: { name: 'system', ip: null },
    projectId: row.projectId,
    target: row.id,
    detail: complaint,
    ok: false
  })
  sendNotice(needs, row, { trigger: 'async_post_deploy', event: 'deploy_failure', errorMessage: complaint })
}
