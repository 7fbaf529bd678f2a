import type { DeploymentRow } from '../model/deployment.js'
import type { DeployNeeds } from './needs.js'
import { notifyOf } from './record.js'

/** Tells the audit and the world that a script in the background ended badly, or was ended: the deployment stays what it is (§3). */
export function reportBackgroundFailure(
  needs: Pick<DeployNeeds, 'store' | 'audit' | 'notify' | 'log'>, row: DeploymentRow, complaint: string
): void {
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
