/*
 * Followers of rollouts. A follower that is slow gets each changed node once, in its newest state, so that it costs no
 * more memory than the rollout has nodes.
 */
import type { RolloutFilter } from '../../store/tables/rollouts.js'
import {
  type RolloutEvent,
  isGoing,
  type ListedRollout,
  type ListedRolloutNode,
  type RolloutDetail
} from '../../model/rollout.js'

/** Tells followers what has changed. */
export interface RolloutEvents {
  /** Takes note of a change of a rollout, and of the nodes that changed. */
  changed(rolloutId: string, nodeIds: readonly string[]): void
  /**
   * Yields the rollout, then what changes, until it is halted, reverted or done. An abort throws the signal's reason.
   */
  follow(rolloutId: string, signal: AbortSignal): AsyncGenerator<RolloutEvent>
  /** Number of followers. */
  count(): number
}

/** Reads rollouts for the followers. */
export interface RolloutReader {
  detail(rolloutId: string): RolloutDetail
  listed(rolloutId: string): ListedRollout
  /** Returns a node; undefined: it was forgotten. */
  node(rolloutId: string, nodeId: string): ListedRolloutNode | undefined
  list(query: RolloutFilter): ListedRollout[]
}

interface Follower {
  nodeIds: Set<string>
  isChanged: boolean
  wake(): void
}

/** Creates the events. */
export function createRolloutEvents(reader: RolloutReader): RolloutEvents {
  const byRollout = new Map<string, Set<Follower>>()

  async function* follow(rolloutId: string, signal: AbortSignal): AsyncGenerator<RolloutEvent> {
    signal.throwIfAborted()
    const follower: Follower = { nodeIds: new Set(), isChanged: false, wake() {} }
    const followers = byRollout.get(rolloutId) ?? new Set()
    byRollout.set(rolloutId, followers.add(follower))
    const stop = (): void => follower.wake()
    signal.addEventListener('abort', stop)
    try {
      const known = new Map<string, string>()
      let rollout: ListedRollout = reader.detail(rolloutId)
      for (const node of (rollout as RolloutDetail).nodes) known.set(node.nodeId, stateOf(node))
      yield { type: 'rollout', rollout: rollout as RolloutDetail }
      while (isGoing(rollout.state)) {
        if (!follower.isChanged) await new Promise<void>(resolve => (follower.wake = resolve))
        signal.throwIfAborted()
        const { nodeIds } = follower
        follower.nodeIds = new Set()
        follower.isChanged = false
        const before = rollout
        rollout = reader.listed(rolloutId)
        // The store may be ahead of what was told: with a new state, all nodes are compared.
        const isTurn = rollout.state !== before.state || rollout.wave !== before.wave
        const nodes = isTurn
          ? reader.detail(rolloutId).nodes
          : [...nodeIds].flatMap(id => reader.node(rolloutId, id) ?? [])
        for (const node of nodes) {
          if (known.get(node.nodeId) === stateOf(node)) continue
          known.set(node.nodeId, stateOf(node))
          yield { type: 'node', node }
          signal.throwIfAborted()
        }
        if (JSON.stringify(rollout) !== JSON.stringify(before)) yield { type: 'state', rollout }
      }
      yield { type: 'end', rollout }
    } finally {
      signal.removeEventListener('abort', stop)
      followers.delete(follower)
      if (followers.size === 0) byRollout.delete(rolloutId)
    }
  }

  function stateOf({ phase, attempt, hasBegun, error, tookMs, updatedAt }: ListedRolloutNode): string {
    return `${phase} ${attempt} ${hasBegun} ${tookMs} ${updatedAt} ${error}`
  }

  return {
    changed(rolloutId, nodeIds) {
      for (const follower of byRollout.get(rolloutId) ?? []) {
        for (const nodeId of nodeIds) follower.nodeIds.add(nodeId)
        follower.isChanged = true
        follower.wake()
      }
    },
    follow,
    count: () => [...byRollout.values()].reduce((sum, { size }) => sum + size, 0)
  }
}
