import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import { Readable } from 'node:stream'
import type { Budget, Claim } from '../../base/budget.js'
import { gather, type Slices } from '../../base/async.js'
import { Refusal } from '../../base/errors.js'
import { JsonFault, strictJson } from '../../base/json.js'
import { networkOf } from './headers.js'
import {
  type BodyLimits,
  type BodySeal,
  type ClientAddress,
  type Method,
  pathSegments,
  publicBody,
  type Request,
  type Sink
} from './route.js'

/** What an exchange gets from its server. */
export interface ExchangeOptions {
  request: IncomingMessage
  response: ServerResponse
  /** Whether the client holds its body back until it gets `100 Continue`. */
  awaitsContinue: boolean
  /** The bytes after the head, if the request asks for a WebSocket. */
  upgradeHead?: Buffer | undefined
  bodyIdleMs: number
  /** The memory of all requests (memory.ts). */
  memory: Budget
  /** Refuses the caller of a body that has arrived if its rights have ended meanwhile (lasting.ts). */
  checkAgain(exchange: Exchange): void
  /** Returns the name of an authorized caller; undefined: nobody was authorized. */
  callerOf(actor: unknown): string | undefined
  client(request: IncomingMessage): ClientAddress
  /** Host and port of the public address if it begins with `https:`. */
  secureHost: string | undefined
}

/** Headers that say that a proxy has passed a request on. */
const ofProxies = ['x-forwarded-for', 'x-real-ip', 'x-forwarded-host', 'forwarded'] as const

/**
 * One request and its reply: what a handler sees of it (`Request`), and what the server needs to finish it. Expensive
 * parts are created when they are first used.
 */
export class Exchange implements Request {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly method: Method | 'HEAD'
  readonly client: ClientAddress
  /** Path as in the request, still encoded and with the base. */
  readonly rawPath: string
  /** Path below the base, still encoded. */
  belowPath = ''
  params: Readonly<Record<string, string>> = {}
  actor: unknown
  /** Body limits of the route. */
  bodyLimits: BodyLimits = publicBody
  /** Whether pages of any other origin may read the reply (`Route.cors`). */
  isForAnySite = false
  /** Whether the reply is a stream that continues until somebody stops it. */
  isLasting = false
  readonly startedAtMs = performance.now()
  /** Time when the last byte of the reply was written (`performance.now`), if the client stayed until then. */
  answeredAtMs: number | undefined
  /** Whether the answer counts in the memory of requests until its client has read it. */
  isUnreadHeld = false
  /** Whether the reply is written and only the rest of the body is being dropped. */
  isLingering = false
  /** Returns headers that every reply gets when its head is sent; undefined: none. */
  stamp: (() => Readonly<Record<string, string>>) | undefined
  /** Returns headers that follow the body of a stream; undefined: none. */
  trailers: (() => Readonly<Record<string, string>>) | undefined
  /** See ExchangeOptions. */
  readonly upgradeHead: Buffer | undefined
  readonly #options: ExchangeOptions
  readonly #search: string
  #query: URLSearchParams | undefined
  #body: RequestBody | undefined
  #abort: AbortController | undefined
  #abortReason: Error | undefined
  #awaitsContinue: boolean
  #held: Claim | undefined

  constructor(options: ExchangeOptions) {
    this.#options = options
    this.request = options.request
    this.response = options.response
    this.upgradeHead = options.upgradeHead
    this.method = options.request.method as Method
    // Read at once: a closed socket has no address any more, but the log needs it.
    this.client = options.client(options.request)
    this.#awaitsContinue = options.awaitsContinue
    const { path, search } = splitTarget(options.request.url ?? '/')
    this.rawPath = path
    this.#search = search
  }

  get headers(): IncomingHttpHeaders {
    return this.request.headers
  }

  get path(): string {
    const path = this.belowPath
    return path.includes('%') ? `/${pathSegments(path).join('/')}` : path
  }

  get query(): URLSearchParams {
    return (this.#query ??= new URLSearchParams(this.#search))
  }

  get isSecure(): boolean {
    if (this.client.hub !== undefined) return this.client.hub.isSecure
    if ((this.request.socket as Socket & { encrypted?: boolean }).encrypted === true) return true
    const proto = this.client.viaProxy ? this.headers['x-forwarded-proto'] : undefined
    if (typeof proto === 'string') return proto.split(',')[0]?.trim().toLowerCase() === 'https'
    // A proxy that does not say it. Who asks this machine directly, without one, has no public address.
    const { secureHost } = this.#options
    if (secureHost === undefined) return false
    const isPassedOn = this.client.viaProxy && ofProxies.some(name => this.headers[name] !== undefined)
    return isPassedOn || this.headers.host?.toLowerCase() === secureHost
  }

  get search(): string {
    return this.#search
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.#abortReason !== undefined) this.#abort.abort(this.#abortReason)
    }
    return this.#abort.signal
  }

