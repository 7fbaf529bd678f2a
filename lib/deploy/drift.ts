/* The drift guard of a deployment (install/drift.ts): what it gets, and what the output says. */
import { oneLine } from '../base/one-line.js'
import { Refusal } from '../base/refusal.js'
import type { DriftGuard, ReplacedEdits } from '../install/drift.js'
import { policyOf } from '../model/policy.js'
import type { Project } from '../model/project.js'
import type { Trees } from './trees.js'

/** Time to wait for the owned tree if edited files stop the deployment. */
const refuseWaitMs = 60_000

/**
 * Returns the guard that the policy of the project orders; undefined if it is off, or if svc owns nothing in the
 * target. Refuses (`unavailable`, tree_not_ready) if edited files stop a deployment and are not known in time.
 */
export async function driftGuardOf(trees: Pick<Trees, 'read'>, project: Project): Promise<DriftGuard | undefined> {
  const mode = policyOf(project).drift
  if (mode === 'off') return undefined
  // A warning is not worth reading the tree twice: the guard notices a torn one itself, and says nothing.
  const isStrict = mode === 'refuse'
  const owned = await trees.read(project.id, isStrict ? refuseWaitMs : undefined, isStrict)
  if (owned.baseline === 'owned') return { mode, owned: await owned.contents() }
  if (owned.baseline === 'none' || mode === 'warn') return undefined
  const sentence =
    'Nothing was changed: the list of the files that svc owns in the target is still being made. Try again'
  throw new Refusal('unavailable', 'tree_not_ready', sentence)
}

/** Returns the lines of the output about edited files that were replaced. */
export function linesOfEdits({ count, files }: ReplacedEdits): string[] {
  const lines = files.map(
    ({ path, since }) => `→ replaced "${oneLine(path)}", which was edited on the server after deployment ${since}`
  )
  const more = count - files.length
  return more > 0 ? [...lines, `→ replaced ${more} more files that were edited on the server`] : lines
}
