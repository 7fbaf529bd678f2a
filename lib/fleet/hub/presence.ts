/*
 * When nodes were heard of: a stream that is open proves nothing about a machine that lost its network, but every agent
 * reports within 20 seconds. The times are in memory, and written now and then.
 */
import { elapsedOf, instantOf, type Clock } from '../../base/clock.js'
import { lostAfterMs } from '../../model/fleet-wire.js'
import type { FleetNode } from '../../model/node.js'
import type { Store } from '../../store/database.js'
import { noteSeen } from '../../store/tables/fleet.js'

/** When nodes were heard of. */
export interface Presence {
  heard(nodeId: string): void
  lastSeenOf(node: FleetNode): string | null
  /** Whether a node was not heard of for too long. */
  isLost(nodeId: string): boolean
  forget(nodeId: string): void
  /** Writes the times if that is due, or if `now`. */
  write(options?: { now?: boolean }): Promise<void>
}

/** How often the times are written. */
const writeEveryMs = 5 * 60_000

/** Creates the times. Nodes that were not heard of since the start count from there. */
export function createPresence({ store, clock }: { store: Store; clock: Clock }): Presence {
  const startedMs = elapsedOf(clock)
  const seen = new Map<string, { at: string; ms: number }>()
  let unwritten = new Set<string>()
  let writtenMs = startedMs

  return {
    heard(nodeId) {
      seen.set(nodeId, { at: instantOf(clock), ms: elapsedOf(clock) })
      unwritten.add(nodeId)
    },
    lastSeenOf: ({ id, lastSeenAt }) => seen.get(id)?.at ?? lastSeenAt,
    isLost: nodeId => elapsedOf(clock) - (seen.get(nodeId)?.ms ?? startedMs) >= lostAfterMs,
    forget(nodeId) {
      seen.delete(nodeId)
      unwritten.delete(nodeId)
    },
    async write({ now = false } = {}) {
      if (unwritten.size === 0 || (!now && elapsedOf(clock) - writtenMs < writeEveryMs)) return
      writtenMs = elapsedOf(clock)
      const given = [...unwritten].flatMap(id => {
        const at = seen.get(id)?.at
        return at === undefined ? [] : [[id, at] as const]
      })
      unwritten = new Set()
      await store.write(tx => noteSeen(tx, given))
    }
  }
}
