import { Refusal } from '../base/errors.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { OfferedScripts } from './scripts/scripts.js'
import { refuseUnlessFinal } from './status.js'

/** Throws the 409 for a deployment that cannot be rolled back to. */
export function refuseRollback(source: DeploymentRow): void {
  refuseUnlessFinal(source, 'roll back to')
  if (!source.hasArtifact) throw noArchive(source.id)
  if (source.exact) throw partialArchive(source.id)
}

/** Returns the 409 for a deployment whose archive has only what differed from an earlier state. */
function partialArchive(deployId: string): Refusal {
  const sentence = `Cannot put the files of deployment ${deployId} over the others: it brought back only what differed. Roll back exactly`
  return new Refusal('conflict', 'partial_archive', sentence)
}

/** Returns the 409 for an archive that was removed, by retention or by hand. */
export function noArchive(deployId: string, doing = 'roll back to'): Refusal {
  const sentence = `Cannot ${doing} deployment ${deployId}: its archive has been removed`
  return new Refusal('conflict', 'no_archive', sentence)
}

/**
 * Returns the scripts that a rollback offers in addition to the project's own: the client scripts that ran in the
 * source deployment. Whether they are allowed is decided when the rollback starts. The client's variables are not
 * stored: a rollback has no client variables.
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
