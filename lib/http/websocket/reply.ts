import { performance } from 'node:perf_hooks'
import { Refusal } from '../../base/refusal.js'
import type { Reply, UpgradeRequest } from '../core/route.js'
import { closeCodes } from './frame.js'
import { shakeHands } from './handshake.js'
import { createWebSocket, defaultWebSocketLimits, type WebSocketConnection, type WebSocketLimits } from './socket.js'

/** What a route does with a WebSocket. */
export interface Conversation {
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
