import { ServerResponse } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { asksForWebSocket } from './handshake.js'

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
