import { pause } from '../../base/pause.js'
import { isGoing, type NodePhase, type RolloutDetail, type RolloutEvent } from '../../model/rollout.js'
import { mayRepeat } from '../client/streams.js'
import type { FleetApi } from '../client/fleet-api.js'
import type { RolloutView } from './rollout-views.js'

const maxBrokenInRow = 12
const longestPauseMs = 5000

/** What to follow. */
export interface Following {
  fleet: Pick<FleetApi, 'follow'>
  rolloutId: string
  view: RolloutView
  /** Stops following before the end, when it is true. */
  until?: (rollout: RolloutDetail) => boolean
  signal: AbortSignal
}

/**
 * Follows a rollout until it is done, halted or reverted, and returns its last state. Reconnects after a lost
 * connection: the stream begins with the whole rollout, so nothing is missed. Throws the reason of the signal.
 */
export async function followRollout({ fleet, rolloutId, view, until, signal }: Following): Promise<RolloutDetail> {
  let rollout: RolloutDetail | null = null
  try {
    for (let brokenInRow = 0; ; brokenInRow++) {
      try {
        for await (const event of fleet.follow(rolloutId, signal)) {
          brokenInRow = 0
          rollout = afterEvent(rollout, event)
          if (rollout === null) continue
          view.show(rollout)
          if (event.type === 'end' || !isGoing(rollout.state) || until?.(rollout) === true) return rollout
        }
      } catch (error) {
        if (signal.aborted) throw signal.reason
        if (!mayRepeat(error) || brokenInRow >= maxBrokenInRow) throw error
        await pause(Math.min(longestPauseMs, 250 * 2 ** brokenInRow), signal)
      }
    }
  } finally {
    view.end()
  }
}

/** Returns a rollout after an event. The first line of a stream is the whole rollout; others before it say nothing. */
export function afterEvent(rollout: RolloutDetail | null, event: RolloutEvent): RolloutDetail | null {
  if (event.type === 'rollout') return event.rollout
  if (rollout === null) return null
  if (event.type === 'node') {
    const { node } = event
    const isNew = rollout.nodes.every(({ nodeId }) => nodeId !== node.nodeId)
    const nodes = isNew
      ? [...rollout.nodes, node]
      : rollout.nodes.map(each => (each.nodeId === node.nodeId ? node : each))
    return { ...rollout, nodes, nodeCount: nodes.length, counts: countsOf(nodes) }
  }
  return { ...rollout, ...event.rollout }
}

function countsOf(nodes: RolloutDetail['nodes']): Partial<Record<NodePhase, number>> {
  const counts: Partial<Record<NodePhase, number>> = {}
  for (const { phase } of nodes) counts[phase] = (counts[phase] ?? 0) + 1
  return counts
}
