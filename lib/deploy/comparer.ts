import { machineTimeOf } from '../base/clock.js'
import { createGate } from '../base/async.js'
import { Refusal } from '../base/errors.js'
import type { Compared, CompareJob } from '../core/install/compare.js'
import type { ModePolicy } from '../core/install/guard.js'
import { type Ownership, type Removes, takesUnowned } from '../core/install/ownership.js'
import { failed, passed } from '../core/install/findings.js'
import type { Executors } from '../core/install/unpack/executors.js'
import type { Baseline, DriftReport, PlanCheck } from '../model/plan.js'
import type { Project } from '../model/project.js'
import { findRights, umaskOf } from '../core/proc/identity.js'
import { writeTree } from '../core/archive/tree-wire.js'
import { createTreeDigest } from '../model/manifest.js'
import { requireProject } from '../core/store/tables/projects.js'
import { modesOf, permissionsOf } from './files.js'
import { longWaitMs, notReady } from './ownership.js'
import type { DeployNeeds } from './needs.js'
import type { Trees, TreeStates } from './trees.js'

/** What to compare with a target. */
export interface Comparison {
  /** A tree (core/archive/tree-wire.ts), or where to read it when its turn has come. */
  tree: Uint8Array | { readonly bytes: number; read(): Promise<Uint8Array> }
  /** Maximum number of paths listed of each kind. */
  listed: number
  /** Which owned files would be removed; default: none. */
  removes?: Removes | null
  /** What happens to files that somebody edited; default: `ignore`. */
  edited?: Ownership['edited']
  /** The deployments whose archives are kept, and the limit of what is kept otherwise; default: all fits. */
  keeps?: Pick<Ownership, 'archives' | 'before'>
  /** Paths that the archive must not touch (core/install/guard.ts); default: none. */
  reserved?: readonly string[]
  /** Whether the modes are final, so that the umask and the policy of the project do not apply; default: false. */
  isExact?: boolean
  /** As of a `CompareJob`. */
  groups?: CompareJob['groups']
  /** Whether every file is read, although the owned tree proves that it is untouched. */
  isFull?: boolean
  signal: AbortSignal
}

/** Compares trees with targets: one comparison per project at a time, in the order of arrival. */
export type Comparer = ReturnType<typeof createComparer>

export interface ComparerNeeds extends Pick<DeployNeeds, 'home' | 'allowSystemPaths' | 'clock'> {
  executors: Executors
  trees: Pick<Trees, 'read'>
  /** Time after which a comparison is slow; default: 10 s. */
  slowMs?: number
}

/** After a slow comparison, those of its project share one place for this long: a thread is left for the others. */
const rememberedMs = 3_600_000

/** Time limit of a comparison. */
const compareMs = 60_000
/** Maximum number of comparisons of a project: one in progress, the others waiting. */
const maxComparisons = 5
/** Number of large trees that are in memory at a time: one for each thread. */
const largeTrees = 2
/** A tree above this size waits until it may be in memory. */
const largeTreeBytes = 1024 * 1024

/** Creates the comparer. The threads start when there is work. */
export function createComparer({ home, allowSystemPaths, clock, executors, trees, slowMs = 10_000 }: ComparerNeeds) {
  /** The comparisons of each project that has some: the number, and the end of the last one. */
  const lines = new Map<string, { count: number; end: Promise<unknown> }>()
  const large = createGate({ places: largeTrees })
  /** The time up to which the comparisons of a project share a place. */
  const slow = new Map<string, number>()
  const slowGate = createGate({ places: 1 })

  async function compare(project: Project, comparison: Comparison) {
    const isSlow = (slow.get(project.id) ?? 0) > performance.now()
    const leave = isSlow ? await slowGate.enter(comparison.signal) : () => {}
    const startedMs = performance.now()
    try {
      return await compareNow(project, comparison)
    } finally {
      const endedMs = performance.now()
      if (endedMs - startedMs >= slowMs) slow.set(project.id, endedMs + rememberedMs)
      leave()
    }
  }

  async function compareNow(project: Project, comparison: Comparison) {
    const { tree, signal } = comparison
    if ('byteLength' in tree) return await compareTree(project, comparison, tree)
    const leave = tree.bytes > largeTreeBytes ? await large.enter(signal) : () => {}
    try {
      return await compareTree(project, comparison, await tree.read())
    } finally {
      leave()
    }
  }

  async function compareTree(
    project: Project,
    { listed, removes = null, isExact = false, isFull = false, signal, ...more }: Comparison,
    tree: Uint8Array
  ) {
    const target = project.deployPath
    const rules = { home: home.directory, allowSystemPaths }
    const rights = await findRights(project)
    const isNeeded = takesUnowned(removes)
    const known = await trees.read(project.id, isNeeded ? longWaitMs : undefined)
    if (isNeeded && known.baseline === 'building') throw notReady()
    // A thread reads the tree line by line. A process of another user may not open it.
    const owned = known.baseline !== 'owned' ? null : rights === null ? known.path : await known.contents()
    const limits = { listed, limitMs: compareMs, nowMs: machineTimeOf(clock) }
    const { reserved = [], edited = 'ignore', keeps, groups = [] } = more
    const isUnknown = known.baseline === 'building'
    const asked = { removes, reserved, isFull, edited, isUnknown, ...(keeps && { keeps }) }
    const { modes, check } = await modesToCompare(project)
    const given = isExact ? { umask: null, groups } : { umask: umaskOf(project), modes }
    const job = { target, rules, tree, owned, ...asked, ...given, ...limits }
    const outcome = await executors.comparing(rights).run({ kind: 'compare', compare: job }, signal)
    if (outcome.kind === 'compared') {
      const { compared } = outcome
      const checks = isExact ? compared.checks : [...compared.checks, check]
      return { baseline: known.baseline, compared: { ...compared, checks } }
    }
    signal.throwIfAborted()
    if (outcome.kind === 'failed') throw outcome.error
    throw new Error(`The comparison with "${target}" ended without an answer: ${outcome.kind}`)
  }

  return {
    /** Starts after the comparisons before it. Refuses what core/install/compare.ts refuses, and (`conflict`) plan_busy when too many wait. */
    async compare(project: Project, comparison: Comparison): Promise<{ baseline: Baseline; compared: Compared }> {
      const line = lines.get(project.id) ?? { count: 0, end: Promise.resolve() }
      if (line.count === maxComparisons) throw busy(project)
      lines.set(project.id, line)
      line.count++
      const result = line.end.then(() => {
        comparison.signal.throwIfAborted()
        return compare(project, comparison)
      })
      line.end = result.catch(() => undefined)
      try {
        return await result
      } finally {
        if (--line.count === 0) lines.delete(project.id)
      }
    }
  }
}

/** Returns the permissions and the group of a deployment, and the check of the group. */
async function modesToCompare(project: Project): Promise<{ modes: ModePolicy; check: PlanCheck }> {
  try {
    return { modes: await modesOf(project), check: passed('group') }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return { modes: permissionsOf(project), check: failed('group', error.code, error.message) }
  }
}

function busy({ name }: Project): Refusal {
  const sentence = `${maxComparisons} comparisons with the target of "${name}" are in progress or waiting. Try again in a moment`
  return new Refusal('conflict', 'plan_busy', sentence, { retryAfterSeconds: 5 })
}

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
  const project = requireProject(store, projectId)
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
