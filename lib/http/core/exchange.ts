import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import { Refusal } from '../../base/refusal.js'
import type { Budget, Claim } from '../../base/budget.js'
import { hasBody, readJson, readWhole, RequestBody } from './body.js'
import { pathSegments } from './router.js'
import { publicBody, type BodyLimits, type ClientAddress, type Method, type Request } from './route.js'
import { clientGone } from './sink.js'
import { networkOf } from './client-address.js'

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
