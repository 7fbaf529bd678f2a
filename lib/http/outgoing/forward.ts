/*
 * Passes a request on to the leader of a cluster, and its answer back. Bodies and answers are streamed both ways with
 * backpressure, so an upload, NDJSON, server-sent events and a WebSocket take the same way. Each request has its own
 * connection: a reused one may be closed at the moment of a change, and then nobody knows whether the leader got it.
 *
 * A failure before the request was sent, or of a read, is 503 `no_leader`: the client may repeat it. A failure of a
 * change after that is 503 `leader_lost`: the change may or may not have been made.
 */
import * as http from 'node:http'
import * as https from 'node:https'
import { isIP, type Socket } from 'node:net'
import { pipeline } from 'node:stream/promises'
import { Refusal } from '../../base/refusal.js'
import { reasonOf } from '../../base/system-error.js'
import { hasBody } from '../core/body.js'
import type { Exchange } from '../core/exchange.js'
import type { Headers } from '../core/reply.js'
import type { ClientAddress, Reply, Sink } from '../core/route.js'
import { asksForWebSocket } from '../websocket/handshake.js'
import { forwardedHeader, writeForwarded } from './forwarded.js'

/** The hub that a request is passed on to. */
export interface ForwardPlace {
  name: string
  /** Its URL with its base path. */
  url: string
}

/** Options of `createForwarder`. */
export interface ForwarderOptions {
  /** The key of `forwardKeyOf`. */
  key: Uint8Array
  /** The name of this hub. */
  hub: string
  /** Certificates of the authorities that the other hubs are checked with, as PEM; undefined: those of the system. */
  ca?: string | undefined
  /** Maximum time until a connection is open. */
  connectMs?: number
  /** Maximum time in which nothing moves on a connection. */
  silentMs?: number
  /** Resolves when this hub has applied the writes up to a number. A client then reads what it wrote. */
  reached(sequence: number, signal: AbortSignal): Promise<void>
}

/** Passes requests on to another hub. */
export interface Forwarder {
  /** Sends the request of an exchange, and returns the reply when the head of the answer has arrived. */
  pass(exchange: Exchange, to: ForwardPlace): Promise<Reply>
  /** Breaks the requests in progress to every hub but this one, because their leader is not the leader any more. */
  cut(except: string | null): void
}

/** The header with the number of the last write that an answer includes. */
export const sequenceHeader = 'svc-sequence'
const defaultConnectMs = 5000
const defaultSilentMs = 10 * 60_000
/** Time between two probes of a silent connection, so that a hub without power is noticed. */
const probeMs = 15_000
/** Time that an answer waits for this hub to apply the write. The client then may read an older state. */
const maxReachMs = 5000

/** Headers that concern one connection only (RFC 9110 §7.6.1), and those that this hub writes itself. */
const ownHeaders = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
  'x-forwarded-for',
  'x-real-ip',
  'forwarded',
  forwardedHeader,
  sequenceHeader
])
/** Headers of trusted proxies. From other clients they are worth nothing. */
const proxyHeaders = new Set(['x-forwarded-host', 'x-forwarded-proto'])
const streamTypes = /^(?:text\/event-stream|application\/x-ndjson)\b/

