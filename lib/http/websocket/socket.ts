/*
 * One WebSocket of a server: RFC 6455 §5.5 (control frames), §7 (closing). The frames are receiver.ts and sender.ts.
 *
 * STATES     open      frames go both ways
 *            closing   our close frame is sent: nothing more is, and of what comes only a close frame counts
 *            closed    there is no connection any more
 *
 * THE END has one outcome, and the first reason wins: the peer's close frame, ours, a connection that broke without
 * one, or a peer that broke the rules. It is known before the connection is gone: `closed` tells it at once. Then the
 * server ends the connection (§7.1.1), reads on until the peer has ended it too (a reset would overtake the close
 * frame), and breaks it off after `closeMs`.
 *
 * KEEP-ALIVE   a ping every `pingEveryMs`; a peer from which nothing at all has come since the last one is gone: a
 * cable that was pulled says nothing.
 *
 * BACKPRESSURE   `send` resolves when more may be sent. Messages wait in a queue until somebody takes them; while it is
 * long, nothing is read from the socket.
 */
import type { Duplex } from 'node:stream'
import { closeCodes, FrameError } from './frame.js'
import { createReceiver, defaultReceiverLimits } from './receiver.js'
import type { Message, ReceiverLimits } from './receiver.js'
import { createSender } from './sender.js'

export interface WebSocketLimits extends ReceiverLimits {
  /** Between two pings, and how long a peer may be silent. */
  pingEveryMs: number
  /** From our close frame, or the answer to the peer's, to the end of the connection. */
  closeMs: number
}

export const defaultWebSocketLimits: WebSocketLimits = { ...defaultReceiverLimits, pingEveryMs: 30_000, closeMs: 2_000 }

/** How it ended. */
export type Closed =
  /** The peer sent a close frame; 1005: without a code. */
  | { how: 'peer'; code: number; reason: string }
  | { how: 'ours'; code: number; reason: string }
  /** No close frame came: the connection is gone, or the peer has not answered a ping. */
  | { how: 'broken'; reason: 'gone' | 'silent' }
  /** The peer sent what it must not. */
  | { how: 'failed'; code: number; error: FrameError }

/** A WebSocket as a route sees it. */
export interface WebSocketConnection {
  /** The subprotocol that was agreed on; empty: none. */
  readonly protocol: string
  /** Written at once while it is open, else dropped. Resolves when more may be sent, or nothing more can be. */
  send(message: string | Uint8Array): Promise<void>
  /** What the peer sends, to the end of the connection; those that came before a close frame come before the end. */
  messages(): AsyncIterable<Message>
  /** Sends a close frame; only the first one counts. `reason` is cut to what fits (123 bytes). */
  close(code: number, reason?: string): void
  /** Resolves as soon as it is known. */
  readonly closed: Promise<Closed>
}

export interface WebSocketOptions {
  socket: Duplex
  /** What came with the request, behind its head. */
  head: Buffer
  protocol: string
  /** Aborted: closed with 1001. */
  signal: AbortSignal
  limits: WebSocketLimits
}

/** Messages that wait before the socket is paused; what one read holds may be more. */
const maxQueued = 16

/** See the head of this file. `gone` resolves when the connection is no more. */
export function createWebSocket(options: WebSocketOptions): { connection: WebSocketConnection; gone: Promise<void> } {
  const { socket, protocol, signal, limits } = options
  let state: 'open' | 'closing' | 'closed' = 'open'
  let isHeard = true
  let isFailed = false
  let deadline: NodeJS.Timeout | undefined

  let settle!: (outcome: Closed) => void
  const closed = new Promise<Closed>(resolve => (settle = resolve))
  const queue = createQueue(socket)
  const sender = createSender(socket)
  const receiver = createReceiver({
    message: message => void (state === 'open' && queue.add(message)),
    ping: payload => void (state === 'open' && sender.pong(payload)),
    pong: () => {},
    close(code, reason) {
      end({ how: 'peer', code, reason })
      socket.end()
    }
  }, limits)

  /** The first outcome counts: it is told, a close frame says it where there is one to be sent, and time begins to run. */
  function end(outcome: Closed): void {
    if (state !== 'open') return
    state = 'closing'
    settle(outcome)
    queue.end()
    if (outcome.how === 'broken') return void socket.destroy()
    sender.close(outcome.code, outcome.how === 'ours' ? outcome.reason : '')
    deadline = setTimeout(() => socket.destroy(), limits.closeMs)
    socket.resume()
  }

  function read(chunk: Buffer): void {
    isHeard = true
    if (isFailed) return
    try {
      receiver.push(chunk)
    } catch (error) {
      if (!(error instanceof FrameError)) throw error
      isFailed = true
      end({ how: 'failed', code: error.closeCode, error })
      socket.end()
    }
  }

  const keepAlive = setInterval(() => {
    if (socket.isPaused()) return
    if (isHeard) {
      isHeard = false
      if (state === 'open') sender.ping()
      return
    }
    // A timer that is late comes before what has arrived meanwhile; this comes after it.
    setImmediate(() => {
      if (!isHeard) end({ how: 'broken', reason: 'silent' })
    })
  }, limits.pingEveryMs)

  const stop = (): void => {
    // The same signal says that the connection is gone.
    if (!socket.destroyed) end({ how: 'ours', code: closeCodes.goingAway, reason: 'The server is shutting down' })
  }
  const gone = new Promise<void>(resolve => {
    socket.once('close', () => {
      end({ how: 'broken', reason: 'gone' })
      state = 'closed'
      clearInterval(keepAlive)
      clearTimeout(deadline)
      signal.removeEventListener('abort', stop)
      resolve()
    })
  })
  // Its going is what counts, and `close` tells that.
  socket.on('error', () => {})
  socket.on('end', () => {
    end({ how: 'broken', reason: 'gone' })
    socket.end()
  })
  signal.addEventListener('abort', stop)
  if (options.head.length > 0) read(options.head)
  socket.on('data', read)
  if (signal.aborted) stop()

  const connection: WebSocketConnection = {
    protocol,
    closed,
    send: async message => void (state === 'open' && (await sender.message(message))),
    messages: queue.messages,
    close: (code, reason = '') => end({ how: 'ours', code, reason })
  }
  return { connection, gone }
}

/** Messages between the socket, which is paused while many wait, and whoever takes them. */
function createQueue(socket: Duplex): { add(message: Message): void; end(): void; messages(): AsyncIterable<Message> } {
  let waiting: Message[] = []
  let isEnded = false
  let wake = (): void => {}

  async function* messages(): AsyncGenerator<Message> {
    while (true) {
      const batch = waiting
      waiting = []
      yield* batch
      if (waiting.length > 0) continue
      if (isEnded) return
      if (socket.isPaused()) socket.resume()
      await new Promise<void>(resolve => (wake = resolve))
    }
  }

  return {
    messages,
    add(message) {
      waiting.push(message)
      if (waiting.length > maxQueued) socket.pause()
      wake()
    },
    end() {
      isEnded = true
      wake()
    }
  }
}
