import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import { Refusal } from '../../base/errors.js'
import type { Slices } from '../../base/async.js'
import { type Connections, dropRest, type LingerLimits, stopping } from './connections.js'
import { createSink, type Exchange } from './exchange.js'
import { smallAnswerBytes, streamBytes } from './memory.js'
import {
  compressed,
  corsHeaders,
  everyHeaders,
  type Headers,
  refusalReply,
  streamHead,
  wantsGzip,
  type Whole,
  wholeReply
} from './reply.js'
import type { Reply } from './route.js'

/** If the rest of a body is this small, reading it is cheaper than opening a new connection. */
const smallRestBytes = 64 * 1024

interface SendOptions {
  linger: LingerLimits
  /** Shared by all streams of the server. */
  slices: Slices
  /** Whether the server is stopping, so that the connection must not be reused. */
  isStopping: boolean
  /** Logs an internal error and returns the reply for the client. */
  fail(exchange: Exchange, error: unknown): Extract<Reply, { kind: 'json' }>
}

/**
 * Fast path for most requests of the API: a complete reply to a request whose body has been read is written without a
 * promise (bench/http). Returns its status, or undefined if the slow path is needed.
 */
export function sendAtOnce(
  exchange: Exchange,
  reply: Reply,
  { isStopping }: Pick<SendOptions, 'isStopping'>
): number | undefined {
  const { response } = exchange
  if (reply.kind !== 'json' || isStopping || response.destroyed || exchange.unreadBytes > 0) return undefined
  const { status, headers, body } = wholeReply(reply)
  if (body.length > smallAnswerBytes || wantsGzip(exchange.headers, body.length)) return undefined
  response.writeHead(status, headOf(exchange, headers))
  if (exchange.method === 'HEAD') response.end()
  // An ASCII body is written together with its head. As UTF-8 both would be encoded.
  else response.end(body, headers['content-length'] === String(body.length) ? 'latin1' : 'utf8')
  exchange.answeredAtMs = performance.now()
  return status
}

/** Writes a reply. Resolves with its status when all of it is written or the client is gone. */
export async function send(exchange: Exchange, reply: Reply, options: SendOptions): Promise<number> {
  if (exchange.isGone || exchange.response.destroyed || exchange.isCut) return 0
  try {
    switch (reply.kind) {
      case 'file':
        return await sendFile(exchange, await reply.open(exchange), options)
      case 'stream':
        return await sendStream(exchange, reply, options)
      case 'websocket': {
        if (options.isStopping) throw stopping()
        const refusal = await reply.open(exchange, error => void options.fail(exchange, error))
        return refusal === undefined ? 101 : await send(exchange, refusal, options)
      }
      case 'json': {
        const whole = wholeReply(reply)
        const isSmall = !wantsGzip(exchange.headers, whole.body.length)
        return await sendWhole(exchange, isSmall ? whole : await compressed(whole), options)
      }
      default:
        return await sendWhole(exchange, wholeReply(reply), options)
    }
  } catch (error) {
    return await recover(exchange, error, options)
  }
}

/** An open file is sent even if the client has just gone: the stream notices it and closes the file. */
async function sendFile(exchange: Exchange, opened: Reply, options: SendOptions): Promise<number> {
  return opened.kind === 'stream' ? await sendStream(exchange, opened, options) : await send(exchange, opened, options)
}

/**
 * Handles an error while sending. Before the head was sent, it becomes the reply. After that, the connection is broken,
 * so that the client notices.
 */
async function recover(exchange: Exchange, error: unknown, options: SendOptions): Promise<number> {
  const { response } = exchange
  if (exchange.isGone && error instanceof Refusal) {
    response.destroy()
    return response.headersSent ? response.statusCode : 0
  }
  const refusal = error instanceof Refusal ? refusalReply(error) : options.fail(exchange, error)
  if (!response.headersSent) return await sendWhole(exchange, wholeReply(refusal), options)
  response.destroy()
  return response.statusCode
}

