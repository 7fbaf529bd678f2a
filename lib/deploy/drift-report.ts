import { writeTree } from '../archive/tree-wire.js'
import { notFound } from '../base/errors.js'
import { createTreeDigest } from '../model/tree.js'
import type { DriftReport } from '../model/plan.js'
import { findProject } from '../store/tables/projects.js'
import type { Comparer } from './comparer.js'
import type { DeployNeeds } from './needs.js'
import type { TreeStates } from './tree-state.js'

/** What to look for in a target. */
export interface DriftRequest {
  projectId: string
  /** Whether every file is read, although size, modification time and inode are those that svc recorded. */
  isFull: boolean
  signal: AbortSignal
}

/** Maximum number of files in a report. */
const maxListed = 10_000

/**
 * Lists the files that svc put into the target of a project and that were edited or removed since. Writes nothing.
 * Refuses: 404, and what a comparison refuses.
 */
export async function reportDrift(
  { store, comparer, states }: Pick<DeployNeeds, 'store'> & { comparer: Comparer; states: Pick<TreeStates, 'drifted'> },
  { projectId, isFull, signal }: DriftRequest
): Promise<DriftReport> {
  const project = findProject(store, projectId)
  if (project === undefined) throw notFound('Project', projectId)
  const tree = Buffer.from([...writeTree([], createTreeDigest().end())].join(''))
  const { baseline, compared } = await comparer.compare(project, { tree, listed: maxListed, isFull, signal })
  const { counts, paths, checks, expected } = compared
  const failed = checks.find(({ name, ok }) => name === 'target_writable' && !ok && expected === null)
  if (baseline === 'owned' && expected !== null) await states.drifted(projectId, counts.drifted)
  return {
    success: true,
    baseline,
    partial: expected === null,
    problem: failed?.message ?? null,
    count: counts.drifted,
    files: paths.drifted.map(({ path, owned, found, mtime, size, since }) => ({
      path,
      owned,
      found,
      mtime,
      size,
      since
    }))
  }
}