  get body(): RequestBody {
    return (this.#body ??= new RequestBody(this.request, {
      limits: this.bodyLimits,
      seal: this.client.hub?.seal,
      idleMs: this.#options.bodyIdleMs,
      onWhole: () => this.#options.checkAgain(this),
      onFirstRead: () => {
        if (!this.#awaitsContinue) return
        this.#awaitsContinue = false
        if (!this.response.headersSent) this.response.writeContinue()
      }
    }))
  }

  json(): Promise<unknown> {
    return readJson(this.#whole)
  }

  bytes(): Promise<Buffer> {
    return readWhole(this.#whole)
  }

  get #whole(): Parameters<typeof readWhole>[0] {
    const hold = (bytes: number): void => this.hold(bytes)
    return { body: this.body, headers: this.request.headers, limits: this.bodyLimits, hold }
  }

  get caller(): string {
    const known = this.actor === undefined ? undefined : this.#options.callerOf(this.actor)
    return known ?? networkOf(this.client.witnessed)
  }

  hold(bytes: number): void {
    if (this.#held === undefined) this.#held = this.#options.memory.claim({ caller: this.caller }, bytes)
    else this.#held.add(bytes)
  }

  /** Gives back what the request holds. */
  letGo(): void {
    this.#held?.release()
    this.#held = undefined
  }

  /** Takes memory for an answer until its client has read it. Refuses as `hold`. */
  holdUnread(bytes: number): void {
    this.isUnreadHeld = true
    const { release } = this.#options.memory.claim({ caller: this.caller }, bytes)
    this.response.once('close', () => release())
  }

  /** Whether the client has gone, so that nobody waits for the reply. */
  get isGone(): boolean {
    return this.#abortReason !== undefined
  }

  /**
   * Whether the connection broke within the body. This is known a moment before the socket reports that it is closed.
   */
  get isCut(): boolean {
    return this.request.destroyed && !this.request.complete
  }

  /** Stops the handler's work, because nobody waits for the reply. Only the first reason is kept. */
  abort(reason: Error = clientGone()): void {
    if (this.#abortReason !== undefined) return
    this.#abortReason = reason
    this.#abort?.abort(reason)
  }

  /** Releases the connection from the body. A reader of the body fails. */
  releaseBody(): void {
    if (this.#body !== undefined && !this.#body.readableEnded) this.#body.destroy()
  }

  /**
   * Number of bytes of the body that have not arrived yet. Infinity if it is unknown, or if the client waits for a 100.
   */
  get unreadBytes(): number {
    const { headers, complete } = this.request
    if (complete || !hasBody(headers)) return 0
    const length = headers['content-length']
    if (length === undefined || this.#awaitsContinue) return Infinity
    return Number(length) - (this.#body?.receivedBytes ?? 0)
  }
}

/** Refuses a head that HTTP forbids although it could be parsed: 400 `invalid_request`. */
export function checkHead(request: IncomingMessage, exchange: Exchange): void {
  const { host } = request.headers
  if (host === undefined ? request.httpVersion !== '1.0' : !isHost(host) || countHosts(request.rawHeaders) > 1) {
    throw invalidRequest('it must have one Host header, as "name", "name:port" or "[address]:port"')
  }
  if (/[^\x21-\x7e]/.test(request.url ?? '/') || !exchange.rawPath.startsWith('/')) {
    throw invalidRequest('its target must be a path in percent-encoded ASCII')
  }
  if (exchange.search.includes('%')) checkQuery(exchange.search)
}

function isHost(host: string): boolean {
  return /^(?:[\w.~!$&'()*+,;=%-]*|\[[\da-fA-F:.]+\])(?::\d{0,5})?$/.test(host)
}

/** Counts Host headers. Node keeps the first of several and reports nothing. */
function countHosts(rawHeaders: readonly string[]): number {
  let count = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    if (name.length === 4 && name.toLowerCase() === 'host') count++
  }
  return count
}

function checkQuery(search: string): void {
  try {
    decodeURIComponent(search)
  } catch {
    throw invalidRequest('its query must be percent-encoded UTF-8')
  }
}

function invalidRequest(reason: string): Refusal {
  return new Refusal('invalid', 'invalid_request', `Cannot read the request: ${reason}`)
}

/**
 * Splits the request target (RFC 9112 §3.2): `/path?query`, or, as sent to a proxy, a whole address. Scheme and host of
 * the latter are ignored.
 */
function splitTarget(target: string): { path: string; search: string } {
  const absolute = target.startsWith('/') ? null : /^https?:\/\/[^/?#]*/i.exec(target)
  const local = absolute === null ? target : target.slice(absolute[0].length)
  const at = local.indexOf('?')
  const path = at === -1 ? local : local.slice(0, at)
  return { path: absolute !== null && path === '' ? '/' : path, search: at === -1 ? '' : local.slice(at + 1) }
}

const bufferedBytes = 64 * 1024

/** Limits and callbacks of a request body. */
interface BodyOptions {
  limits: BodyLimits
  /** Maximum time without data from the client while the server waits for it; then 408 `body_timeout`. */
  idleMs: number
  /** Checks a body that another hub of the cluster sent. Its signature is not part of the content. */
  seal?: BodySeal | undefined
  /** Called before the first byte is read. If the client waits for it, this sends `100 Continue`. */
  onFirstRead(): void
  /** Called when the last byte has arrived. Refuses what the reader then gets instead of the end. */
  onWhole(): void
}

/**
 * The body of a request, separate from its connection. Destroying the body (as a pipeline does when its other end
 * fails) leaves the socket open, so that the client can still be told why. Nothing is read until somebody asks. Fails
 * with the refusals `aborted` (the client went away) and `body_timeout`.
 */
class RequestBody extends Readable {
  /** Number of bytes of the content that were read from the connection so far. */
  receivedBytes = 0
  readonly #source: IncomingMessage
  readonly #options: BodyOptions
  #idle: NodeJS.Timeout | undefined
  #total: NodeJS.Timeout | undefined
  #isOurTurn = false
  #isEnded = false

  constructor(source: IncomingMessage, options: BodyOptions) {
    super({ highWaterMark: bufferedBytes })
    this.#source = source
    this.#options = options
    // The reader may have stopped listening before the body fails. That must not end the process.
    this.on('error', () => {})
  }

  override _read(): void {
    this.#isOurTurn = false
    if (this.#idle === undefined) this.#start()
    else if (this.#source.isPaused()) this.#resume()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearTimeout(this.#idle)
    clearTimeout(this.#total)
    this.#source.off('data', this.#take).off('end', this.#finish).off('close', this.#lose)
    if (!this.#isEnded) this.#source.pause()
    done(error)
  }

  #start(): void {
    if (this.#source.destroyed && !this.#source.readableEnded && !this.#source.complete) return this.#lose()
    this.#options.onFirstRead()
    const {
      idleMs,
      limits: { totalMs }
    } = this.#options
    this.#idle = setTimeout(this.#expire, idleMs)
    if (totalMs !== Infinity)
      this.#total = setTimeout(() => this.#fail(`it did not arrive within ${totalMs / 1000} s`), totalMs)
    this.#source.on('error', this.#lose).on('close', this.#lose).on('end', this.#finish).on('data', this.#take)
  }

  #resume(): void {
    this.#idle?.refresh()
    this.#source.resume()
  }

  readonly #take = (arrived: Buffer): void => {
    const chunk = this.#options.seal?.take(arrived) ?? arrived
    this.receivedBytes += chunk.length
    if (this.receivedBytes > this.#options.limits.maxBytes) return void this.destroy(tooLarge(this.#options.limits))
    this.#idle?.refresh()
    if (chunk.length === 0 || this.push(chunk)) return
    this.#isOurTurn = true
    this.#source.pause()
  }

  readonly #finish = (): void => {
    this.#isEnded = true
    clearTimeout(this.#idle)
    clearTimeout(this.#total)
    if (this.#options.seal?.isWhole() === false) return void this.destroy(notWhole())
    try {
      this.#options.onWhole()
    } catch (error) {
      return void this.destroy(error as Error)
    }
    this.push(null)
  }

  readonly #lose = (): void => {
    if (this.#isEnded || this.destroyed) return
    this.destroy(new Refusal('invalid', 'aborted', 'The body is incomplete: the connection was closed before its end'))
  }

  readonly #expire = (): void => {
    if (this.#isOurTurn) return void this.#idle?.refresh()
    this.#fail(`no data arrived for ${this.#options.idleMs / 1000} s`)
  }

  #fail(reason: string): void {
    this.destroy(new Refusal('timed_out', 'body_timeout', `The body is incomplete: ${reason}`))
  }
}

interface WholeBody {
  body: RequestBody
  headers: IncomingHttpHeaders
  limits: BodyLimits
  /** Takes memory, before the bytes that it is for. */
  hold(bytes: number): void
}

/** Reads the body as JSON. Returns undefined if there is none. Refuses: 415 `unsupported_type`, 413, 400 `invalid_body`. */
async function readJson(whole: WholeBody): Promise<unknown> {
  if (!hasBody(whole.headers)) return undefined
  checkType(whole.headers)
  return parseJson(await readWhole(whole))
}

/** Reads the whole body. Refuses: 413 `too_large`, before reading if the length is announced; what `hold` refuses. */
async function readWhole({ body, headers, limits, hold }: WholeBody): Promise<Buffer> {
  if (!hasBody(headers)) return Buffer.alloc(0)
  const announced = Number(headers['content-length'] ?? 0)
  if (announced > limits.maxBytes) throw tooLarge(limits)
  const gathered = gather(announced, hold)
  return await new Promise((resolve, reject) => {
    body.on('error', reject)
    body.on('data', (chunk: Buffer) => {
      try {
        gathered.add(chunk)
      } catch (error) {
        body.destroy(error as Error)
      }
    })
    body.on('end', () => resolve(gathered.bytes()))
  })
}

/** Whether the head announces a body (RFC 9112 §6.3). */
export function hasBody(headers: IncomingHttpHeaders): boolean {
  const length = headers['content-length']
  return headers['transfer-encoding'] !== undefined || (length !== undefined && Number(length) > 0)
}

function checkType(headers: IncomingHttpHeaders): void {
  const [type = '', ...parameters] = (headers['content-type'] ?? '')
    .toLowerCase()
    .split(';')
    .map(part => part.trim())
  const isJson = type === 'application/json' || /^application\/[^/]+\+json$/.test(type)
  const charset = parameters.find(parameter => parameter.startsWith('charset='))
  const isUtf8 = charset === undefined || /^charset="?utf-?8"?$/.test(charset)
  const encoding = headers['content-encoding'] ?? 'identity'
  if (isJson && isUtf8 && encoding === 'identity') return
  const sentence = 'Cannot read the body: it must be JSON in UTF-8, with "Content-Type: application/json"'
  throw new Refusal('unsupported_type', 'unsupported_type', sentence)
}

function parseJson(bytes: Buffer): unknown {
  try {
    return strictJson(bytes)
  } catch (fault) {
    if (!(fault instanceof JsonFault)) throw fault
    throw new Refusal('invalid', 'invalid_body', `Cannot read the body: ${fault.message}`, {
      cause: fault,
      ...(fault.field !== undefined && { field: fault.field })
    })
  }
}

function notWhole(): Refusal {
  const sentence = 'The body is not the one that the hub has signed: it was changed on the way'
  return new Refusal('forbidden', 'hub_refused', sentence)
}

function tooLarge({ maxBytes }: BodyLimits): Refusal {
  return new Refusal('too_large', 'too_large', `The body is too large: the maximum for JSON is ${maxBytes} bytes`)
}

/** What a sink needs: the response, and the signal that its client is gone. */
interface SinkOptions {
  response: ServerResponse
  signal: AbortSignal
  /** Shared by all streams of the server. */
  slices: Slices
  writeHead(): void
}

/** Returns the refusal that a handler gets when the client is gone. No client ever sees it. */
export function clientGone(): Refusal {
  return new Refusal('invalid', 'aborted', 'The reply is incomplete: the client closed the connection')
}

/** Creates a sink for a response. The first write sends the head, and a full buffer makes the writer wait. */
export function createSink({ response, signal, slices, writeHead }: SinkOptions): Sink {
  let draining: Promise<void> | undefined

  function drained(): Promise<void> {
    draining ??= new Promise<void>((resolve, reject) => {
      const settle = (): void => {
        draining = undefined
        response.off('drain', settle)
        signal.removeEventListener('abort', settle)
        if (signal.aborted) reject(signal.reason as Error)
        else resolve()
      }
      response.on('drain', settle)
      signal.addEventListener('abort', settle)
    })
    return draining
  }

  return {
    signal,
    sendHead() {
      if (signal.aborted || response.headersSent) return
      writeHead()
      response.flushHeaders()
    },
    async write(chunk) {
      if (signal.aborted) throw signal.reason
      const turn = slices.turn()
      if (turn !== undefined) {
        await turn
        if (signal.aborted) throw signal.reason
      }
      if (!response.headersSent) writeHead()
      if (!response.write(chunk)) await drained()
    }
  }
}
