/* Brings the record of a project on a node up to date with the release that is about to be prepared. */
import { Refusal } from '../../base/refusal.js'
import type { ReleaseDocument } from '../../model/fleet-wire.js'
import { hubActor, type AdoptedFields, type LocalProjects, type LocalVariables } from './local.js'

type Kind = 'text' | 'flag' | 'number' | 'texts'

/** The settings of a project that its deployments use, and their types. Others of the hub are ignored. */
const adopted: Record<string, { kind: Kind; isNullable?: boolean }> = {
  description: { kind: 'text' },
  preDeployScript: { kind: 'text' },
  postDeployScript: { kind: 'text' },
  postDeployAsync: { kind: 'flag' },
  allowClientScripts: { kind: 'flag', isNullable: true },
  allowedEnv: { kind: 'texts' },
  runAs: { kind: 'text', isNullable: true },
  umask: { kind: 'text', isNullable: true },
  scriptTimeoutSeconds: { kind: 'number', isNullable: true },
  scriptShell: { kind: 'text', isNullable: true },
  scriptDirectory: { kind: 'text', isNullable: true },
  maxDiskMb: { kind: 'number', isNullable: true },
  pm2AppName: { kind: 'text', isNullable: true }
}

/** If the hub allows client scripts, the setting of the node decides: a node may forbid more than its hub, never allow more. */
const allowing = 'allowClientScripts'

const isKind: Record<Kind, (value: unknown) => boolean> = {
  text: value => typeof value === 'string',
  flag: value => typeof value === 'boolean',
  number: value => typeof value === 'number',
  texts: value => Array.isArray(value) && value.every(each => typeof each === 'string')
}

/** Dependencies of the adoption. */
export interface AdoptionNeeds {
  projects: LocalProjects
  variables: LocalVariables
}

/** Makes the project of a release one of the node, with its variables. Refuses `wrong_release`, and as `projects` does. */
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

/** Returns the fields of the project that a release brings. Refuses `wrong_release`. */
export function adoptedFields({ projectName, env, deployPath, policy, project }: ReleaseDocument): AdoptedFields {
  const fields: AdoptedFields = { name: projectName, env, deployPath, policy: withoutRollout(policy) }
  for (const [name, { kind, isNullable = false }] of Object.entries(adopted)) {
    const value = project[name]
    if (value === undefined) continue
    if (!(value === null && isNullable) && !isKind[kind](value)) {
      const sentence = `Cannot use the release from the hub: "${name}" of the project has another type`
      throw new Refusal('invalid', 'wrong_release', sentence)
    }
    fields[name] = name === allowing && value === true ? null : value
  }
  return fields
}

/** How a project is rolled out is a matter of its hub. */
function withoutRollout({ rollout: _, ...policy }: ReleaseDocument['policy']): ReleaseDocument['policy'] {
  return policy
}
