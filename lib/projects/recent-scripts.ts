import type { DeploymentRow, RanScript } from '../model/deployment.js'

/** The scripts of a project's last successful deployment that ran any, to fill the project's own in one click. */
export interface RecentScripts {
  deployId: string | null
  preDeployScript: string
  postDeployScript: string
}

/** `deployments` newest first. */
export function recentScripts(deployments: readonly DeploymentRow[]): RecentScripts {
  const latest = deployments.find(({ scripts }) => scripts.length > 0)
  const scriptOf = (step: RanScript['step']) => latest?.scripts.find(ran => ran.step === step)?.script ?? ''
  return {
    deployId: latest?.id ?? null,
    preDeployScript: scriptOf('preDeploy'),
    postDeployScript: scriptOf('postDeploy')
  }
}
