import type { Socket } from 'node:net'
import type { Connections } from './connections.js'

/** How long a client may take to read the answer to a request that could not be parsed. */
const closeMs = 2_000

/**
 * Answers bytes that are no HTTP request, with the same JSON body as everything else, then closes. There is no request
 * and no response to do it with, so the head is written by hand.
 */
export function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket, connections: Connections): void {
  if (socket.destroyed || socket.writableEnded) return
  let isAnswered = false
  for (const exchange of connections.exchangesOf(socket)) {
    isAnswered ||= exchange.response.headersSent
    exchange.abort()
  }
  if (isAnswered || !socket.writable || error.code === 'ECONNRESET') return void socket.destroy()
  hangUp(socket, explain(error))
}

/** What is said of bytes that are no request. */
interface Explanation {
  status: string
  code: string
  sentence: string
}

/** Says why, and closes. What still comes is read, or a reset would overtake the answer. */
export function hangUp(socket: Socket, { status, code, sentence }: Explanation): void {
  const body = JSON.stringify({ success: false, error: sentence, message: sentence, code })
  socket.end([
    `HTTP/1.1 ${status}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'cache-control: no-store',
    'x-content-type-options: nosniff',
    'connection: close',
    '',
    body
  ].join('\r\n'))
  socket.resume()
  const close = setTimeout(() => socket.destroy(), closeMs)
  socket.once('close', () => clearTimeout(close))
}

function explain(error: NodeJS.ErrnoException): Explanation {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return {
        status: '431 Request Header Fields Too Large',
        code: 'header_too_large',
        sentence: 'The request cannot be read: its headers are too long'
      }
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return {
        status: '408 Request Timeout',
        code: 'header_timeout',
        sentence: 'The request cannot be read: its headers took too long'
      }
    default:
      return {
        status: '400 Bad Request',
        code: 'invalid_request',
        sentence: 'The request cannot be read: it is not valid HTTP/1.1'
      }
  }
}