async function sendWhole(exchange: Exchange, { status, headers, body }: Whole, options: SendOptions): Promise<number> {
  const { response } = exchange
  // The answer to a change is sent in any case: the change was made.
  if (body.length > smallAnswerBytes && exchange.method === 'GET') exchange.holdUnread(body.length)
  exchange.releaseBody()
  const isEmpty = exchange.method === 'HEAD' || body.length === 0
  // A body that has stopped arriving is not waited for again.
  const rest = status === 408 ? 'large' : restOfBody(exchange)
  response.writeHead(status, withConnection(headOf(exchange, headers), rest === 'large' || options.isStopping))
  if (rest === 'large') {
    // Node closes the socket after `end`, so `end` has to wait. The length tells the client that the reply is complete.
    if (isEmpty) response.flushHeaders()
    else response.write(body)
    exchange.answeredAtMs = performance.now()
    await linger(exchange, options.linger)
    response.end()
    return status
  }
  if (isEmpty) response.end()
  else response.end(body)
  exchange.answeredAtMs = performance.now()
  if (rest === 'small' && (await dropRest(exchange.request, options.linger)) === 'limit')
    exchange.request.socket.destroy()
  return status
}

async function sendStream(
  exchange: Exchange,
  reply: Extract<Reply, { kind: 'stream' }>,
  options: SendOptions
): Promise<number> {
  const { response } = exchange
  exchange.isLasting = reply.lasting ?? false
  if (options.isStopping && exchange.isLasting) throw stopping()
  // The head is sent with the first write, so the part of the body that was read until then is known.
  const writeHead = (): void => {
    const isLast = restOfBody(exchange) === 'large' || options.isStopping
    response.writeHead(reply.status, withConnection(headOf(exchange, streamHead(reply.headers)), isLast))
  }
  // What a client only reads can be refused. A stream that reports on a change that has begun cannot.
  if (exchange.method === 'GET') exchange.hold(reply.heldBytes ?? streamBytes)
  if (exchange.method !== 'HEAD') {
    const { signal } = exchange
    await runStream(exchange, () => reply.run(createSink({ response, signal, slices: options.slices, writeHead })))
  }
  if (!response.headersSent) writeHead()
  exchange.releaseBody()
  const isRead = restOfBody(exchange) === 'none' || (await linger(exchange, options.linger)) !== 'limit'
  if (exchange.trailers !== undefined) response.addTrailers(exchange.trailers())
  await finish(exchange)
  if (!isRead) exchange.request.socket.destroy()
  return reply.status
}

/** A stream has ended when its last byte has left, not when it was handed over: a lot may be queued before it. */
async function finish(exchange: Exchange): Promise<void> {
  const { response } = exchange
  if (response.destroyed) return
  await new Promise<void>(resolve => {
    response.once('close', resolve)
    response.end(resolve)
  })
  if (response.writableFinished) exchange.answeredAtMs = performance.now()
}

/** Runs a stream. A stream that ends because the server stops has ended successfully. */
async function runStream(exchange: Exchange, run: () => Promise<void>): Promise<void> {
  try {
    await run()
  } catch (error) {
    if (!exchange.isLasting || !exchange.isGone || exchange.response.destroyed) throw error
  }
}

function linger(exchange: Exchange, limits: LingerLimits): ReturnType<typeof dropRest> {
  exchange.isLingering = true
  return dropRest(exchange.request, limits)
}

function restOfBody(exchange: Exchange): 'none' | 'small' | 'large' {
  const bytes = exchange.unreadBytes
  return bytes === 0 ? 'none' : bytes <= smallRestBytes ? 'small' : 'large'
}

/** Returns the headers of a reply with those that the route and the hub add. */
function headOf({ isForAnySite, stamp }: Exchange, headers: Headers): Headers {
  if (!isForAnySite && stamp === undefined) return headers
  return { ...headers, ...(isForAnySite && corsHeaders), ...stamp?.() }
}

function withConnection(headers: Headers, isLast: boolean): Headers {
  if (isLast) headers['connection'] = 'close'
  return headers
}

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
