/*
 * The open streams of the nodes (`GET /api/agent/desired`). A line waits here until the stream takes it: of the orders of
 * a project only the newest one, so that a slow node costs no memory.
 */
import { elapsedOf, type Clock } from '../../base/clock.js'
import type { Sink } from '../../http/core/route.js'
import { heartbeatMs, type DesiredLine } from '../../model/fleet-wire.js'

/** What happened to a line: it waits for the stream, too many wait already, or the stream has ended. */
export type Sent = 'queued' | 'full' | 'ended'

/** The open stream of a node. */
export interface NodeLink {
  readonly nodeId: string
  /** The session of the node, which signed texts contain. */
  readonly session: string
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
  open(node: { nodeId: string; session: string }): NodeLink & { run(sink: Sink): Promise<void> }
  /** Ends the stream of a node. */
  close(nodeId: string): void
  closeAll(): void
  /** The nodes that are connected. */
  connected(): IterableIterator<string>
  count(): number
  /** Sends heartbeats that are due, and ends streams that take nothing. */
  beat(): void
}

/** Number of lines that may wait for one stream besides its orders. */
const maxWaiting = 256
/** Time in which a stream must take what was written. */
const stalledAfterMs = 60_000

const heartbeat = `${JSON.stringify({ type: 'heartbeat' } satisfies DesiredLine)}\n`

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
    beat() {
      for (const link of [...links.values()]) link.beat()
    }
  }
}

function createLink(clock: Clock, { nodeId, session }: { nodeId: string; session: string }) {
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

  function take(): string {
    const all = [...lines, ...orders.values()]
    lines = []
    orders.clear()
    return all.map(line => `${JSON.stringify(line)}\n`).join('')
  }

  async function write(sink: Sink, text: string): Promise<void> {
    isWriting = true
    lastMs = elapsedOf(clock)
    await sink.write(text)
    isWriting = false
    lastMs = elapsedOf(clock)
  }

  let isDue = false
  return {
    nodeId,
    session,
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
    beat() {
      const silentMs = elapsedOf(clock) - lastMs
      if (isWriting && silentMs >= stalledAfterMs) this.end()
      if (isWriting || silentMs < heartbeatMs) return
      isDue = true
      notify()
    },
    async run(sink: Sink): Promise<void> {
      const leave = (): void => this.end()
      sink.signal.addEventListener('abort', leave)
      if (sink.signal.aborted) leave()
      try {
        sink.sendHead()
        while (!ending.signal.aborted) {
          const text = take() || (isDue ? heartbeat : '')
          isDue = false
          if (text === '') await new Promise<void>(resolve => (wake = resolve))
          else await write(sink, text)
        }
      } finally {
        sink.signal.removeEventListener('abort', leave)
        this.end()
      }
    }
  }
}
