import type { ListedDeployment } from '../../model/deployment.js'

/** Fields that other servers of the same interface have instead of some of svc's. */
interface OtherFields {
  artifactPath?: string | null
}

/**
 * Returns a record with the fields that servers may lack which are older or not svc: without an origin, a message and an
 * environment. If nothing says whether the archive is kept, it is assumed, so that the server decides.
 */
export function completeDeployment<T extends ListedDeployment>(given: T): T {
  const { artifactPath = '' } = given as OtherFields
  const missing = { rollbackOf: null, message: null, provenance: null, env: '', hasArtifact: artifactPath !== null }
  return { ...missing, ...given }
}
