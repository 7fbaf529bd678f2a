/*
 * Two machines with the identity of one node: a machine was cloned, or a data directory copied. Each start of an agent has an
 * instance of its own, which it names when it opens its stream. An agent that starts again never uses its earlier one. So an
 * instance that comes back within a minute after another one took its place is a second machine. Agents of earlier versions
 * name no instance.
 *
 * The finding is in the store, so that another hub and a hub that starts again know it. Until it ends, the node gets no orders,
 * what it says about projects is not believed, and rollouts count it as unreachable.
 */
import { elapsedOf, instantOf, type Clock } from '../../base/clock.js'
import { systemActor, type AuditEvent } from '../../model/audit.js'
import type { Store, Transaction } from '../../store/database.js'
import { findNode, sharedNodes, updateNode } from '../../store/tables/fleet.js'

/** Dependencies of `createTwins`. */
export interface TwinsNeeds {
  store: Store
  clock: Clock
  audit: { within(tx: Transaction, event: AuditEvent): void }
  isConnected(nodeId: string): boolean
  /** Called when orders may be sent again: after a finding has ended, the node must also say again what it has. */
  free(nodeId: string, why: 'single' | 'unsuspected'): void
}

/** Which nodes are two machines. */
export type Twins = ReturnType<typeof createTwins>

/** Why a node that is two machines has not answered. */
export const sharedError = 'Two machines use the identity of this node, so it gets no orders. Stop one of them'

/** A finding ends when one instance was connected alone for this long. An agent connects again after 30 s at most. */
const aloneMs = 3 * 60_000
/** An instance that took the place of one that was connected gets orders after this time: a second machine comes back earlier. */
const suspectMs = 15_000
/** Number of earlier instances of a node that are remembered. */
const keptInstances = 16

/** Creates the search for nodes that are two machines. */
export function createTwins({ store, clock, audit, isConnected, free }: TwinsNeeds) {
  /** The instances of each node, the newest last. */
  const instances = new Map<string, string[]>()
  /** When the nodes that are two machines changed their instance last, or were not connected. */
  const turns = new Map<string, number>()
  const suspects = new Map<string, number>()

  const isShared = (nodeId: string): boolean => (findNode(store, nodeId)?.sharedSince ?? null) !== null

  function note(tx: Transaction, nodeId: string, sharedSince: string | null): void {
    const node = findNode(tx, nodeId)
    if (node === undefined || (node.sharedSince === null) === (sharedSince === null)) return
    updateNode(tx, nodeId, { sharedSince })
    const action = sharedSince === null ? 'node.single' : 'node.shared'
    audit.within(tx, { action, actor: systemActor, target: nodeId, detail: node.name })
  }

  return {
    isShared,
    /** Whether a node gets no orders now. */
    isHeld: (nodeId: string): boolean => suspects.has(nodeId) || isShared(nodeId),

    /**
     * Takes note that an instance of a node opens its stream. `wasHeard`: the node was heard of within the last minute. A finding
     * is on the disk before any write that begins later.
     */
    async opened(nodeId: string, instance: string, wasHeard: boolean): Promise<void> {
      const known = instances.get(nodeId) ?? []
      if (known.at(-1) === instance) return
      const isBack = known.includes(instance)
      instances.set(nodeId, [...known.filter(each => each !== instance), instance].slice(-keptInstances))
      if (turns.has(nodeId)) turns.set(nodeId, elapsedOf(clock))
      if (isBack && wasHeard) {
        suspects.delete(nodeId)
        turns.set(nodeId, elapsedOf(clock))
        await store.write(tx => note(tx, nodeId, instantOf(clock)))
      } else if (known.length > 0 && isConnected(nodeId)) suspects.set(nodeId, elapsedOf(clock))
    },

    /** Ends findings and suspicions whose time has passed. */
    async tick(): Promise<void> {
      const now = elapsedOf(clock)
      for (const [nodeId, since] of suspects) {
        if (now - since < suspectMs) continue
        suspects.delete(nodeId)
        free(nodeId, 'unsuspected')
      }
      for (const nodeId of sharedNodes(store)) {
        const since = isConnected(nodeId) ? (turns.get(nodeId) ?? now) : now
        turns.set(nodeId, since)
        if (now - since < aloneMs) continue
        turns.delete(nodeId)
        await store.write(tx => note(tx, nodeId, null))
        free(nodeId, 'single')
      }
    },

    forget(nodeId: string): void {
      for (const each of [instances, turns, suspects]) each.delete(nodeId)
    }
  }
}
