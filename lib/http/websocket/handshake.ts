import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Refusal } from '../../base/refusal.js'
import { hasBody } from '../body.js'
import type { Reply, Request } from '../route.js'
import { refusalReply } from '../reply.js'

/** §1.3: every server adds it to the key before hashing. */
const guid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const version = '13'

/** What of a request the handshake looks at. */
export type HandshakeFacts = Pick<Request, 'method' | 'headers' | 'client'>

export type Handshake =
  /** The head that turns the connection into a WebSocket; `protocol` is the empty text where none was agreed on. */
  | { outcome: 'accepted'; head: string; protocol: string }
  | { outcome: 'refused'; reply: Reply }

/**
 * Whether the connection is to become a WebSocket, as far as the head of the request says it: then it is answered by
 * `shakeHands`. Anything else that a client would rather speak (`h2c`) is answered in HTTP/1.1 as if it had not asked.
 */
export function asksForWebSocket(request: IncomingMessage): boolean {
  return tokensOf(request.headers.upgrade).includes('websocket') && !hasBody(request.headers)
}

/**
 * RFC 6455 §4.2: the answer to a client's opening handshake, on a route that is a WebSocket. `protocols` are the
 * subprotocols spoken there; the first one the client names is chosen. Extensions are never agreed on. Refused: 426
 * `upgrade_required` for what is no WebSocket request of version 13, 400 `invalid_handshake` for a key that is none,
 * 403 `foreign_origin` for a page of another origin.
 */
export function shakeHands(
  facts: HandshakeFacts, { httpVersion, protocols }: { httpVersion: string; protocols: readonly string[] }
): Handshake {
  const { method, headers } = facts
  const isUpgrade = tokensOf(headers.upgrade).includes('websocket') && tokensOf(headers.connection).includes('upgrade')
  if (method !== 'GET' || httpVersion !== '1.1' || !isUpgrade) {
    return upgradeRequired('a WebSocket is needed here: send GET over HTTP/1.1 with "Upgrade: websocket" and "Connection: Upgrade"')
  }
  if (headers['sec-websocket-version'] !== version) {
    return upgradeRequired(`the header Sec-WebSocket-Version must be ${version}`)
  }
  const key = headers['sec-websocket-key']
  if (!isKey(key)) {
    const sentence = 'The WebSocket cannot be opened: the header Sec-WebSocket-Key must be 16 bytes in base64'
    return refused(new Refusal('invalid', 'invalid_handshake', sentence))
  }
  if (isForeign(facts)) {
    const sentence = 'The WebSocket cannot be opened: the page that asks is of another origin than the server'
    return refused(new Refusal('forbidden', 'foreign_origin', sentence))
  }
  const offered = tokensOf(headers['sec-websocket-protocol'], false)
  const protocol = offered.find(one => protocols.includes(one)) ?? ''
  return { outcome: 'accepted', head: acceptHead(key, protocol), protocol }
}

function acceptHead(key: string, protocol: string): string {
  return [
    'HTTP/1.1 101 Switching Protocols',
    'Upgrade: websocket',
    'Connection: Upgrade',
    `Sec-WebSocket-Accept: ${createHash('sha1').update(key + guid).digest('base64')}`,
    ...(protocol === '' ? [] : [`Sec-WebSocket-Protocol: ${protocol}`]),
    '',
    ''
  ].join('\r\n')
}

function upgradeRequired(reason: string): Handshake {
  const refusal = new Refusal('upgrade', 'upgrade_required', `The WebSocket cannot be opened: ${reason}`)
  // RFC 9110 §7.8 and §15.5.22, RFC 6455 §4.4. Left to itself, node:http would take `Upgrade` for "keep it open".
  const headers = { upgrade: 'websocket', connection: 'Upgrade, close', 'sec-websocket-version': version }
  return { outcome: 'refused', reply: refusalReply(refusal, headers) }
}

function refused(refusal: Refusal): Handshake {
  return { outcome: 'refused', reply: refusalReply(refusal) }
}

/** 16 bytes are 22 characters and `==`. */
function isKey(key: string | undefined): key is string {
  return key !== undefined && /^[A-Za-z\d+/]{22}==$/.test(key)
}

/** Comma-separated words; in lower case, but for names that are compared as they are. */
function tokensOf(value: string | undefined, isCaseless = true): string[] {
  if (value === undefined) return []
  return value.split(',').map(token => (isCaseless ? token.trim().toLowerCase() : token.trim()))
}

/**
 * Whether a page of another site asks (RFC 6455 §10.2): browsers always send their origin, programs need not. A proxy
 * that is trusted may say under which name it was called. The scheme is not compared: of a proxy's it is not known.
 */
function isForeign({ headers, client }: HandshakeFacts): boolean {
  const { origin } = headers
  if (origin === undefined) return false
  const own = (client.viaProxy && firstOf(headers['x-forwarded-host'])) || headers.host
  const asking = parseUrl(origin)
  if (asking === undefined || own === undefined) return true
  // As the origin is written: without the port that its scheme has anyway, in lower case.
  return parseUrl(`${asking.protocol}//${own}`)?.host !== asking.host
}

function firstOf(header: IncomingHttpHeaders[string]): string | undefined {
  const text = Array.isArray(header) ? header[0] : header
  return text?.split(',')[0]?.trim()
}

function parseUrl(text: string): URL | undefined {
  if (!/^https?:\/\//i.test(text)) return undefined
  try {
    return new URL(text)
  } catch {
    return undefined
  }
}
