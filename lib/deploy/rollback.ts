import { Refusal } from '../base/refusal.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { OfferedScripts } from './scripts.js'
import { refuseUnlessFinal } from './status.js'

/** Throws the 409 for a deployment that cannot be rolled back to. */
export function refuseRollback(source: DeploymentRow): void {
  refuseUnlessFinal(source, 'rolled back to')
  if (!source.hasArtifact) throw noArchive(source.id)
}

/** The 409 for an archive that retention, or somebody, has removed. */
export function noArchive(deployId: string): Refusal {
  const sentence = `Deployment ${deployId} cannot be rolled back to: its archive is not kept any more`
  return new Refusal('conflict', 'no_archive', sentence)
}

/**
 * What a rollback offers besides the project's own scripts: those that clients sent and that ran in the source
 * deployment. Whether they may run is decided when the rollback does. The variables of that client are not kept.
 */
export function offeredBySource(source: Pick<DeploymentRow, 'scripts'>): OfferedScripts {
  const ran = source.scripts.filter(script => script.source === 'client')
  const preDeploy = ran.find(script => script.step === 'preDeploy')
  const postDeploy = ran.find(script => script.step === 'postDeploy')
  return {
    origin: 'source deployment',
    preDeploy: preDeploy?.script,
    postDeploy: postDeploy?.script,
    postDeployAsync: postDeploy?.async
  }
}
