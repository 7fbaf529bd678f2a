import type { ModePolicy } from '../install/modes.js'
import { policyOf } from '../model/policy.js'
import type { Project } from '../model/project.js'
import { findGroup } from '../proc/identity.js'

type Given = Pick<Project, 'policy' | 'runAs'>

/**
 * Returns what the policy of a project says about the permissions and the group of its files. Refuses (`conflict`,
 * group_unusable) a group that does not exist here, or that its user may not give to files.
 */
export async function modesOf(project: Given): Promise<ModePolicy> {
  const { group } = policyOf(project)
  return { ...permissionsOf(project), group: group === null ? null : await findGroup(group, project.runAs) }
}

/** Returns what it says about permissions alone: a way back restores the groups that were there. */
export function permissionsOf(project: Given): ModePolicy {
  const { fileMode, directoryMode } = policyOf(project)
  return { file: bitsOf(fileMode), directory: bitsOf(directoryMode) }
}

function bitsOf(octal: string | null): number | null {
  return octal === null ? null : Number.parseInt(octal, 8)
}
