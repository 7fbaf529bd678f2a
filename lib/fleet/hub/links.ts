/*
 * The open streams of the nodes (`GET /api/agent/desired`). A line waits here until the stream takes it: of the orders of
 * a project only the newest one, so that a slow node costs no memory.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { elapsedOf, type Clock } from '../../base/clock.js'
import type { Sink } from '../../http/core/route.js'
import { heartbeatMs, type DesiredLine } from '../../model/fleet-wire.js'
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

function createLink(
  clock: Clock,
  { nodeId, say, isOutdated = false }: { nodeId: string; say: Voice; isOutdated?: boolean }
) {
  const ending = new AbortController()
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
