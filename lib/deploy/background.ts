/*
 * The end of a post-deploy script in the background. The deployment stays what it is (§3); its step says `running` while
 * the script goes on, and then how it ended.
 */
import type { DeploymentRow, DeploymentStep } from '../model/deployment.js'
import { findDeployment, updateDeployment } from '../store/tables/deployments.js'
import { deleteScriptProcess } from '../store/tables/script-processes.js'
import type { DeployNeeds } from './needs.js'
import { notifyOf } from './record.js'

type BackgroundNeeds = Pick<DeployNeeds, 'store' | 'clock' | 'audit' | 'notify' | 'log'>

/** How a script in the background came to its end. */
export interface BackgroundEnd {
  /** What is wrong with it, as a sentence; null: nothing that svc knows of. */
  complaint: string | null
  /** null: there is no exit code, or svc did not see the end. */
  exitCode: number | null
}

/** The post-deploy script goes on in the background: its step has no end yet. */
export function leaveRunning(steps: readonly DeploymentStep[]): void {
  for (const step of steps) if (step.name === 'postDeploy') Object.assign(step, { status: 'running', endedAt: null })
}

/**
 * Records the end of a script in the background, in its step, and tells the audit and the world of a bad one. For a
 * deployment that is final; one that is gone meanwhile, or whose script has its end already, is left alone. `kept` is its
 * record while that cannot be written (ends.ts): it takes the end along.
 */
export async function endBackground(
  needs: BackgroundNeeds, deployId: string, end: BackgroundEnd, kept: DeploymentRow | null = null
): Promise<void> {
  const row = kept !== null ? withEnd(kept, end, needs.clock.now()) : await needs.store.write(tx => {
    // In one write: a start that finds the processes knows that the step has no end.
    deleteScriptProcess(tx, { deployId, step: 'postDeploy' })
    const found = findDeployment(tx, deployId)
    if (found === undefined || !found.steps.some(isInBackground)) return undefined
    const ended = withEnd(found, end, needs.clock.now())
    updateDeployment(tx, deployId, { steps: ended.steps })
    return ended
  }).catch(error => {
    needs.log(`The end of the script in the background of deployment ${deployId} could not be recorded`, error)
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

/** Tells the audit and the world that a script in the background ended badly, or was ended: the deployment stays what it is (§3). */
function reportBackgroundFailure(needs: BackgroundNeeds, row: DeploymentRow, complaint: string): void {
  needs.audit({
    action: 'deploy.post_deploy_failed',
    actor: { name: 'system', ip: null },
    projectId: row.projectId,
    target: row.id,
    detail: complaint,
    ok: false
  })
  notifyOf(needs, row, { trigger: 'async_post_deploy', event: 'deploy_failure', errorMessage: complaint })
}
