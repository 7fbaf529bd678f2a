/*
 * One WebSocket of a server: RFC 6455 §5.5 (control frames), §7 (closing). receiver.ts and sender.ts handle the
 * frames.
 *
 * STATES     open      frames are sent and received
 *            closing   our close frame is sent: nothing more is sent, and only a close frame is still handled
 *            closed    the connection is closed
 *
 * THE END has one outcome, the first of these: the peer's close frame, our close frame, a connection that broke
 * without one, or a violation by the peer. It is known before the connection is closed: `closed` resolves at once.
 * Then the server ends the connection (§7.1.1), reads until the peer has ended it too (a reset would overtake the
 * close frame), and destroys it after `closeMs`.
 *
 * KEEP-ALIVE   a ping every `pingEveryMs`. A peer that has sent nothing at all since the last ping is gone: a pulled
 * cable sends no notice.
 *
 * BACKPRESSURE   `send` resolves when more may be sent. Received messages are queued. While the queue is long, nothing
 * is read from the socket.
 */
import type { Duplex } from 'node:stream'
import { closeCodes, FrameError } from './frame.js'
import { Receiver, defaultReceiverLimits, type Message, type ReceiverLimits } from './receiver.js'
import { createSender } from './sender.js'

/** Limits of a WebSocket. */
export interface WebSocketLimits extends ReceiverLimits {
  /** Interval of pings, and the maximum silence of a peer. */
  pingEveryMs: number
  /** Maximum time from our close frame, or our answer to the peer's, to the end of the connection. */
  closeMs: number
}

/** Default limits of a WebSocket. */
export const defaultWebSocketLimits: WebSocketLimits = { ...defaultReceiverLimits, pingEveryMs: 30_000, closeMs: 2_000 }

/** How a WebSocket ended. */
export type Closed =
  /** The peer sent a close frame. Code 1005: it had no code. */
  | { how: 'peer'; code: number; reason: string }
  | { how: 'ours'; code: number; reason: string }
  /** There was no close frame: the connection is gone, or the peer has not answered a ping. */
  | { how: 'broken'; reason: 'gone' | 'silent' }
  /** The peer violated the protocol. */
  | { how: 'failed'; code: number; error: FrameError }

/** A WebSocket as a route sees it. */
export interface WebSocketConnection {
  /** The agreed subprotocol, or an empty text. */
  readonly protocol: string
  /**
   * Sends a message if the connection is open; otherwise drops it. Resolves when more may be sent, or when nothing can
   * be.
   */
  send(message: string | Uint8Array): Promise<void>
  /**
   * Returns the messages of the peer until the connection ends. Messages before a close frame are delivered before the
   * end.
   */
  messages(): AsyncIterable<Message>
  /** Sends a close frame; only the first call has an effect. `reason` is cut to 123 bytes. */
  close(code: number, reason?: string): void
  /** Resolves as soon as the end is known. */
  readonly closed: Promise<Closed>
}

/** What a WebSocket is created from. */
export interface WebSocketOptions {
  socket: Duplex
  /** The bytes that followed the head of the request. */
  head: Buffer
  protocol: string
  /** When aborted, the connection is closed with 1001. */
  signal: AbortSignal
  limits: WebSocketLimits
}

/** Number of queued messages at which the socket is paused. One read may contain more. */
const maxQueued = 16

/** Creates a WebSocket; see the head of this file. `gone` resolves when the connection is closed. */
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
  const receiver = new Receiver(
    {
      message: message => void (state === 'open' && queue.add(message)),
      ping: payload => void (state === 'open' && sender.pong(payload)),
      pong: () => {},
      close(code, reason) {
        end({ how: 'peer', code, reason })
        socket.end()
      }
    },
    limits
  )

  /** Sets the first outcome, sends a close frame if one is due, and starts the time limit. */
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
    // If the timer is late, data may have arrived meanwhile. This runs after that data was read.
    setImmediate(() => {
      if (!isHeard) end({ how: 'broken', reason: 'silent' })
    })
  }, limits.pingEveryMs)

  const stop = (): void => {
    // The same signal is aborted when the connection is gone.
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
  // `close` handles the end of the connection.
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

/** Creates the queue of received messages. The socket is paused while the queue is long. */
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