/** Creates the forwarder of a hub. */
export function createForwarder(options: ForwarderOptions): Forwarder {
  const { connectMs = defaultConnectMs, silentMs = defaultSilentMs } = options
  const open = new Map<http.ClientRequest, string>()

  function begin(exchange: Exchange, to: ForwardPlace): http.ClientRequest {
    const target = exchange.belowPath + (exchange.search === '' ? '' : `?${exchange.search}`)
    const url = new URL(to.url)
    const headers = headersOf(exchange)
    headers[forwardedHeader] = writeForwarded(options.key, clientOf(exchange, options.hub), {
      method: exchange.method,
      target,
      headers: exchange.headers
    })
    const isSecure = url.protocol === 'https:'
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const request = (isSecure ? https : http).request({
      host,
      port: url.port === '' ? (isSecure ? 443 : 80) : url.port,
      method: exchange.method,
      path: url.pathname.replace(/\/$/, '') + target,
      headers,
      setHost: false,
      agent: false,
      ...(isSecure && { ca: options.ca, ...(isIP(host) === 0 && { servername: host }) })
    })
    open.set(request, to.name)
    request.once('close', () => void open.delete(request))
    request.once('socket', socket => limitSocket(request, socket, isSecure))
    return request
  }

  function limitSocket(request: http.ClientRequest, socket: Socket, isSecure: boolean): void {
    const late = setTimeout(() => request.destroy(new Error(`no connection within ${connectMs} ms`)), connectMs)
    socket.once(isSecure ? 'secureConnect' : 'connect', () => clearTimeout(late))
    socket.once('close', () => clearTimeout(late))
    socket.setKeepAlive(true, probeMs)
    socket.setTimeout(silentMs, () => request.destroy(new Error(`silent for ${silentMs / 1000} s`)))
  }

  /** Waits until this hub has applied what the answer includes. */
  async function follow(sequence: string | undefined, signal: AbortSignal): Promise<void> {
    if (sequence === undefined || !/^\d+$/.test(sequence)) return
    const limit = AbortSignal.any([signal, AbortSignal.timeout(maxReachMs)])
    await options.reached(Number(sequence), limit).catch(() => {})
  }

  function replyOf(exchange: Exchange, answer: http.IncomingMessage): Reply {
    const lasting = streamTypes.test(answer.headers['content-type'] ?? '')
    if (exchange.method === 'HEAD') answer.resume()
    return {
      kind: 'stream',
      status: answer.statusCode as number,
      headers: answerHeaders(answer),
      lasting,
      run: async sink => {
        await copy(answer, sink)
        await follow(answer.trailers[sequenceHeader], sink.signal)
      }
    }
  }

  async function pass(exchange: Exchange, to: ForwardPlace): Promise<Reply> {
    if (asksForWebSocket(exchange.request) && exchange.upgradeHead !== undefined) {
      return { kind: 'websocket', open: () => passSocket(exchange, to) }
    }
    const request = begin(exchange, to)
    const cancel = (): void => void request.destroy()
    exchange.signal.addEventListener('abort', cancel, { once: true })
    request.once('close', () => exchange.signal.removeEventListener('abort', cancel))
    const answer = await answerTo(request, exchange, to)
    if (exchange.method !== 'GET') await follow(answer.headers[sequenceHeader] as string | undefined, exchange.signal)
    return replyOf(exchange, answer)
  }

  /** Joins the connection of the client with one to the leader. */
  async function passSocket(exchange: Exchange, to: ForwardPlace): Promise<Reply | undefined> {
    const request = begin(exchange, to)
    const upgraded = new Promise<{ answer: http.IncomingMessage; socket: Socket; head: Buffer }>(resolve => {
      request.once('upgrade', (answer, socket, head) => resolve({ answer, socket: socket as Socket, head }))
    })
    const outcome = await Promise.race([upgraded, answerTo(request, exchange, to)])
    if (!('head' in outcome)) return replyOf(exchange, outcome)
    const { answer, socket: far, head } = outcome
    open.set(request, to.name)
    const near = exchange.request.socket
    exchange.response.detachSocket(near)
    near.setTimeout(0)
    far.setTimeout(silentMs, () => far.destroy())
    near.write(headOf(answer))
    near.write(head)
    far.write(exchange.upgradeHead as Buffer)
    exchange.isLasting = true
    const close = (): void => {
      far.destroy()
      near.destroySoon()
    }
    exchange.signal.addEventListener('abort', close, { once: true })
    request.once('error', close)
    await Promise.allSettled([pipeline(near, far), pipeline(far, near)])
    open.delete(request)
    close()
    exchange.answeredAtMs = performance.now()
    return undefined
  }

  return {
    pass,
    cut(except) {
      const gone = new Error('the leader has changed')
      for (const [request, name] of open) {
        if (name === except) continue
        request.destroy(gone)
        request.socket?.destroy()
      }
    }
  }
}

