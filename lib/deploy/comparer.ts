import { machineTimeOf } from '../base/clock.js'
import { Refusal } from '../base/refusal.js'
import type { Compared } from '../install/compare.js'
import type { Removes } from '../install/ownership.js'
import type { Executors } from '../install/unpack/executors.js'
import type { Baseline } from '../model/plan.js'
import type { Project } from '../model/project.js'
import { findRights, umaskOf } from '../proc/identity.js'
import type { DeployNeeds } from './needs.js'
import type { Trees } from './trees.js'

/** What to compare with a target. */
export interface Comparison {
  /** A tree (archive/tree-wire.ts). */
  tree: Uint8Array
  /** Maximum number of paths listed of each kind. */
  listed: number
  /** Which owned files would be removed; default: none. */
  removes?: Removes | null
  /** Whether those that somebody edited would be removed, too. */
  takesEdited?: boolean
  /** Whether files stay that somebody edited, removed or put there, although the tree contains them. */
  keepsEdited?: boolean
  /** Paths that the archive must not touch (install/reserved.ts); default: none. */
  reserved?: readonly string[]
  /** Whether the modes are final, so that the umask of the project does not apply; default: false. */
  isExact?: boolean
  /** Whether every file is read, although the owned tree proves that it is untouched. */
  isFull?: boolean
  signal: AbortSignal
}

/** Compares trees with targets: one comparison per project at a time, in the order of arrival. */
export interface Comparer {
  /** Starts after the comparisons before it. Refuses what install/compare.ts refuses, and (`conflict`) plan_busy when too many wait. */
  compare(project: Project, comparison: Comparison): Promise<{ baseline: Baseline; compared: Compared }>
}

/** Dependencies of `createComparer`. */
export interface ComparerNeeds extends Pick<DeployNeeds, 'home' | 'allowSystemPaths' | 'clock'> {
  executors: Executors
  trees: Pick<Trees, 'read'>
}

/** Time limit of a comparison. */
const compareMs = 60_000
/** Maximum number of comparisons of a project: one in progress, the others waiting with their trees in memory. */
const maxComparisons = 5

/** Creates the comparer. The threads start when there is work. */
export function createComparer({ home, allowSystemPaths, clock, executors, trees }: ComparerNeeds): Comparer {
  /** The comparisons of each project that has some: the number, and the end of the last one. */
  const lines = new Map<string, { count: number; end: Promise<unknown> }>()

  async function compare(
    project: Project,
    { tree, listed, removes = null, isExact = false, isFull = false, signal, ...more }: Comparison
  ) {
    const target = project.deployPath
    const rules = { home: home.directory, allowSystemPaths }
    const rights = await findRights(project)
    const known = await trees.read(project.id)
    // A thread reads the tree line by line. A process of another user may not open it.
    const owned = known.baseline !== 'owned' ? null : rights === null ? known.path : await known.contents()
    const limits = { listed, limitMs: compareMs, nowMs: machineTimeOf(clock) }
    const { takesEdited = false, keepsEdited = false, reserved = [] } = more
    const asked = { removes, takesEdited, keepsEdited, reserved, isFull }
    const job = { target, rules, tree, owned, ...asked, umask: isExact ? null : umaskOf(project), ...limits }
    const outcome = await executors.comparing(rights).run({ kind: 'compare', compare: job }, signal)
    if (outcome.kind === 'compared') return { baseline: known.baseline, compared: outcome.compared }
    signal.throwIfAborted()
    if (outcome.kind === 'failed') throw outcome.error
    throw new Error(`The comparison with "${target}" ended without an answer: ${outcome.kind}`)
  }

  return {
    async compare(project, comparison) {
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

function busy({ name }: Project): Refusal {
  const sentence = `${maxComparisons} comparisons with the target of "${name}" are in progress or waiting. Try again in a moment`
  return new Refusal('conflict', 'plan_busy', sentence, { retryAfterSeconds: 5 })
}
