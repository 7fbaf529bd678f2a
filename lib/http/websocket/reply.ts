import { performance } from 'node:perf_hooks'
import { Refusal } from '../../base/refusal.js'
import type { Exchange } from '../exchange.js'
import type { Reply } from '../route.js'
import { closeCodes } from './frame.js'
import { shakeHands } from './handshake.js'
import { createWebSocket, defaultWebSocketLimits } from './socket.js'
import type { WebSocketConnection, WebSocketLimits } from './socket.js'

export interface Conversation {
  /** Subprotocols spoken here; the first one the client names is agreed on. */
  protocols?: readonly string[]
  limits?: Partial<WebSocketLimits>
  /** Once it returns, the connection is closed with 1000; a throw closes it with 1011, and is logged. */
  run(connection: WebSocketConnection): Promise<void>
}

/**
 * The connection becomes a WebSocket (RFC 6455), where the request asks for one and its page is of our own origin;
 * else refused: 426 `upgrade_required`, 400 `invalid_handshake`, 403 `foreign_origin`. A server that shuts down
 * closes it with 1001.
 */
export function webSocket(conversation: Conversation): Reply {
  return { kind: 'websocket', open: (exchange, fail) => open(exchange, conversation, fail) }
}

/** Gives back the reply that says why there is none, or resolves with nothing once the connection is gone. */
async function open(
  exchange: Exchange, conversation: Conversation, fail: (error: unknown) => void
): Promise<Reply | undefined> {
  const { request, response, upgradeHead } = exchange
  const handshake = shakeHands(exchange, { httpVersion: request.httpVersion, protocols: conversation.protocols ?? [] })
  if (handshake.outcome === 'refused') return handshake.reply
  if (upgradeHead === undefined) {
    throw new Refusal('unsupported', 'websocket_unavailable', 'No WebSocket can be opened: svc runs in Bun, where it has none')
  }
  const { socket } = request
  response.detachSocket(socket)
  socket.setTimeout(0)
  socket.write(handshake.head)
  exchange.isLasting = true
  const limits = { ...defaultWebSocketLimits, ...conversation.limits }
  const { protocol } = handshake
  const { connection, gone } = createWebSocket({ socket, head: upgradeHead, protocol, signal: exchange.signal, limits })
  try {
    await conversation.run(connection)
    connection.close(closeCodes.normal)
  } catch (error) {
    fail(error)
    connection.close(closeCodes.internalError, 'The server failed')
  }
  await gone
  exchange.answeredAtMs = performance.now()
  return undefined
}
