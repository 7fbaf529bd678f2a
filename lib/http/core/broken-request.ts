import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Connections } from './connections.js'
import { everyHeaders } from './reply.js'

/** Time in which a client may read the answer to a request that could not be parsed. */
const closeMs = 2_000
const pipelineCode = 'PIPELINE_TOO_LONG'
const headTimeoutCode = 'ERR_HTTP_REQUEST_TIMEOUT'

/** Connections whose bytes could not be parsed. Whatever follows on them is ignored. */
const refused = new WeakSet<Socket>()

/**
 * Answers bytes that are not an HTTP request with the JSON body of every refusal, then closes the connection. There is
 * no request and no response object, so the head is written by hand. Answers to earlier requests of the connection are
 * completed first. If the request was already answered before its body became invalid, no second answer is sent.
 */
export function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket, connections: Connections): void {
  if (refused.has(socket) && error.code !== 'ECONNRESET') return
  refused.add(socket)
  const exchanges = [...connections.exchangesOf(socket)]
  const broken = exchanges.find(({ request }) => !request.complete)
  if (broken?.answeredAtMs === undefined) broken?.abort()
  if (!socket.writable || error.code === 'ECONNRESET') return void socket.destroy()
  const isAnswered = broken?.response.headersSent ?? false
  const earlier = exchanges.filter(exchange => exchange !== broken && !exchange.response.writableFinished)
  void Promise.all(earlier.map(({ response }) => ended(response))).then(() => {
    if (!isAnswered) hangUp(socket, explain(error))
    else if (broken?.answeredAtMs === undefined) socket.destroy()
    else closeGently(socket, '')
  })
}

/**
 * Does the same, but if the head of a request did not arrive in time, it first has the bytes read that have arrived. Node
 * looks at the clock before it reads: after a moment in which this process did not run at all, every client that sent
 * its request meanwhile would be refused.
 */
export function answerAfterReading(error: NodeJS.ErrnoException, socket: Socket, connections: Connections): void {
  if (error.code !== headTimeoutCode) return answerBrokenRequest(error, socket, connections)
  const [read, written] = [socket.bytesRead, socket.bytesWritten]
  setImmediate(() => {
    // A head that has only begun to arrive now gets the whole time from Node.
    const hasBegun = read === 0 && socket.bytesRead > 0
    if (hasBegun || connections.isBusy(socket) || socket.bytesWritten > written) return
    answerBrokenRequest(error, socket, connections)
  })
}

/** Whether the client of this connection was told that its bytes cannot be parsed. */
export function isRefused(socket: Socket): boolean {
  return refused.has(socket)
}

/**
 * Stops answering a client that sends requests without reading the answers. The chunk that is being parsed may contain
 * hundreds more, and Node would keep a request and a response for each until the connection closes.
 */
export function endPipeline(socket: Socket, connections: Connections): void {
  stopParsing(socket)
  answerBrokenRequest(Object.assign(new Error('too many requests'), { code: pipelineCode }), socket, connections)
}

/**
 * Makes Node's parser fail at the next request (HPE_CB_HEADERS_COMPLETE). Does nothing in a runtime without such a
 * parser.
 */
function stopParsing(socket: Socket): void {
  const { parser } = socket as { parser?: { onIncoming?: () => number } | null }
  if (parser?.onIncoming !== undefined) parser.onIncoming = () => -1
}

function ended(response: ServerResponse): Promise<void> {
  return new Promise(resolve => void response.once('finish', resolve).once('close', resolve))
}

/** The answer to bytes that are not a request. */
interface Explanation {
  status: string
  code: string
  sentence: string
}

/** Sends the explanation and closes the connection. */
export function hangUp(socket: Socket, { status, code, sentence }: Explanation): void {
  const body = JSON.stringify({ success: false, error: sentence, message: sentence, code })
  closeGently(
    socket,
    [
      `HTTP/1.1 ${status}`,
      'content-type: application/json; charset=utf-8',
      `content-length: ${Buffer.byteLength(body)}`,
      'cache-control: no-store',
      ...Object.entries(everyHeaders).map(([name, value]) => `${name}: ${value}`),
      'connection: close',
      '',
      body
    ].join('\r\n')
  )
}

/** Ends the connection. Data that still arrives is read and dropped, because a reset would overtake the answer. */
function closeGently(socket: Socket, lastBytes: string): void {
  if (!socket.writable) return
  socket.end(lastBytes)
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
        sentence: 'Cannot read the request: its headers are too long'
      }
    case pipelineCode:
      return {
        status: '429 Too Many Requests',
        code: 'too_many_requests',
        sentence:
          'Cannot answer the request: the client sent too many requests on this connection without reading the answers'
      }
    case headTimeoutCode:
      return {
        status: '408 Request Timeout',
        code: 'header_timeout',
        sentence: 'Cannot read the request: its headers did not arrive in time'
      }
    default:
      return {
        status: '400 Bad Request',
        code: 'invalid_request',
        sentence: 'Cannot read the request: it is not valid HTTP/1.1'
      }
  }
}
