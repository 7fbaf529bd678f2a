/*
 * One WebSocket of a server: RFC 6455 §5.5 (control frames), §7 (closing). receiver.ts reads the
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
import { performance } from 'node:perf_hooks'
import type { Duplex } from 'node:stream'
import { Refusal } from '../../base/errors.js'
import type { Reply, UpgradeRequest } from '../core/route.js'
import {
  closeCodes,
  defaultReceiverLimits,
  FrameError,
  maxControlBytes,
  type Message,
  opcodes,
  Receiver,
  type ReceiverLimits
} from './receiver.js'
import { shakeHands } from './handshake.js'

export interface WebSocketLimits extends ReceiverLimits {
  /** Interval of pings, and the maximum silence of a peer. */
  pingEveryMs: number
  /** Maximum time from our close frame, or our answer to the peer's, to the end of the connection. */
  closeMs: number
}

const defaultWebSocketLimits: WebSocketLimits = { ...defaultReceiverLimits, pingEveryMs: 30_000, closeMs: 2_000 }

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

interface WebSocketOptions {
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
function createWebSocket(options: WebSocketOptions): { connection: WebSocketConnection; gone: Promise<void> } {
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

/** Creates a sender that writes to `socket` and never ends it. */
export function createSender(socket: Duplex) {
  let draining: Promise<void> | undefined
  let duePong: Uint8Array | undefined

  function frame(opcode: number, payload: Uint8Array): boolean {
    if (!socket.writable) return true
    const head = frameHead(opcode, payload.length)
    if (payload.length === 0) return socket.write(head)
    // Two writes would cost one more system call, and joining costs a copy. Node writes corked data together.
    socket.cork()
    socket.write(head)
    const isOpen = socket.write(payload)
    socket.uncork()
    return isOpen
  }

  function drained(): Promise<void> {
    draining ??= new Promise(resolve => {
      const settle = (): void => {
        draining = undefined
        socket.off('drain', settle).off('close', settle)
        const payload = duePong
        duePong = undefined
        if (payload !== undefined) pong(payload)
        resolve()
      }
      socket.on('drain', settle).on('close', settle)
    })
    return draining
  }

  function pong(payload: Uint8Array): void {
    if (draining !== undefined) duePong = payload
    else if (!frame(opcodes.pong, payload)) void drained()
  }

  return {
    /**
     * Answers a ping. While the peer does not read, only its latest ping is answered (§5.5.3 allows that), so a flood of
     * pings costs nothing.
     */
    pong,

    /**
     * Sends a message, as text if it is a string. Resolves when more may be written (backpressure) or the socket is gone.
     */
    async message(content: string | Uint8Array): Promise<void> {
      const isText = typeof content === 'string'
      const isOpen = frame(isText ? opcodes.text : opcodes.binary, isText ? Buffer.from(content) : content)
      if (!isOpen && !socket.destroyed) await drained()
    },
    ping: (): void => void frame(opcodes.ping, Buffer.alloc(0)),
    /** Sends a close frame. With 1005 it has no code, as the answer to a close frame without one. */
    close: (code: number, reason: string): void => void frame(opcodes.close, closePayload(code, reason))
  }
}

/** Returns FIN, the opcode, and the length in as few bytes as possible (§5.2). */
function frameHead(opcode: number, length: number): Buffer {
  const first = 0x80 | opcode
  if (length <= maxControlBytes) return Buffer.of(first, length)
  if (length < 2 ** 16) return Buffer.of(first, 126, length >> 8, length & 0xff)
  const head = Buffer.alloc(10)
  head[0] = first
  head[1] = 127
  head.writeUIntBE(length, 4, 6)
  return head
}

const noCode = 1005

/** Returns the payload of a close frame (§5.5.1). A reason that is too long is cut between characters. */
function closePayload(code: number, reason: string): Buffer {
  if (code === noCode) return Buffer.alloc(0)
  const text = Buffer.from(reason)
  let end = Math.min(text.length, maxControlBytes - 2)
  while (end < text.length && ((text[end] as number) & 0xc0) === 0x80) end--
  const payload = Buffer.alloc(2 + end)
  payload.writeUInt16BE(code)
  text.copy(payload, 2, 0, end)
  return payload
}

/** What a route does with a WebSocket. */
interface Conversation {
  /** Supported subprotocols. The first one that the client names is chosen. */
  protocols?: readonly string[]
  limits?: Partial<WebSocketLimits>
  /**
   * Runs the conversation. When it returns, the connection is closed with 1000. An error closes it with 1011 and is
   * logged.
   */
  run(connection: WebSocketConnection): Promise<void>
}

/**
 * Returns a reply that turns the connection into a WebSocket (RFC 6455), if the request asks for one and its page is of
 * our own origin. Otherwise refuses: 426 `upgrade_required`, 400 `invalid_handshake`, 403 `foreign_origin`. A server
 * that shuts down closes it with 1001.
 */
export function webSocket(conversation: Conversation): Reply {
  return { kind: 'websocket', open: (upgrade, fail) => open(upgrade, conversation, fail) }
}

/** Opens the WebSocket. Returns the refusing reply, or resolves with undefined when the connection is closed. */
async function open(
  upgrade: UpgradeRequest,
  conversation: Conversation,
  fail: (error: unknown) => void
): Promise<Reply | undefined> {
  const { request, response, upgradeHead } = upgrade
  const handshake = shakeHands(upgrade, { httpVersion: request.httpVersion, protocols: conversation.protocols ?? [] })
  if (handshake.outcome === 'refused') return handshake.reply
  if (upgradeHead === undefined) {
    throw new Refusal('unsupported', 'websocket_unavailable', 'Cannot open a WebSocket: svc does not support it in Bun')
  }
  const { socket } = request
  response.detachSocket(socket)
  socket.setTimeout(0)
  socket.write(handshake.head)
  upgrade.isLasting = true
  const limits = { ...defaultWebSocketLimits, ...conversation.limits }
  const { protocol } = handshake
  const { connection, gone } = createWebSocket({ socket, head: upgradeHead, protocol, signal: upgrade.signal, limits })
  try {
    await conversation.run(connection)
    connection.close(closeCodes.normal)
  } catch (error) {
    fail(error)
    connection.close(closeCodes.internalError, 'The server failed')
  }
  await gone
  upgrade.answeredAtMs = performance.now()
  return undefined
}
