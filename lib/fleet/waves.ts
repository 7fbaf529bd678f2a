import type { RolloutNode, RolloutPolicy } from '../model/rollout.js'
import type { FleetNode } from '../model/node.js'

type Sortable = Pick<FleetNode, 'id' | 'name' | 'labels' | 'isDrained'>

/** Returns a number of nodes, given as a number or as a percentage of all (rounded up). The text has been checked. */
export function nodeCount(text: string, all: number): number {
  return text.endsWith('%') ? Math.ceil((Number(text.slice(0, -1)) / 100) * all) : Number(text)
}

/** Returns the size of a further wave. */
export function waveSize({ then }: Pick<RolloutPolicy, 'then'>, all: number): number {
  return Math.max(1, nodeCount(then, all))
}

/** Puts nodes into waves, sorted by the label of the policy, then by name. Drained nodes are skipped. */
export function planWaves(nodes: readonly Sortable[], policy: RolloutPolicy): { waves: number; nodes: RolloutNode[] } {
  const key = policy.order
  const rank = ({ labels }: Sortable): string => (key === null ? '' : (labels[key] ?? ''))
  const sorted = [...nodes].sort((a, b) => compare(rank(a), rank(b)) || compare(a.name, b.name))
  const taking = sorted.filter(({ isDrained }) => !isDrained)
  const first = Math.max(1, policy.canary)
  const further = waveSize(policy, taking.length)
  const waveOf = (at: number): number => (at < first ? 1 : 2 + Math.floor((at - first) / further))
  const waves = taking.length === 0 ? 1 : waveOf(taking.length - 1)
  let at = 0
  return {
    waves,
    nodes: sorted.map(({ id, isDrained }) => ({
      nodeId: id,
      wave: isDrained ? waves : waveOf(at++),
      phase: isDrained ? 'skipped' : 'pending',
      attempt: 0,
      swapAttempt: 0,
      hasBegun: false,
      error: null,
      updatedAt: ''
    }))
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
