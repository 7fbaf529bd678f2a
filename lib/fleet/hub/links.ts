/*
 * The open streams of the nodes (`GET /api/agent/desired`). A line waits here until the stream takes it: of the orders of
 * a project only the newest one, so that a slow node costs no memory.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { abortForMany } from '../../base/async.js'
import { type Clock, elapsedOf, instantOf } from '../../base/clock.js'
import type { Sink } from '../../http/core/route.js'
import { type DesiredLine, heartbeatMs, lostAfterMs } from '../../model/fleet-wire.js'
import type { FleetNode } from '../../model/node.js'
import type { Store, Transaction } from '../../core/store/database.js'
import { findNode, noteSeen, sharedNodes, updateNode } from '../../core/store/tables/fleet.js'
import { type AuditEvent, systemActor } from '../../model/audit.js'
import type { Voice } from './voice.js'

/** What happened to a line: it waits for the stream, too many wait already, or the stream has ended. */
export type Sent = 'queued' | 'full' | 'ended'

/** The open stream of a node. */
export interface NodeLink {
  readonly nodeId: string
  /** Whether its agent speaks the protocol of before. */
  readonly isOutdated: boolean
  /** Aborted when the stream ends. */
  readonly ended: AbortSignal
  /** Sends a line. Orders replace earlier ones of the same project. */
  send(line: DesiredLine): Sent
}

/** The open streams of the nodes. */
export interface NodeLinks {
  /** Returns the stream of a node; null: it is not connected. */
  find(nodeId: string): NodeLink | null
}

/** The streams, for the hub. */
export interface Links extends NodeLinks {
  /** Begins a stream. It ends an earlier one of the node. `run` writes it until it ends. */
  open(node: { nodeId: string; say: Voice; isOutdated?: boolean }): NodeLink & { run(sink: Sink): Promise<void> }
  /** Ends the stream of a node. */
  close(nodeId: string): void
  closeAll(): void
  /** The nodes that are connected. */
  connected(): IterableIterator<string>
  count(): number
  /** The number of connected nodes whose agent has an earlier protocol. */
  countOutdated(): number
  /** Sends heartbeats that are due, and ends streams that take nothing. */
  beat(): Promise<void>
}

/** Number of lines that may wait for one stream besides its orders. */
const maxWaiting = 256
/** Time in which a stream must take what was written. */
const stalledAfterMs = 60_000
/** A signature takes about 50 µs: other requests get their turn in between. */
const signedTogether = 50

/** Creates the table of streams. */
export function createLinks(clock: Clock): Links {
  const links = new Map<string, ReturnType<typeof createLink>>()

  return {
    find: nodeId => links.get(nodeId) ?? null,
    open(node) {
      links.get(node.nodeId)?.end()
      const link = createLink(clock, node)
      links.set(node.nodeId, link)
      link.ended.addEventListener('abort', () => {
        if (links.get(node.nodeId) === link) links.delete(node.nodeId)
      })
      return link
    },
    close: nodeId => links.get(nodeId)?.end(),
    closeAll() {
      for (const link of [...links.values()]) link.end()
    },
    connected: () => links.keys(),
    count: () => links.size,
    countOutdated: () => [...links.values()].filter(({ isOutdated }) => isOutdated).length,
    async beat() {
      let count = 0
      for (const link of [...links.values()]) if (link.beat() && ++count % signedTogether === 0) await nextTurn()
    }
  }
}

function createLink(clock: Clock, { nodeId, say, isOutdated = false }: Parameters<Links['open']>[0]) {
  const ending = abortForMany()
  const orders = new Map<string, DesiredLine>()
  let lines: DesiredLine[] = []
  let wake: (() => void) | null = null
  let isWriting = false
  let lastMs = elapsedOf(clock)

  function notify(): void {
    wake?.()
    wake = null
  }

  function take(): DesiredLine[] {
    const all = [...lines, ...orders.values()]
    lines = []
    orders.clear()
    return all
  }

  async function write(sink: Sink, taken: readonly DesiredLine[]): Promise<void> {
    isWriting = true
    lastMs = elapsedOf(clock)
    await sink.write(await say(taken))
    isWriting = false
    lastMs = elapsedOf(clock)
  }

  let isDue = false
  return {
    nodeId,
    isOutdated,
    ended: ending.signal,
    end() {
      ending.abort()
      notify()
    },
    send(line: DesiredLine): Sent {
      if (ending.signal.aborted) return 'ended'
      if (line.type === 'order') orders.set(line.projectId, line)
      else if (lines.length >= maxWaiting) return 'full'
      else lines.push(line)
      notify()
      return 'queued'
    },
    /** Returns whether a heartbeat is due. */
    beat(): boolean {
      const silentMs = elapsedOf(clock) - lastMs
      if (isWriting && silentMs >= stalledAfterMs) this.end()
      if (isWriting || silentMs < heartbeatMs) return false
      isDue = true
      notify()
      return true
    },
    async run(sink: Sink): Promise<void> {
      const leave = (): void => this.end()
      sink.signal.addEventListener('abort', leave)
      if (sink.signal.aborted) leave()
      try {
        sink.sendHead()
        while (!ending.signal.aborted) {
          const taken = take()
          if (isDue && taken.length === 0) taken.push({ type: 'heartbeat' })
          isDue = false
          if (taken.length === 0) await new Promise<void>(resolve => (wake = resolve))
          else await write(sink, taken)
        }
      } finally {
        sink.signal.removeEventListener('abort', leave)
        this.end()
      }
    }
  }
}

/*
 * When nodes were heard of: a stream that is open proves nothing about a machine that lost its network, but every agent
 * reports within 20 seconds. The times are in memory, and written now and then.
 */

/** When nodes were heard of. */
export type Presence = ReturnType<typeof createPresence>

/** How often the times are written. */
const writeEveryMs = 5 * 60_000

/** Creates the times. Nodes that were not heard of since the start count from there. */
export function createPresence({ store, clock }: { store: Store; clock: Clock }) {
  const startedMs = elapsedOf(clock)
  const seen = new Map<string, { at: string; ms: number }>()
  let unwritten = new Set<string>()
  let writtenMs = startedMs

  return {
    heard(nodeId: string): void {
      seen.set(nodeId, { at: instantOf(clock), ms: elapsedOf(clock) })
      unwritten.add(nodeId)
    },
    lastSeenOf: ({ id, lastSeenAt }: FleetNode): string | null => seen.get(id)?.at ?? lastSeenAt,
    /** Whether a node was not heard of for too long. */
    isLost: (nodeId: string): boolean => elapsedOf(clock) - (seen.get(nodeId)?.ms ?? startedMs) >= lostAfterMs,
    forget(nodeId: string): void {
      seen.delete(nodeId)
      unwritten.delete(nodeId)
    },

    /** Writes the times if that is due, or if `now`. */
    async write({ now = false }: { now?: boolean } = {}): Promise<void> {
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

/*
 * Two machines with the identity of one node: a machine was cloned, or a data directory copied. Each start of an agent has an
 * instance of its own, which it names when it opens its stream. An agent that starts again never uses its earlier one. So an
 * instance that comes back within a minute after another one took its place is a second machine. Agents of earlier versions
 * name no instance.
 *
 * The finding is in the store, so that another hub and a hub that starts again know it. Until it ends, the node gets no orders,
 * what it says about projects is not believed, and rollouts count it as unreachable.
 */

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
