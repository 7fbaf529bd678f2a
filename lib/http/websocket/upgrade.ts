import { ServerResponse } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import { Refusal } from '../../base/refusal.js'
import type { Exchange } from '../exchange.js'
import type { Reply } from '../route.js'
import { asksForWebSocket, shakeHands } from './handshake.js'
import { closeCodes } from './frame.js'
import { createWebSocket, defaultWebSocketLimits } from './socket.js'

/** How long a client may take to read why there is no WebSocket. */
const refusalMs = 10_000

/** What node:http gives away with a request to leave HTTP: it has stopped reading the connection behind the head. */
interface Upgrade {
  request: IncomingMessage
  socket: Socket
  /** What came behind the head. */
  head: Buffer
}

/**
 * The response for a request that asks for a WebSocket. Undefined for any other wish, which RFC 9110 §7.8 lets a server
 * ignore: the connection is given to `again`, and the request comes once more, as an ordinary one.
 */
export function takeUpgrade(again: (socket: Socket) => void, upgrade: Upgrade): ServerResponse | undefined {
  if (asksForWebSocket(upgrade.request)) return responseFor(upgrade)
  ignoreUpgrade(again, upgrade)
  return undefined
}

/**
 * A response for a request that asked to leave HTTP: as long as nobody takes the connection over, it is answered like
 * any other, and then closed, because node:http has let go of it.
 */
function responseFor({ request, socket }: Upgrade): ServerResponse {
  const response = new ServerResponse(request)
  response.shouldKeepAlive = false
  response.assignSocket(socket)
  // Whoever goes away is noticed by `close`; without a listener the error would end the process.
  socket.on('error', () => {})
  socket.on('drain', () => void response.emit('drain'))
  response.once('finish', () => {
    response.detachSocket(socket)
    socket.setTimeout(refusalMs, () => socket.destroy())
    // Read to its end, or what the client still sends would be answered by a reset that overtakes the reply.
    socket.resume().once('end', () => socket.destroy())
    socket.end()
  })
  return response
}

/**
 * Java's client asks for `h2c` with every request, uploads included. Nothing reads such a connection any more, so
 * node:http gets it as a new one, which begins with the same head, without the question.
 */
function ignoreUpgrade(again: (socket: Socket) => void, { request, socket, head }: Upgrade): void {
  const { method, url, httpVersion, rawHeaders } = request
  const lines = [`${method} ${url} HTTP/${httpVersion}`]
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    if (name.toLowerCase() !== 'upgrade') lines.push(`${name}: ${rawHeaders[i + 1]}`)
  }
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]))
  again(socket)
}

type WebSocketReply = Extract<Reply, { kind: 'websocket' }>

/**
 * Makes the connection of a request a WebSocket and runs the route's part in it, or gives back the reply that says why
 * not. Resolves with nothing once the connection is gone. What `run` throws goes to `fail`; the peer sees 1011.
 */
export async function openWebSocket(
  exchange: Exchange, reply: WebSocketReply, { fail }: { fail(exchange: Exchange, error: unknown): unknown }
): Promise<Reply | undefined> {
  const { request, response, upgradeHead } = exchange
  const handshake = shakeHands(exchange, { httpVersion: request.httpVersion, protocols: reply.protocols ?? [] })
  if (handshake.outcome === 'refused') return handshake.reply
  if (upgradeHead === undefined) {
    throw new Refusal('unsupported', 'websocket_unavailable', 'No WebSocket can be opened: svc runs in Bun, where it has none')
  }
  const { socket } = request
  response.detachSocket(socket)
  socket.setTimeout(0)
  socket.write(handshake.head)
  exchange.isLasting = true
  const limits = { ...defaultWebSocketLimits, ...reply.limits }
  const { protocol } = handshake
  const { connection, gone } = createWebSocket({ socket, head: upgradeHead, protocol, signal: exchange.signal, limits })
  try {
    await reply.run(connection)
    connection.close(closeCodes.normal)
  } catch (error) {
    fail(exchange, error)
    connection.close(closeCodes.internalError, 'The server failed')
  }
  await gone
  exchange.answeredAtMs = performance.now()
  return undefined
}
