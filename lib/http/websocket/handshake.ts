import { createHash } from 'node:crypto'
import { type IncomingHttpHeaders, type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Refusal } from '../../base/errors.js'
import { hasBody } from '../core/exchange.js'
import { isOriginOf, parseHost, parseOrigin } from '../core/headers.js'
import { refusalReply } from '../core/reply.js'
import type { Reply, Request } from '../core/route.js'

/** Constant that every server appends to the key before hashing (§1.3). */
const guid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const version = '13'

/** The parts of a request that the handshake uses. */
type HandshakeFacts = Pick<Request, 'method' | 'headers' | 'client'>

/** The result of a handshake. */
type Handshake =
  /** `head` is the answer that turns the connection into a WebSocket. `protocol` is empty if none was agreed on. */
  { outcome: 'accepted'; head: string; protocol: string } | { outcome: 'refused'; reply: Reply }

/**
 * Whether the head of a request asks for a WebSocket. Then `shakeHands` answers it. A request for another protocol
 * (`h2c`) is answered in HTTP/1.1 as if it had not asked.
 */
export function asksForWebSocket(request: IncomingMessage): boolean {
  return tokensOf(request.headers.upgrade).includes('websocket') && !hasBody(request.headers)
}

/**
 * Answers a client's opening handshake on a WebSocket route (RFC 6455 §4.2). `protocols` are the supported
 * subprotocols; the first one that the client names is chosen. Extensions are never accepted. Refused: 426
 * `upgrade_required` if it is not a WebSocket request of version 13, 400 `invalid_handshake` if the key is invalid, 403
 * `foreign_origin` if the page is of another origin.
 */
export function shakeHands(
  facts: HandshakeFacts,
  { httpVersion, protocols }: { httpVersion: string; protocols: readonly string[] }
): Handshake {
  const { method, headers } = facts
  const isUpgrade = tokensOf(headers.upgrade).includes('websocket') && tokensOf(headers.connection).includes('upgrade')
  if (method !== 'GET' || httpVersion !== '1.1' || !isUpgrade) {
    return upgradeRequired('send GET over HTTP/1.1 with "Upgrade: websocket" and "Connection: Upgrade"')
  }
  if (headers['sec-websocket-version'] !== version) {
    return upgradeRequired(`the header Sec-WebSocket-Version must be ${version}`)
  }
  const key = headers['sec-websocket-key']
  if (!isKey(key)) {
    const sentence = 'Cannot open the WebSocket: the header Sec-WebSocket-Key must be 16 bytes in base64'
    return refused(new Refusal('invalid', 'invalid_handshake', sentence))
  }
  if (isForeign(facts)) {
    const sentence = 'Cannot open the WebSocket: the page has another origin than the server'
    return refused(new Refusal('forbidden', 'foreign_origin', sentence))
  }
  const offered = tokensOf(headers['sec-websocket-protocol'], false)
  const protocol = offered.find(one => protocols.includes(one)) ?? ''
  return { outcome: 'accepted', head: acceptHead(key, protocol), protocol }
}

/** Returns the value of Sec-WebSocket-Accept for a key (§4.2.2). */
export function acceptOf(key: string): string {
  return createHash('sha1')
    .update(key + guid)
    .digest('base64')
}

export function acceptHead(key: string, protocol: string): string {
  return [
    'HTTP/1.1 101 Switching Protocols',
    'Upgrade: websocket',
    'Connection: Upgrade',
    `Sec-WebSocket-Accept: ${acceptOf(key)}`,
    ...(protocol === '' ? [] : [`Sec-WebSocket-Protocol: ${protocol}`]),
    '',
    ''
  ].join('\r\n')
}

function upgradeRequired(reason: string): Handshake {
  const refusal = new Refusal('upgrade', 'upgrade_required', `Cannot open the WebSocket: ${reason}`)
  // RFC 9110 §7.8 and §15.5.22, RFC 6455 §4.4. Without this, node:http would treat `Upgrade` as "keep it open".
  const headers = { upgrade: 'websocket', connection: 'Upgrade, close', 'sec-websocket-version': version }
  return { outcome: 'refused', reply: refusalReply(refusal, headers) }
}

function refused(refusal: Refusal): Handshake {
  return { outcome: 'refused', reply: refusalReply(refusal) }
}

/** Whether the key is 16 bytes in base64: 22 characters and `==`. */
function isKey(key: string | undefined): key is string {
  return key !== undefined && /^[A-Za-z\d+/]{22}==$/.test(key)
}

/** Returns comma-separated words, in lower case unless they are compared exactly. */
export function tokensOf(value: string | undefined, isCaseless = true): string[] {
  if (value === undefined) return []
  return value.split(',').map(token => (isCaseless ? token.trim().toLowerCase() : token.trim()))
}

/**
 * Whether a page of another origin asks (RFC 6455 §10.2). Browsers always send an origin; programs need not. A trusted
 * proxy may say under which name it was called. The scheme is not compared, because that of a proxy is unknown.
 */
function isForeign({ headers, client }: HandshakeFacts): boolean {
  if (headers.origin === undefined) return false
  const origin = parseOrigin(headers.origin)
  const host = parseHost((client.viaProxy && firstOf(headers['x-forwarded-host'])) || (headers.host ?? ''))
  return origin === null || host === null || !isOriginOf(origin, host)
}

function firstOf(header: IncomingHttpHeaders[string]): string | undefined {
  const text = Array.isArray(header) ? header[0] : header
  return text?.split(',')[0]?.trim()
}

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
