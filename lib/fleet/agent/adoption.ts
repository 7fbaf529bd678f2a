/* Brings the record of a project on a node up to date with the release that is about to be prepared. */
import type { ReleaseDocument } from '../../model/fleet-wire.js'
import { hubActor, type AdoptedFields, type LocalProjects, type LocalVariables } from './local.js'

/**
 * If the hub allows client scripts, the setting of the node decides: a node may forbid more than its hub, never allow more.
 */
const allowing = 'allowClientScripts'

/** Dependencies of the adoption. */
export interface AdoptionNeeds {
  projects: LocalProjects
  variables: LocalVariables
}

/** Makes the project of a release one of the node, with its variables. Refuses as `projects` and `variables` do. */
export async function adoptProject({ projects, variables }: AdoptionNeeds, document: ReleaseDocument): Promise<void> {
  const { projectId } = document
  await projects.adopt(projectId, adoptedFields(document), hubActor)
  const wanted = [...document.variables].sort((a, b) => (a.name < b.name ? -1 : 1))
  const present = await variables.open(projectId).catch(() => null)
  // Nothing is written, and nothing is added to the audit log, if nothing has changed.
  const known = present?.map(({ name, value, secret }) => ({ name, value, secret }))
  if (known === undefined || JSON.stringify(known) !== JSON.stringify(wanted.map(plain)))
    await variables.replace(projectId, wanted, hubActor)
}

function plain({ name, value, secret }: ReleaseDocument['variables'][number]) {
  return { name, value, secret }
}

/** Returns the fields of the project that a release brings. */
export function adoptedFields({ projectName, env, deployPath, policy, project }: ReleaseDocument): AdoptedFields {
  const fields: AdoptedFields = { ...project, name: projectName, env, deployPath, policy }
  return project[allowing] === true ? { ...fields, [allowing]: null } : fields
}
