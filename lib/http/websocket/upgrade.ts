import { ServerResponse, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { asksForWebSocket } from './handshake.js'

/** Time in which a client may read why there is no WebSocket. */
const refusalMs = 10_000

/** What node:http hands over for a request to leave HTTP. It has stopped reading the connection after the head. */
interface Upgrade {
  request: IncomingMessage
  socket: Socket
  /** The bytes after the head. */
  head: Buffer
}

/**
 * Returns the response for a request that asks for a WebSocket. Returns undefined for any other protocol, which RFC
 * 9110 §7.8 lets a server ignore. Then `again` gets the connection, and the request arrives once more as an ordinary
 * one.
 */
export function takeUpgrade(again: (socket: Socket) => void, upgrade: Upgrade): ServerResponse | undefined {
  if (asksForWebSocket(upgrade.request)) return responseFor(upgrade)
  ignoreUpgrade(again, upgrade)
  return undefined
}

/**
 * Creates a response for a request to leave HTTP. Unless the connection is taken over, the request is answered like any
 * other. Then the connection is closed, because node:http no longer handles it.
 */
function responseFor({ request, socket }: Upgrade): ServerResponse {
  const response = new ServerResponse(request)
  response.shouldKeepAlive = false
  response.assignSocket(socket)
  // `close` reports that the client is gone. Without a listener the error would end the process.
  socket.on('error', () => {})
  socket.on('drain', () => void response.emit('drain'))
  response.once('finish', () => {
    response.detachSocket(socket)
    socket.setTimeout(refusalMs, () => socket.destroy())
    // The socket is read to its end. Otherwise the kernel would answer further data with a reset, which overtakes the
    // reply.
    socket.resume().once('end', () => socket.destroy())
    socket.end()
  })
  return response
}

/**
 * Removes the upgrade request and gives the connection back to node:http as a new one that begins with the same head.
 * Java's client asks for `h2c` with every request, uploads included.
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
