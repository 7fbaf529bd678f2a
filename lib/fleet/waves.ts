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
  const rank = ({ labels }: Sortable): string => (key !== null && Object.hasOwn(labels, key) ? (labels[key] ?? '') : '')
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

/**
 * The nodes of a rollout that are prepared and whose wave has begun, in the order of the rollout. Finding the first of them
 * does not look at all nodes: no node before the one that was found last waits, unless it was moved since.
 */
export class Waiting {
  #wave: number
  readonly #line: Array<RolloutNode | null> = []
  readonly #places = new Map<string, number>()
  #size = 0
  /** No node before this place waits. */
  #start = 0

  /** `wave` is the wave that is going on. */
  constructor(nodes: Iterable<RolloutNode>, wave: number) {
    this.#wave = wave
    for (const node of nodes) this.join(node)
  }

  /** Number of nodes that wait. */
  get size(): number {
    return this.#size
  }

  /** Puts a node at the end of the order. */
  join(node: RolloutNode): void {
    this.#places.set(node.nodeId, this.#line.length)
    this.#line.push(node)
    if (this.#isWaiting(node)) this.#size++
  }

  /** Removes a node from the order. */
  leave(node: RolloutNode): void {
    if (this.#isWaiting(node)) this.#size--
    this.#line[this.#places.get(node.nodeId) as number] = null
    this.#places.delete(node.nodeId)
  }

  /** Moves a node to another phase. */
  move(node: RolloutNode, phase: RolloutNode['phase']): void {
    if (this.#isWaiting(node)) this.#size--
    node.phase = phase
    if (!this.#isWaiting(node)) return
    this.#size++
    this.#start = Math.min(this.#start, this.#places.get(node.nodeId) as number)
  }

  /** Begins a wave. */
  begin(wave: number): void {
    this.#wave = wave
    this.#start = 0
    this.#size = 0
    for (const node of this.#line) if (node !== null && this.#isWaiting(node)) this.#size++
  }

  /** Returns the first nodes that wait, at most `count` of them. */
  first(count: number): RolloutNode[] {
    const found: RolloutNode[] = []
    const wanted = Math.min(count, this.#size)
    for (let at = this.#start; found.length < wanted; at++) {
      const node = this.#line[at] as RolloutNode | null
      if (node === null || !this.#isWaiting(node)) continue
      if (found.length === 0) this.#start = at
      found.push(node)
    }
    return found
  }

  #isWaiting({ phase, wave }: RolloutNode): boolean {
    return phase === 'prepared' && wave <= this.#wave
  }
}
