import type { DeploymentRow, RanScript } from '../model/deployment.js'
import type { RecentScripts } from '../model/project.js'

/** Returns the scripts of the last deployment that ran any. `deployments` is ordered newest first. */
export function recentScripts(deployments: readonly DeploymentRow[]): RecentScripts {
  const latest = deployments.find(({ scripts }) => scripts.some(({ step }) => step !== 'onFailure'))
  const scriptOf = (step: RanScript['step']) => latest?.scripts.find(ran => ran.step === step)?.script ?? ''
  return {
    deployId: latest?.id ?? null,
    preDeployScript: scriptOf('preDeploy'),
    postDeployScript: scriptOf('postDeploy')
  }
}