/** Sends the body and resolves with the head of the answer. */
function answerTo(request: http.ClientRequest, exchange: Exchange, to: ForwardPlace): Promise<http.IncomingMessage> {
  return new Promise((resolve, reject) => {
    let isConnected = false
    // Nothing is sent before the certificate has been checked.
    const connected = to.url.startsWith('https:') ? 'secureConnect' : 'connect'
    request.once('socket', socket => socket.once(connected, () => (isConnected = true)))
    request.once('response', resolve)
    request.on('error', error => reject(lost(error, exchange, { to, isSent: isConnected })))
    request.once('close', () => reject(lost(new Error('connection closed'), exchange, { to, isSent: isConnected })))
    if (!hasBody(exchange.headers)) return void request.end()
    pipeline(exchange.body, request).catch(error => {
      // The leader may answer before it has read everything, and then close its side.
      if (error instanceof Refusal) reject(error)
    })
  })
}

function lost(error: unknown, exchange: Exchange, { to, isSent }: { to: ForwardPlace; isSent: boolean }): Refusal {
  if (error instanceof Refusal) return error
  const isRead = exchange.method === 'GET' || exchange.method === 'HEAD'
  const reason = error instanceof Error && !('code' in error) ? error.message : reasonOf(error)
  if (!isSent || isRead) {
    const sentence = `The leader of the cluster, "${to.name}", does not answer (${reason}). Try again in a moment`
    return new Refusal('unavailable', 'no_leader', sentence, { retryAfterSeconds: 2, cause: error })
  }
  const sentence = `The leader of the cluster, "${to.name}", was lost before it answered (${reason}). The change may or may not have been made: look before you try again`
  return new Refusal('unavailable', 'leader_lost', sentence, { cause: error })
}

async function copy(answer: http.IncomingMessage, sink: Sink): Promise<void> {
  const stop = (): void => void answer.destroy()
  sink.signal.addEventListener('abort', stop, { once: true })
  try {
    sink.sendHead()
    for await (const chunk of answer) await sink.write(chunk as Buffer)
  } catch (error) {
    if (sink.signal.aborted) throw sink.signal.reason
    throw new Refusal('unavailable', 'leader_lost', `The answer is incomplete: ${reasonOf(error)}`, { cause: error })
  } finally {
    sink.signal.removeEventListener('abort', stop)
    answer.destroy()
  }
}

function clientOf({ client, isSecure }: Exchange, hub: string): Required<ClientAddress> {
  return { ...client, hub: { name: hub, isOwn: false, isSecure } }
}

function headersOf({ headers, client, request, upgradeHead }: Exchange): http.OutgoingHttpHeaders {
  const passed: http.OutgoingHttpHeaders = {}
  for (const [name, value] of Object.entries(headers)) {
    if (ownHeaders.has(name) || (proxyHeaders.has(name) && !client.viaProxy)) continue
    passed[name] = value
  }
  if (hasBody(headers) && headers['content-length'] === undefined) passed['transfer-encoding'] = 'chunked'
  if (upgradeHead !== undefined && asksForWebSocket(request)) {
    passed['connection'] = 'Upgrade'
    passed['upgrade'] = 'websocket'
  }
  return passed
}

function answerHeaders({ headers }: http.IncomingMessage): Headers {
  const passed: Headers = {}
  for (const [name, value] of Object.entries(headers)) {
    if (ownHeaders.has(name) || value === undefined) continue
    passed[name] = Array.isArray(value) ? value.join(', ') : value
  }
  return passed
}

/** Returns the head that agreed to the WebSocket, as the leader wrote it. */
function headOf({ statusCode, statusMessage, rawHeaders }: http.IncomingMessage): string {
  const lines = [`HTTP/1.1 ${statusCode} ${statusMessage}`]
  for (let at = 0; at < rawHeaders.length; at += 2) lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`)
  return `${lines.join('\r\n')}\r\n\r\n`
}
