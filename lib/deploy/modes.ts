import type { ModePolicy } from '../install/modes.js'
import { policyOf, type PolicyChanges } from '../model/policy.js'

/** Returns what the policy of a project says about the permissions of its files. */
export function modesOf(project: { policy: PolicyChanges }): ModePolicy {
  const { fileMode, directoryMode } = policyOf(project)
  return { file: bitsOf(fileMode), directory: bitsOf(directoryMode) }
}

function bitsOf(octal: string | null): number | null {
  return octal === null ? null : Number.parseInt(octal, 8)
}
