import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { IncomingHttpHeaders, IncomingMessage, ServerOptions as HttpOptions, ServerResponse } from 'node:http'
import type { Server as SecureServer } from 'node:https'
import type { AddressInfo, Server as NetServer, Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import { Refusal } from '../base/refusal.js'
import { createSlices } from '../base/slices.js'
import { bunVersion } from '../base/runtime.js'
import { belowBase } from './base-path.js'
import { answerBrokenRequest, endPipeline, isRefused } from './broken-request.js'
import { localClient } from './client-address.js'
import { createConnections } from './connections.js'
import { createCrowd } from './crowd.js'
import type { CrowdLimits } from './crowd.js'
import { crowdLimits, isOutOfDescriptors } from './descriptors.js'
import { checkHead, Exchange } from './exchange.js'
import type { ExchangeOptions } from './exchange.js'
import { checkHost } from './host.js'
import { defaultLingerLimits } from './linger.js'
import type { LingerLimits } from './linger.js'
import { createPeers } from './peers.js'
import { hasTag } from './conditional.js'
import { corsHeaders, failureReply, methodReply, preflightReply, refusalReply } from './reply.js'
import { jsonBody, publicBody } from './route.js'
import type { BodyLimits, ClientAddress, Reply, RequestFacts, Request, Route } from './route.js'
import { createRouter } from './router.js'
import { send, sendAtOnce } from './send.js'
import type { SocketPlace } from './socket-file.js'
import { takeUpgrade } from './websocket/upgrade.js'

export interface ServerLimits {
  /** The whole head: request line and headers; then 431. */
  maxHeaderBytes: number
  /** From the first byte of a head to its last; then 408. */
  headersMs: number
  /** Without a byte of a body that is being read; then 408 and the connection is closed. */
  bodyIdleMs: number
  /** Without a byte taken of a reply that is being written; then the connection is closed. */
  stalledMs: number
  /** Between two requests. Longer than the minute that proxies keep a connection, so that it is they who close it. */
  keepAliveMs: number
  /** Requests that a client sends without reading the answers; then the connection ends behind the last of these. */
  maxPipelined: number
  linger: LingerLimits
  /** Connections; default: half of the process's descriptors, a quarter for anonymous clients. */
  crowd?: CrowdLimits
}

export const defaultLimits: ServerLimits = {
  maxHeaderBytes: 16 * 1024,
  headersMs: 20_000,
  bodyIdleMs: 60_000,
  stalledMs: 10 * 60_000,
  keepAliveMs: 75_000,
  maxPipelined: 16,
  linger: defaultLingerLimits
}

/** Answers hold secrets, so browsers keep none on a disk; the panel keeps what it may ask for again in memory. */
const notStored = { 'cache-control': 'no-store', vary: 'accept-encoding' }
const complainEveryMs = 60_000

/** What the server tells about its work. No query is ever in it: a ticket may be. */
export type ServerEvent =
  | {
      kind: 'request'
      method: string
      path: string
      /** 0 when the client was gone before there was a reply. */
      status: number
      /** Until the last byte of the reply was written. */
      ms: number
      /** Witnessed: what a client claims is not in a log that bans by it. */
      address: string
      /** Whether the reply is incomplete. */
      aborted: boolean
    }
  /** A bug: `id` is what the client was told. */
  | { kind: 'failure'; id: string; method: string; path: string; error: unknown }
  /** The process, or the system, has no descriptor left: at most once a minute. */
  | { kind: 'out_of_descriptors' }

/** What a server answers. */
export interface Table<R extends string, A> {
  routes: ReadonlyArray<Route<R, A>>
  /** Answers GET and HEAD where no route's path fits: the static files. */
  fallback?(request: Request): Promise<Reply | undefined>
}

export interface ServerOptions<R extends string, A> extends Table<R, A> {
  /** Whether this is only what can be answered at once: who asks for anything else waits for `complete`. */
  isPartial?: boolean
  /** As `normaliseBase` gives it. */
  base: string
  /** Who sent the request, as far as this route wants to know; a refusal stops it. Called before the body is read. */
  authorize(route: Route<R, A>, facts: RequestFacts): A | Promise<A>
  /** Aborted when what authorised the request ends, although its reply lasts: then the connection is closed. */
  lifeOf?(actor: A): AbortSignal | undefined
  /** Addresses and CIDR, the same array until they change; asked at every request. Garbage in it is ignored. */
  trustedProxies(): readonly string[]
  /** Names that the server answers to, in lower case, asked for at every request; default, and if empty: all (host.ts). */
  allowedHosts?(): readonly string[]
  log(event: ServerEvent): void
  limits?: Partial<ServerLimits>
  /** What connections speak below HTTP, if anything: `createSecureServer`, which most servers need not load. */
  secure?(options: HttpOptions): SecureServer
}

export interface HttpServer<R extends string = string, A = unknown> {
  /** Refuses: 409 `address_in_use`, 400 `invalid_address`. Resolves with where it really listens (port 0: any). */
  listen(options: { host: string; port: number }): Promise<{ host: string; port: number }>
  /** On a Unix socket; refuses as `listenOnSocket`. Its peers count as 127.0.0.1. `close` removes the file. */
  listenOnSocket(place: SocketPlace): Promise<void>
  /** Answers the connections of another server too: those of the owner's local socket. */
  serve(server: NetServer): void
  /** The whole table in place of a partial one; those who waited for it are answered. */
  complete(table: Table<R, A>): void
  address(): { host: string; port: number } | undefined
  /**
   * Accepts nothing more, ends what is idle and what lasts, and waits for the replies in progress, at most `graceMs`;
   * then breaks them off. May be called again with a shorter grace.
   */
  close(options: { graceMs: number }): Promise<void>
}

/** An HTTP/1.1 server for a table of routes. */
export function createHttpServer<R extends string, A>(options: ServerOptions<R, A>): HttpServer<R, A> {
  const { base, authorize, log, allowedHosts = () => [] } = options
  const limits = { ...defaultLimits, ...options.limits }
  let { fallback } = options
  let router = createRouter(options.routes)
  let finish = (): void => {}
  let completion = options.isPartial ? new Promise<void>(resolve => void (finish = resolve)) : null
  const clientOf = createPeers(options.trustedProxies)
  const connections = createConnections(limits)
  const slices = createSlices()
  const crowd = createCrowd({
    limits: limits.crowd ?? crowdLimits(),
    isBusy: socket => connections.isBusy(socket)
  })
  const local = new WeakSet<Socket>()
  const adopted: NetServer[] = []
  /** A version is good within this process only. */
  const startId = randomBytes(6).toString('base64url')
  let relievedAtMs = -Infinity
  let removeSocket: (() => Promise<void>) | undefined

  const httpOptions: HttpOptions = {
    maxHeaderSize: limits.maxHeaderBytes,
    headersTimeout: limits.headersMs,
    // Of the whole request, bodies included: an upload may take hours, only its silences are limited.
    requestTimeout: 0,
    connectionsCheckingInterval: Math.min(5_000, limits.headersMs),
    keepAliveTimeout: limits.keepAliveMs,
    keepAlive: true,
    noDelay: true,
    // Ours is answered with a JSON body, see checkHead.
    requireHostHeader: false
  }
  const server = options.secure?.(httpOptions) ?? createServer(httpOptions)
  // What node:http reads requests from.
  const arrival = options.secure === undefined ? 'connection' : 'secureConnection'
  // Set below, where something waits to be written, and by Node for the silence between two requests.
  server.on('timeout', (socket: Socket) => connections.expire(socket))
  server.on(arrival, (socket: Socket) => {
    connections.add(socket)
    const { witnessed, viaProxy } = client(socket, {})
    if (!local.has(socket)) crowd.add(socket, { address: witnessed, isProxy: viaProxy })
  })
  // A connection could not be accepted: for want of descriptors, or because it has gone already. A failed `listen` has
  // a listener of its own.
  server.on('error', error => void (isOutOfDescriptors(error) && relieve()))
  server.on('request', (request, response) => answer(request, response, { awaitsContinue: false }))
  server.on('checkContinue', (request, response) => answer(request, response, { awaitsContinue: true }))
  // RFC 9110 §10.1.1 lets a server ignore an expectation it does not know.
  server.on('checkExpectation', (request, response) => answer(request, response, { awaitsContinue: false }))
  // Bun does not give the connection away as Node does; without a listener it answers like any request.
  if (bunVersion === undefined) server.on('upgrade', (request, socket, head) => {
    const response = takeUpgrade(again, { request, socket: socket as Socket, head })
    if (response !== undefined) answer(request, response, { awaitsContinue: false, upgradeHead: head })
  })
  server.on('clientError', (error, socket) => answerBrokenRequest(error, socket as Socket, connections))
  server.on('connect', (_request, socket) => answerBrokenRequest(new Error('CONNECT'), socket as Socket, connections))

  function answer(
    request: IncomingMessage, response: ServerResponse, asked: Pick<ExchangeOptions, 'awaitsContinue' | 'upgradeHead'>
  ): void {
    if (isRefused(request.socket)) return
    const exchange = new Exchange({
      request, response, awaitsContinue: asked.awaitsContinue, upgradeHead: asked.upgradeHead, bodyIdleMs: limits.bodyIdleMs, client
    })
    if (!connections.enter(exchange)) return endPipeline(request.socket, connections)
    try {
      checkHead(request, exchange)
      checkHost(exchange, allowedHosts())
      const reply = route(exchange)
      const status = reply instanceof Promise ? undefined : sendAtOnce(exchange, reply, connections)
      if (status === undefined) void answerLater(exchange, reply)
      else end(exchange, status)
      if (request.socket.writableLength > 0) request.socket.setTimeout(limits.stalledMs)
    } catch (error) {
      void answerLater(exchange, refuse(exchange, error))
    }
  }

  async function answerLater(exchange: Exchange, coming: Reply | Promise<Reply>): Promise<void> {
    // Writing to a client that has just gone is no error of ours; its going is noticed at the socket.
    exchange.response.on('error', () => {})
    exchange.request.socket.setTimeout(limits.stalledMs)
    let status = 0
    try {
      const reply = coming instanceof Promise ? await coming.catch((error: unknown) => refuse(exchange, error)) : coming
      status = await whileAlive(exchange, reply, () =>
        send(exchange, reply, { ...limits, slices, isStopping: connections.isStopping, fail }))
    } catch (error) {
      fail(exchange, error)
      exchange.response.destroy()
    }
    end(exchange, status)
  }

  /** A reply that lasts ends with what authorised it. */
  async function whileAlive(exchange: Exchange, reply: Reply, work: () => Promise<number>): Promise<number> {
    const isLong = reply.kind === 'stream' || reply.kind === 'websocket'
    const life = isLong && exchange.actor !== undefined ? options.lifeOf?.(exchange.actor as A) : undefined
    if (life === undefined) return await work()
    const cut = (): void => void exchange.request.socket.destroy()
    life.addEventListener('abort', cut, { once: true })
    try {
      return await work()
    } finally {
      life.removeEventListener('abort', cut)
    }
  }

  function end(exchange: Exchange, status: number): void {
    connections.leave(exchange)
    const { method, rawPath: path, startedAtMs, answeredAtMs } = exchange
    const ms = (answeredAtMs ?? performance.now()) - startedAtMs
    log({ kind: 'request', method, path, status, ms, address: exchange.client.witnessed, aborted: answeredAtMs === undefined })
  }

  function refuse(exchange: Exchange, error: unknown): Reply {
    if (!(error instanceof Refusal)) return fail(exchange, error)
    if (error.kind === 'unauthorized') markAnonymous(exchange)
    return refusalReply(error)
  }

  function markAnonymous(exchange: Exchange): void {
    crowd.mark(exchange.request.socket, exchange.client.witnessed)
  }

  /** Closes a connection in favour of those that could not be accepted, or of the files that could not be opened. */
  function relieve(): void {
    crowd.makeRoom()
    const nowMs = performance.now()
    if (nowMs - relievedAtMs < complainEveryMs) return
    relievedAtMs = nowMs
    log({ kind: 'out_of_descriptors' })
  }

  function route(exchange: Exchange): Reply | Promise<Reply> {
    // The local operator does not know under which prefix the server runs.
    const path = belowBase(base, exchange.rawPath) ?? (exchange.client.local ? exchange.rawPath : undefined)
    if (path === undefined) throw nothingHere(exchange)
    if (path === '') return toPanel(exchange)
    exchange.belowPath = path
    const match = router.match(exchange.method, path)
    if (match.outcome !== 'route' && completion !== null) return completion.then(() => route(exchange))
    if (match.outcome !== 'route' || isPublic(match.route)) markAnonymous(exchange)
    if (match.outcome === 'method') return answerMethod(exchange, match)
    if (match.outcome === 'none') return fallBack(exchange)
    exchange.params = match.params
    exchange.bodyLimits = limitsOf(match.route)
    if (match.route.cors) for (const name in corsHeaders) exchange.response.setHeader(name, corsHeaders[name] as string)
    const actor = authorize(match.route, exchange)
    if (actor instanceof Promise) return actor.then(actor => handle(match.route, exchange, actor))
    return handle(match.route, exchange, actor)
  }

  function handle(row: Route<R, A>, exchange: Exchange, actor: A): Reply | Promise<Reply> {
    exchange.actor = actor
    if (!isPublic(row)) crowd.mark(exchange.request.socket, null)
    const request = exchange as Request<A>
    const version = row.version?.(request) ?? null
    if (version === null) return row.handle(request)
    // Taken before the handler reads: what is written meanwhile makes the tag old, never the answer.
    const etag = `W/"${startId}-${version}"`
    if (hasTag(request.headers, etag)) return { kind: 'empty', status: 304, headers: { ...notStored, etag } }
    const reply = row.handle(request)
    return reply instanceof Promise ? reply.then(reply => tagged(reply, etag)) : tagged(reply, etag)
  }

  function answerMethod(exchange: Exchange, { allow, cors }: { allow: string; cors: string }): Reply {
    const isPreflight = cors !== '' && (exchange.method as string) === 'OPTIONS'
    return isPreflight ? preflightReply(cors) : methodReply(exchange.method, allow)
  }

  async function fallBack(exchange: Exchange): Promise<Reply> {
    const isRead = exchange.method === 'GET' || exchange.method === 'HEAD'
    const reply = isRead ? await fallback?.(exchange) : undefined
    if (reply === undefined) throw nothingHere(exchange)
    return reply
  }

  /** `/a` means `/a/`: relative addresses in the page need the slash. */
  function toPanel(exchange: Exchange): Reply {
    if (exchange.method !== 'GET' && exchange.method !== 'HEAD') throw nothingHere(exchange)
    const search = exchange.search === '' ? '' : `?${exchange.search}`
    return { kind: 'empty', status: 308, headers: { location: `${base}/${search}` } }
  }

  /** Tells the log about a bug, and the client under which id. */
  function fail(exchange: Exchange, error: unknown): Extract<Reply, { kind: 'json' }> {
    if (isOutOfDescriptors(error)) {
      relieve()
      return refusalReply(outOfDescriptors(error))
    }
    const id = randomBytes(6).toString('hex')
    log({ kind: 'failure', id, method: exchange.method, path: exchange.rawPath, error })
    return failureReply(id)
  }

  function client(socket: Socket, headers: IncomingHttpHeaders): ClientAddress {
    if (local.has(socket)) return localClient
    // Who may open the socket is on this machine, like who comes from 127.0.0.1.
    return clientOf(removeSocket === undefined ? socket.remoteAddress ?? '' : '127.0.0.1', headers)
  }

  const again = (socket: Socket): void => void server.emit(arrival, socket)

  const takeLocal = (socket: Socket): void => {
    if (connections.isStopping) return void socket.destroy()
    local.add(socket)
    again(socket)
  }

  function address(): { host: string; port: number } | undefined {
    const bound = server.address() as AddressInfo | string | null
    return bound === null || typeof bound === 'string' ? undefined : { host: bound.address, port: bound.port }
  }

  return {
    address,
    complete(table) {
      router = createRouter(table.routes)
      fallback = table.fallback
      completion = null
      finish()
    },
    listen: ({ host, port }) =>
      new Promise((resolve, reject) => {
        const onError = (error: NodeJS.ErrnoException): void =>
          void import('./listen-address.js').then(({ listenError }) => reject(listenError(error, { host, port })), reject)
        server.once('error', onError)
        server.listen({ host, port, backlog: 511 }, () => {
          server.off('error', onError)
          // Before anybody asks: Node's expression for IPv6 takes 3 ms to compile (test/bench/start).
          setImmediate(clientOf, '', {})
          resolve(address() as { host: string; port: number })
        })
      }),
    async listenOnSocket(place) {
      const { listenOnSocket } = await import('./socket-file.js')
      removeSocket = await listenOnSocket(server, place)
    },
    serve(other) {
      adopted.push(other)
      other.on('connection', takeLocal)
    },
    async close({ graceMs }) {
      // The name goes first: once the socket is closed, the name may be another server's.
      await removeSocket?.()
      if (server.listening) server.close()
      await connections.drain(graceMs)
      for (const other of adopted) other.off('connection', takeLocal)
    }
  }
}

function isPublic({ auth }: Pick<Route, 'auth'>): boolean {
  return auth === 'public'
}

function limitsOf(route: Route): BodyLimits {
  return route.body ?? (isPublic(route) ? publicBody : jsonBody)
}

function tagged(reply: Reply, etag: string): Reply {
  if (reply.kind !== 'json' || reply.status !== 200) return reply
  return { kind: 'json', status: 200, body: reply.body, headers: reply.headers, etag }
}

function outOfDescriptors(cause: unknown): Refusal {
  const sentence = 'The server cannot open another file: its limit of open files is reached. Try again later'
  return new Refusal('unavailable', 'out_of_descriptors', sentence, { cause, retryAfterSeconds: 5 })
}

function nothingHere(exchange: Exchange): Refusal {
  const path = exchange.rawPath.slice(0, 200)
  return new Refusal('not_found', 'not_found', `Nothing is at this address: ${exchange.method} ${path}`)
}
