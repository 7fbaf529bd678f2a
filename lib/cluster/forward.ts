/*
 * Passes a request on to the leader of a cluster, and its answer back. Bodies and answers are streamed both ways with
 * backpressure, so an upload, NDJSON, server-sent events and a WebSocket take the same way. Each request has its own
 * connection: a reused one may be closed at the moment of a change, and then nobody knows whether the leader got it.
 *
 * The leader is believed in what it decides, not in what a browser does with it: its heads are read below.
 *
 * A failure before the request was sent, or of a read, is 503 `no_leader`: the client may repeat it. A failure of a
 * change after that is 503 `leader_lost`: the change may or may not have been made.
 */
import { metricsContentType } from '../operate/machine/metrics.js'
import * as http from 'node:http'
import type { IncomingHttpHeaders } from 'node:http'
import * as https from 'node:https'
import { isIP, type Socket } from 'node:net'
import type { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { withAnySignal } from '../base/async.js'
import { reasonOf, Refusal } from '../base/errors.js'
import { releaseSignatureHeader } from '../model/fleet-wire.js'
import { type Exchange, hasBody } from '../http/core/exchange.js'
import { setCookie } from '../http/core/headers.js'
import { type Headers, statusOf } from '../http/core/reply.js'
import type { Reply, Sink } from '../http/core/route.js'
import { acceptHead, acceptOf, asksForWebSocket, tokensOf } from '../http/websocket/handshake.js'
import {
  type AnswerHead,
  type AnswerRules,
  commonHeaders,
  pageTypes,
  readAnswerHead
} from '../http/outgoing/answer-head.js'
import { forwardedHeader, type HubSigner, type PassedClient, type Peer, signForHub, openHubUrl } from './forwarded.js'

interface ForwarderOptions {
  /** Signs for this hub. */
  signer: HubSigner
  /** The admin token: the credential of the local operator of this machine, whom another hub does not believe. */
  adminToken(): string
  /** Whether requests may cross the network unencrypted. */
  allowsHttp: boolean
  /** Certificates of the authorities that the other hubs are checked with, as PEM; undefined: those of the system. */
  ca?: string | undefined
  /** Maximum time until a connection is open. */
  connectMs?: number
  /** Maximum time in which nothing moves on a connection. */
  silentMs?: number
  /** Resolves when this hub has applied the writes up to a number. A client then reads what it wrote. */
  reached(sequence: number, signal: AbortSignal): Promise<void>
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
const loopback = '127.0.0.1'

/** Passes requests on to another hub. */
export class Forwarder {
  readonly #options: ForwarderOptions
  readonly #open = new Map<http.ClientRequest, string>()

  constructor(options: ForwarderOptions) {
    this.#options = options
  }

  /** Sends the request of an exchange, and returns the reply when the head of the answer has arrived. */
  async pass(exchange: Exchange, to: Peer): Promise<Reply> {
    if (isForSocket(exchange)) {
      return { kind: 'websocket', open: () => this.#passSocket(exchange, to) }
    }
    const { request, seal } = this.#begin(exchange, to)
    const cancel = (): void => void request.destroy()
    exchange.signal.addEventListener('abort', cancel, { once: true })
    request.once('close', () => exchange.signal.removeEventListener('abort', cancel))
    const answer = await answerTo({ request, seal }, exchange, to)
    if (exchange.method !== 'GET')
      await this.#follow(answer.headers[sequenceHeader] as string | undefined, exchange.signal)
    return this.#replyOf(exchange, answer, to)
  }

  /** Breaks the requests in progress to every hub but this one, because their leader is not the leader any more. */
  cut(except: string | null): void {
    const gone = new Error('the leader has changed')
    for (const [request, name] of this.#open) {
      if (name === except) continue
      request.destroy(gone)
      request.socket?.destroy()
    }
  }

  #begin(exchange: Exchange, to: Peer): Begun {
    const { method } = exchange
    const target = exchange.belowPath + (exchange.search === '' ? '' : `?${exchange.search}`)
    const url = openHubUrl(to.url, this.#options.allowsHttp)
    const headers = headersOf(exchange, this.#options.adminToken)
    const signed = signForHub(this.#options.signer, { to, client: clientOf(exchange) }, { method, target, headers })
    headers[forwardedHeader] = signed.header
    const length = headers['content-length']
    if (length !== undefined) headers['content-length'] = String(Number(length) + signed.tailBytes)
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
      ...(isSecure && { ca: this.#options.ca, ...(isIP(host) === 0 && { servername: host }) })
    })
    this.#open.set(request, to.name)
    request.once('close', () => void this.#open.delete(request))
    request.once('socket', socket => this.#limitSocket(request, socket, isSecure))
    return { request, seal: signed.seal }
  }

  #limitSocket(request: http.ClientRequest, socket: Socket, isSecure: boolean): void {
    const { connectMs = defaultConnectMs, silentMs = defaultSilentMs } = this.#options
    const late = setTimeout(() => request.destroy(new Error(`no connection within ${connectMs} ms`)), connectMs)
    socket.once(isSecure ? 'secureConnect' : 'connect', () => clearTimeout(late))
    socket.once('close', () => clearTimeout(late))
    socket.setKeepAlive(true, probeMs)
    socket.setTimeout(silentMs, () => request.destroy(new Error(`silent for ${silentMs / 1000} s`)))
  }

  /** Waits until this hub has applied what the answer includes. */
  async #follow(sequence: string | undefined, signal: AbortSignal): Promise<void> {
    if (sequence === undefined || !/^\d+$/.test(sequence)) return
    const limits = { signals: [signal], withinMs: maxReachMs }
    await withAnySignal(limits, limit => this.#options.reached(Number(sequence), limit)).catch(() => {})
  }

  #replyOf(exchange: Exchange, answer: http.IncomingMessage, to: Peer): Reply {
    const { status, headers, isLasting } = readOrDestroy(answer, () => readLeaderHead(answer, exchange, to.name))
    if (exchange.method === 'HEAD') answer.resume()
    return {
      kind: 'stream',
      status,
      headers,
      lasting: isLasting,
      run: async sink => {
        await copy(answer, sink)
        await this.#follow(answer.trailers[sequenceHeader], sink.signal)
      }
    }
  }

  /** Joins the connection of the client with one to the leader. */
  async #passSocket(exchange: Exchange, to: Peer): Promise<Reply | undefined> {
    const { request, seal } = this.#begin(exchange, to)
    const upgraded = new Promise<{ answer: http.IncomingMessage; socket: Socket; head: Buffer }>(resolve => {
      request.once('upgrade', (answer, socket, head) => resolve({ answer, socket: socket as Socket, head }))
    })
    const outcome = await Promise.race([upgraded, answerTo({ request, seal }, exchange, to)])
    if (!('head' in outcome)) return this.#replyOf(exchange, outcome, to)
    const { answer, socket: far, head } = outcome
    const accepted = readOrDestroy(far, () => readLeaderUpgrade(answer, exchange, to.name))
    this.#open.set(request, to.name)
    const near = exchange.request.socket
    exchange.response.detachSocket(near)
    near.setTimeout(0)
    far.setTimeout(this.#options.silentMs ?? defaultSilentMs, () => far.destroy())
    near.write(accepted)
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
    this.#open.delete(request)
    close()
    exchange.answeredAtMs = performance.now()
    return undefined
  }
}

/** A request whose body has not been sent, and what its body goes through. */
interface Begun {
  request: http.ClientRequest
  seal: () => Transform
}

/** Sends the body and resolves with the head of the answer. */
function answerTo({ request, seal }: Begun, exchange: Exchange, to: Peer): Promise<http.IncomingMessage> {
  return new Promise((resolve, reject) => {
    let isConnected = false
    // Nothing is sent before the certificate has been checked.
    const connected = to.url.startsWith('https:') ? 'secureConnect' : 'connect'
    request.once('socket', socket => socket.once(connected, () => (isConnected = true)))
    request.once('response', resolve)
    request.once('upgrade', (_, socket) => {
      if (isForSocket(exchange)) return
      socket.destroy()
      reject(leaderAnswer('its protocol was not asked for', exchange, to.name))
    })
    request.on('error', error => reject(lost(error, exchange, { to, isSent: isConnected })))
    request.once('close', () => reject(lost(new Error('connection closed'), exchange, { to, isSent: isConnected })))
    if (!hasBody(exchange.headers)) return void request.end()
    pipeline(exchange.body, seal(), request).catch(error => {
      // The leader may answer before it has read everything, and then close its side.
      if (error instanceof Refusal) reject(error)
    })
  })
}

function lost(error: unknown, exchange: Exchange, { to, isSent }: { to: Peer; isSent: boolean }): Refusal {
  if (error instanceof Refusal) return error
  if (isMalformed(error)) return leaderAnswer('it is not HTTP', exchange, to.name)
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

/** The local operator is a process of this machine for another hub, and nothing more. */
function clientOf({ client, isSecure }: Exchange): PassedClient {
  if (client.local) return { address: loopback, witnessed: loopback, viaProxy: false, isSecure }
  return { ...client, isSecure }
}

function isForSocket({ request, upgradeHead }: Exchange): boolean {
  return upgradeHead !== undefined && asksForWebSocket(request)
}

function headersOf(exchange: Exchange, adminToken: () => string): http.IncomingHttpHeaders {
  const { headers, client } = exchange
  const passed: http.IncomingHttpHeaders = {}
  // Who opens the local socket can read the token in the data directory.
  if (client.local && headers.authorization === undefined) passed.authorization = `Bearer ${adminToken()}`
  for (const [name, value] of Object.entries(headers)) {
    if (ownHeaders.has(name) || (proxyHeaders.has(name) && !client.viaProxy)) continue
    passed[name] = value
  }
  if (hasBody(headers) && headers['content-length'] === undefined) passed['transfer-encoding'] = 'chunked'
  if (isForSocket(exchange)) {
    passed['connection'] = 'Upgrade'
    passed['upgrade'] = 'websocket'
  }
  return passed
}

/** Whether Node's parser refused the answer. */
function isMalformed(error: unknown): boolean {
  return String((error as NodeJS.ErrnoException).code ?? '').startsWith('HPE_')
}

/** Returns what `read` returns. If it refuses, nobody reads the connection any more. */
function readOrDestroy<T>(connection: { destroy(): unknown }, read: () => T): T {
  try {
    return read()
  } catch (error) {
    connection.destroy()
    throw error
  }
}

/*
 * Reads what the leader of a cluster answers to a request that this hub passed on. Its machine may be taken over, and the
 * client trusts this hub: a browser shows the answer in this hub's origin. Only what the API answers passes.
 */

/** The request that the leader answers. */
interface AskedLeader {
  headers: IncomingHttpHeaders
  /** Path as in the request, with the base of this hub. */
  rawPath: string
  /** Path below the base. */
  belowPath: string
  method: string
}

/** The head of an answer of the leader. */
interface LeaderHead {
  statusCode?: number | undefined
  headers: IncomingHttpHeaders
}

const count = /^\d{1,16}$/
const signature64 = /^[A-Za-z0-9+/]{1,100}={0,2}$/
const rules: Omit<AnswerRules, 'refuse'> = {
  // A redirection would lead the client, and its token, elsewhere.
  statuses: new Set([200, 201, 202, 204, 206, 304, 500, ...Object.values(statusOf), 410, 416, 504]),
  types: new Map([...pageTypes, [metricsContentType, metricsContentType], ['text/plain', 'text/plain; charset=utf-8']]),
  fileTypes: /^(?:application\/(?:zip|gzip)|image\/(?:png|jpeg|gif|webp|avif|bmp|x-icon|svg\+xml))$/,
  headers: {
    ...commonHeaders,
    allow: /^[A-Z]{1,16}(?:, [A-Z]{1,16}){0,8}$/,
    'cache-control': /^(?:no-store|private, no-cache)$/,
    'content-encoding': /^gzip$/,
    'content-length': count,
    'sec-websocket-version': /^13$/,
    [releaseSignatureHeader]: signature64,
    'upload-offset': count,
    vary: /^accept-encoding$/,
    'www-authenticate': /^Bearer$/,
    'x-svc-deploy-id': /^[\w-]{1,100}$/,
    'x-svc-deploy-url': /^https?:\/\/[\x21-\x7e]{1,1000}$/,
    'x-svc-expected-bytes': count
  }
}

/** Reads the head of an answer. Refuses 502 `leader_answer` for what no route answers. */
export function readLeaderHead({ statusCode = 0, headers }: LeaderHead, asked: AskedLeader, name: string): AnswerHead {
  const refuse = (why: string): Refusal => leaderAnswer(why, asked, name)
  const given = { status: statusCode, headers }
  const head = readAnswerHead(given, { path: asked.belowPath, headers: asked.headers }, { ...rules, refuse })
  const cookie = cookieOf(headers['set-cookie'], asked)
  return cookie === undefined ? head : { ...head, headers: { ...head.headers, 'set-cookie': cookie } }
}

/**
 * Returns the head that turns the client's connection into a WebSocket, as this hub writes it. Refuses 502 `leader_answer`
 * if the leader has not agreed to the client's own handshake.
 */
export function readLeaderUpgrade({ statusCode, headers }: LeaderHead, asked: AskedLeader, name: string): string {
  const key = asked.headers['sec-websocket-key'] ?? ''
  const protocol = headers['sec-websocket-protocol'] ?? ''
  const isOffered = protocol === '' || tokensOf(asked.headers['sec-websocket-protocol'], false).includes(protocol)
  if (
    statusCode !== 101 ||
    headers['sec-websocket-accept'] !== acceptOf(key) ||
    headers['sec-websocket-extensions'] !== undefined ||
    !isOffered
  ) {
    throw leaderAnswer('it does not agree to the WebSocket that was asked for', asked, name)
  }
  return acceptHead(key, protocol)
}

/** Returns the refusal for an answer of the leader that this hub does not pass on. */
function leaderAnswer(why: string, { method }: Pick<AskedLeader, 'method'>, name: string): Refusal {
  const isRead = method === 'GET' || method === 'HEAD'
  const change = isRead ? '' : '. The change may or may not have been made'
  const sentence = `Cannot pass on the answer of the leader of the cluster, "${name}": ${why}. Look at that hub and what is between${change}`
  return new Refusal('bad_gateway', 'leader_answer', sentence)
}

const sessionCookie =
  /^((__Secure-)?svc_session_[\w-]{1,64})=([\w-]{0,100}); Path=\/[^;]{0,200}(?:; Max-Age=(\d{1,10}))?; HttpOnly; SameSite=Strict(; Secure)?$/

/** Returns the only cookie that the API sets, that of a session, for the base of this hub. */
function cookieOf(given: readonly string[] | undefined, asked: AskedLeader): Headers[string] | undefined {
  const [only = '', ...more] = given ?? []
  const found = more.length === 0 ? sessionCookie.exec(only) : null
  if (found === null) return undefined
  const [, name = '', prefix, value = '', age, secure] = found
  if ((prefix === undefined) !== (secure === undefined)) return undefined
  const base = asked.rawPath.slice(0, asked.rawPath.length - asked.belowPath.length)
  const maxAgeSeconds = age === undefined ? null : Number(age)
  return setCookie({ name, value, path: `${base}/`, isSecure: secure !== undefined, maxAgeSeconds })
}
