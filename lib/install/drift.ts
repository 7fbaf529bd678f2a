/*
 * The drift guard: finds the files of the target that svc put in place, that somebody has edited since, and that this
 * deployment would replace by other contents. Staging has digested them anyhow, so only the owned tree is read. A file
 * whose edit equals the new contents is not lost, and does not count.
 */
import { Refusal } from '../base/refusal.js'
import type { Policy } from '../model/policy.js'
import type { Item } from './plan.js'
import type { Records } from './record.js'
import { readOwnedTree, UnusableTree } from './owned-tree.js'

/** What the guard needs. It is plain data, for threads and helper processes. */
export interface DriftGuard {
  mode: Exclude<Policy['drift'], 'off'>
  /** The contents of the owned tree. */
  owned: Uint8Array
}

/** The edited files that a deployment replaces. */
export interface ReplacedEdits {
  count: number
  /** The first of them, with the deployment that put each in place. */
  files: Array<{ path: string; since: string }>
}

const maxListed = 20
const maxNamed = 3
const typeBits = 0o170000

/**
 * Returns the edited files that would be replaced. Refuses (`conflict`, target_drifted) them in the mode `refuse`. Must
 * be called after staging, before anything is renamed.
 */
export async function guardDrift(
  { mode, owned }: DriftGuard,
  { items, records }: { items: readonly Item[]; records: Records }
): Promise<ReplacedEdits> {
  const edits: ReplacedEdits = { count: 0, files: [] }
  const replaced = replacedContents(items, records)
  try {
    for await (const { path, mode: ownedMode, sha256, since } of replaced.size === 0 ? [] : readOwnedTree(owned)) {
      const index = replaced.get(path)
      const before = index === undefined ? null : records.before(index)
      if (before === null) continue
      const isSameType = (before.mode & typeBits) === (ownedMode & typeBits)
      if (isSameType && Buffer.from(before.sha256).toString('hex') === sha256) continue
      edits.count++
      if (edits.files.length < maxListed) edits.files.push({ path, since })
    }
  } catch (error) {
    // The tree is made again from the manifests; a warning is not worth a failed deployment.
    if (!(error instanceof UnusableTree) || mode === 'refuse') throw error
  }
  if (mode === 'refuse' && edits.count > 0) throw targetDrifted(edits)
  return edits
}

/** Returns the items whose earlier contents, or type, this deployment replaces. */
function replacedContents(items: readonly Item[], records: Records): Map<string, number> {
  const found = new Map<string, number>()
  for (const [index, { path }] of items.entries()) {
    if (records.outcome(index) !== 'staged') continue
    const before = records.before(index)
    if (before === null) continue
    const isSame = Buffer.compare(before.sha256, records.sha256(index)) === 0
    if (!isSame || (before.mode & typeBits) !== (records.mode(index) & typeBits)) found.set(path, index)
  }
  return found
}

function targetDrifted({ count, files }: ReplacedEdits): Refusal {
  const names = files.slice(0, maxNamed).map(({ path }) => `"${path}"`)
  const more = count > names.length ? `, and ${count - names.length} more` : ''
  const sentence =
    `Nothing was changed: ${names.join(', ')}${more} ${count === 1 ? 'was' : 'were'} edited on the server, and the ` +
    'policy "drift" of the project is "refuse". Take the edits into the build, or put the files back'
  return new Refusal('conflict', 'target_drifted', sentence)
}
