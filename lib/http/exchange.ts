import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import { Refusal } from '../base/refusal.js'
import { hasBody, readJson, RequestBody } from './body.js'
import { pathSegments } from './router.js'
import { publicBody } from './route.js'
import type { BodyLimits, ClientAddress, Method, Request } from './route.js'
import { clientGone } from './sink.js'

/** What an exchange needs of its server. */
export interface ExchangeOptions {
  request: IncomingMessage
  response: ServerResponse
  /** The client holds its body back until it hears `100 Continue`. */
  awaitsContinue: boolean
  /** Of a request that asked for a WebSocket: what came behind its head. */
  upgradeHead?: Buffer | undefined
  bodyIdleMs: number
  client(socket: Socket, headers: IncomingHttpHeaders): ClientAddress
}

/**
 * One request and its reply: what a handler sees of it (`Request`), and what the server must know to finish it.
 * What costs something and may not be needed is made when it is first asked for.
 */
export class Exchange implements Request {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly method: Method | 'HEAD'
  readonly client: ClientAddress
  /** As it stands in the request, still encoded, with the base. */
  readonly rawPath: string
  /** Below the base, still encoded. */
  belowPath = ''
  params: Readonly<Record<string, string>> = {}
  actor: unknown
  /** Of the route. */
  bodyLimits: BodyLimits = publicBody
  /** Whether the reply is a stream that only ends when somebody stops it. */
  isLasting = false
  readonly startedAtMs = performance.now()
  /** When the last byte of the reply was written (`performance.now`), with nobody having left before. */
  answeredAtMs: number | undefined
  /** Whether the reply is written and only the rest of the body is being dropped. */
  isLingering = false
  /** See ExchangeOptions. */
  readonly upgradeHead: Buffer | undefined
  readonly #options: ExchangeOptions
  readonly #search: string
  #query: URLSearchParams | undefined
  #body: RequestBody | undefined
  #abort: AbortController | undefined
  #abortReason: Error | undefined
  #awaitsContinue: boolean

  constructor(options: ExchangeOptions) {
    this.#options = options
    this.request = options.request
    this.response = options.response
    this.upgradeHead = options.upgradeHead
    this.method = options.request.method as Method
    // At once: a socket that is closed has no address any more, and the log wants it.
    this.client = options.client(options.request.socket, options.request.headers)
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
    return this.#query ??= new URLSearchParams(this.#search)
  }

  get isSecure(): boolean {
    if ((this.request.socket as Socket & { encrypted?: boolean }).encrypted === true) return true
    const proto = this.client.viaProxy ? this.headers['x-forwarded-proto'] : undefined
    return typeof proto === 'string' && proto.split(',')[0]?.trim().toLowerCase() === 'https'
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
    return this.#body ??= new RequestBody(this.request, {
      limits: this.bodyLimits,
      idleMs: this.#options.bodyIdleMs,
      onFirstRead: () => {
        if (!this.#awaitsContinue) return
        this.#awaitsContinue = false
        if (!this.response.headersSent) this.response.writeContinue()
      }
    })
  }

  json(): Promise<unknown> {
    return readJson(this.body, this.request.headers, this.bodyLimits)
  }

  /** Whether nobody waits for the reply any more. */
  get isGone(): boolean {
    return this.#abortReason !== undefined
  }

  /** Whether the connection broke in the middle of the body: known a moment before the socket says that it is closed. */
  get isCut(): boolean {
    return this.request.destroyed && !this.request.complete
  }

  /** Stops the handler's work: nobody waits for it. The first reason stays. */
  abort(reason: Error = clientGone()): void {
    if (this.#abortReason !== undefined) return
    this.#abortReason = reason
    this.#abort?.abort(reason)
  }

  /** Gives back what the body holds of the connection; whoever still reads it fails. */
  releaseBody(): void {
    if (this.#body !== undefined && !this.#body.readableEnded) this.#body.destroy()
  }

  /** How many bytes of the body are still to come: Infinity when nobody knows, or when the client waits for a 100. */
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
    throw invalidRequest('a request names its host once, as "name", "name:port" or "[address]:port"')
  }
  if (/[^\x21-\x7e]/.test(request.url ?? '/') || !exchange.rawPath.startsWith('/')) {
    throw invalidRequest('its target must be a path in percent-encoded ASCII')
  }
  if (exchange.search.includes('%')) checkQuery(exchange.search)
}

function isHost(host: string): boolean {
  return /^(?:[\w.~!$&'()*+,;=%-]*|\[[\da-fA-F:.]+\])(?::\d{0,5})?$/.test(host)
}

/** Node keeps the first of several and says nothing. */
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
  return new Refusal('invalid', 'invalid_request', `The request cannot be read: ${reason}`)
}

/** RFC 9112 §3.2: `/path?query`, or, to a proxy, the whole address; then the rest of it is as good as the first form. */
function splitTarget(target: string): { path: string; search: string } {
  const absolute = target.startsWith('/') ? null : /^https?:\/\/[^/?#]*/i.exec(target)
  const local = absolute === null ? target : target.slice(absolute[0].length)
  const at = local.indexOf('?')
  const path = at === -1 ? local : local.slice(0, at)
  return { path: absolute !== null && path === '' ? '/' : path, search: at === -1 ? '' : local.slice(at + 1) }
}
