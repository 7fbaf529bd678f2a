import { randomBytes } from 'node:crypto'
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerOptions as HttpOptions,
  type ServerResponse
} from 'node:http'
import type { Server as SecureServer } from 'node:https'
import type { AddressInfo, Server as NetServer, Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import type { Budget } from '../../base/budget.js'
import { Refusal } from '../../base/errors.js'
import { bunVersion } from '../../base/runtime.js'
import { createSlices } from '../../base/async.js'
import { takeUpgrade } from '../websocket/handshake.js'
import { answerAfterReading, answerBrokenRequest, endPipeline, isRefused, send, sendAtOnce } from './send.js'
import { createMemory, type MemoryLimits } from './memory.js'
import { checkHost, type Cidr, clientAddress, localClient, parseCidr } from './headers.js'
import {
  Connections,
  createCrowd,
  type Crowd,
  type CrowdLimits,
  crowdLimits,
  defaultLingerLimits,
  isOutOfDescriptors,
  type LingerLimits
} from './connections.js'
import { Dispatcher, type DispatchOptions, type Table } from './dispatch.js'
import { LastingRequests, type Standing } from './lasting.js'
import { checkHead, Exchange, type ExchangeOptions } from './exchange.js'
import { failureReply, refusalReply } from './reply.js'
import type { ClientAddress, Reply, Route } from './route.js'
import type { SocketPlace } from './listen.js'

interface ServerLimits {
  /** Maximum size of the whole head, request line and headers; then 431. */
  maxHeaderBytes: number
  /** Maximum time from the first byte of a head to its last; then 408. */
  headersMs: number
  /** Maximum time without a byte of a body that is being read; then 408, and the connection is closed. */
  bodyIdleMs: number
  /** Maximum time in which the client reads nothing of a reply; then the connection is closed. */
  stalledMs: number
  /**
   * Maximum time between two requests. Longer than the minute that proxies keep a connection, so that they close it
   * first.
   */
  keepAliveMs: number
  /**
   * Maximum number of requests that a client sends without reading the answers; then the connection ends after the last
   * of them.
   */
  maxPipelined: number
  /** Maximum time for which `close` waits for a handler whose connection is closed. */
  handlerMs: number
  linger: LingerLimits
  /** Limits of the memory of requests. Default: those of memory.ts. */
  memory?: MemoryLimits
  /** Limits of connections. Default: half of the process's descriptors, a quarter for anonymous clients. */
  crowd?: CrowdLimits
}

const defaultLimits: ServerLimits = {
  maxHeaderBytes: 16 * 1024,
  headersMs: 20_000,
  bodyIdleMs: 60_000,
  stalledMs: 10 * 60_000,
  keepAliveMs: 75_000,
  maxPipelined: 16,
  handlerMs: 5_000,
  linger: defaultLingerLimits
}

const complainEveryMs = 60_000

/** Events that the server reports. They never contain a query, because it may contain a ticket. */
export type ServerEvent =
  | {
      kind: 'request'
      method: string
      path: string
      /** 0 if the client was gone before there was a reply. */
      status: number
      /** Time until the last byte of the reply was written. */
      ms: number
      /** The witnessed address. A log that is used for banning must not contain what a client claims. */
      address: string
      /** Whether the reply is incomplete. */
      aborted: boolean
    }
  /** An internal error. `id` is what the client was told. */
  | { kind: 'failure'; id: string; method: string; path: string; error: unknown }
  /** The process or the system has no descriptor left. Reported at most once a minute. */
  | { kind: 'out_of_descriptors' }

export interface ServerOptions<R extends string, A> extends DispatchOptions<R, A> {
  /** Says whether the callers of requests that last are still accepted. Default: all are. */
  standing?: Standing<A>
  /** Returns the name of a caller, for what is counted per caller. Undefined, and the default: its network counts. */
  callerOf?(actor: A): string | undefined
  /**
   * Returns the trusted proxies as addresses and CIDR blocks. Called at every request; must return the same array until
   * it changes. Invalid entries are ignored.
   */
  trustedProxies(): readonly string[]
  /**
   * Returns the names that the server answers to, in lower case. Called at every request. Empty, and the default: all
   * names (headers.ts).
   */
  allowedHosts?(): readonly string[]
  /** The address under which users reach the server. If it begins with `https:`, their connections are encrypted. */
  publicUrl?: string | null
  /** In a cluster: what this hub does with requests. */
  hub?: HubSide<R, A>
  log(event: ServerEvent): void
  limits?: Partial<ServerLimits>
  /** Creates the server for encrypted connections: `createSecureServer`, which most servers need not load. */
  secure?(options: HttpOptions): SecureServer
}

/** The part of a hub that belongs to its HTTP server (server/serve-hub.ts). */
export interface HubSide<R extends string, A> {
  /** Returns the client if another hub sent the request, a refusal if that hub is not believed, and null if none did. */
  clientOf(request: IncomingMessage): ClientAddress | Refusal | null
  /** See `DispatchOptions.divert`. */
  divert(exchange: Exchange, route: Route<R, A>): Promise<Reply | undefined> | undefined
  /** Sets what the reply says about the state of this hub. */
  mark(exchange: Exchange): void
}

type Refused = Extract<Reply, { kind: 'json' }>

/** An HTTP/1.1 server for a table of routes. */
export class HttpServer<R extends string = string, A = unknown> {
  readonly #options: ServerOptions<R, A>
  readonly #limits: ServerLimits
  readonly #server: Server
  /** The event at which node:http begins to read requests from a connection. */
  readonly #arrival: 'connection' | 'secureConnection'
  readonly #dispatcher: Dispatcher<R, A>
  readonly #connections: Connections
  readonly #crowd: Crowd
  readonly #peerOf: ReturnType<typeof createPeers>
  readonly #slices = createSlices()
  readonly #memory: Budget
  readonly #lasting: LastingRequests<A>
  readonly #secureHost: string | undefined
  /** Connections of the owner's local socket. */
  readonly #local = new WeakSet<Socket>()
  /** Other servers whose connections are answered too. */
  readonly #adopted: NetServer[] = []
  #relievedAtMs = -Infinity
  #removeSocket: (() => Promise<void>) | undefined

  constructor(options: ServerOptions<R, A>) {
    this.#options = options
    this.#limits = { ...defaultLimits, ...options.limits }
    this.#memory = createMemory(this.#limits.memory)
    this.#lasting = new LastingRequests(options.standing ?? { version: () => '', check() {} })
    const { publicUrl = null } = options
    if (publicUrl?.startsWith('https:')) this.#secureHost = new URL(publicUrl).host
    this.#peerOf = createPeers(options.trustedProxies)
    this.#connections = new Connections(this.#limits)
    this.#crowd = createCrowd({
      limits: this.#limits.crowd ?? crowdLimits(),
      isBusy: socket => this.#connections.isBusy(socket)
    })
    const { hub } = options
    const divert = hub === undefined ? {} : { divert: hub.divert }
    this.#dispatcher = new Dispatcher(
      { ...options, ...divert },
      {
        anonymous: exchange => this.#markAnonymous(exchange),
        known: exchange => this.#crowd.mark(exchange.request.socket, null)
      }
    )
    const httpOptions: HttpOptions = {
      maxHeaderSize: this.#limits.maxHeaderBytes,
      headersTimeout: this.#limits.headersMs,
      // This would limit the whole request with its body. An upload may take hours; only its silences are limited.
      requestTimeout: 0,
      connectionsCheckingInterval: Math.min(5_000, this.#limits.headersMs),
      keepAliveTimeout: this.#limits.keepAliveMs,
      keepAlive: true,
      noDelay: true,
      // checkHead answers a missing Host with a JSON body.
      requireHostHeader: false
    }
    this.#server = options.secure?.(httpOptions) ?? createServer(httpOptions)
    this.#arrival = options.secure === undefined ? 'connection' : 'secureConnection'
    this.#listenToConnections()
    this.#listenToRequests()
  }

  /**
   * Listens on an address. Resolves with the bound address (port 0 chooses a free port). Refuses: 409 `address_in_use`,
   * 400 `invalid_address`.
   */
  listen({ host, port }: { host: string; port: number }): Promise<{ host: string; port: number }> {
    return new Promise((resolve, reject) => {
      const onError = (error: NodeJS.ErrnoException): void =>
        void import('./listen.js').then(({ listenError }) => reject(listenError(error, { host, port })), reject)
      this.#server.once('error', onError)
      this.#server.listen({ host, port, backlog: 511 }, () => {
        this.#server.off('error', onError)
        // Before the first request, because Node's expression for IPv6 takes 3 ms to compile (test/bench/start).
        setImmediate(this.#peerOf, '', {})
        resolve(this.address() as { host: string; port: number })
      })
    })
  }

  /**
   * Listens on a Unix socket. Its peers count as 127.0.0.1. `close` removes the file. Refuses as `listenOnSocket` does.
   */
  async listenOnSocket(place: SocketPlace): Promise<void> {
    const { listenOnSocket } = await import('./listen.js')
    this.#removeSocket = await listenOnSocket(this.#server, place)
  }

  /** Answers the connections of another server too: those of the owner's local socket. */
  serve(server: NetServer): void {
    this.#adopted.push(server)
    server.on('connection', this.#takeLocal)
  }

  /** Replaces a partial table by the whole one. The requests that waited for it are answered. */
  complete(table: Table<R, A>): void {
    this.#dispatcher.complete(table)
  }

  /** Returns the bound address, or undefined if the server does not listen on one. */
  address(): { host: string; port: number } | undefined {
    const bound = this.#server.address() as AddressInfo | string | null
    return bound === null || typeof bound === 'string' ? undefined : { host: bound.address, port: bound.port }
  }

  /**
   * Stops accepting connections, ends idle connections and lasting replies, and waits for the replies in progress, at
   * most `graceMs`. Then closes the remaining connections, and waits for their handlers, which have been told that the
   * client is gone, at most `handlerMs`. May be called again with a shorter time.
   */
  async close({ graceMs }: { graceMs: number }): Promise<void> {
    // The file is removed first: after the socket is closed, its name may belong to another server.
    await this.#removeSocket?.()
    if (this.#server.listening) this.#server.close()
    await this.#connections.drain(graceMs)
    for (const other of this.#adopted) other.off('connection', this.#takeLocal)
  }

  #listenToConnections(): void {
    const server = this.#server
    // A timeout is set while data waits to be written, and by Node for the silence between two requests.
    server.on('timeout', (socket: Socket) => this.#connections.expire(socket))
    server.on(this.#arrival, (socket: Socket) => {
      this.#connections.add(socket)
      const { witnessed, viaProxy } = this.#peerAt(socket, {})
      if (!this.#local.has(socket)) this.#crowd.add(socket, { address: witnessed, isProxy: viaProxy })
    })
    // A connection could not be accepted: no descriptor was left, or the client has gone. A failed `listen` has a
    // listener of its own.
    server.on('error', error => void (isOutOfDescriptors(error) && this.#relieve()))
    server.on('clientError', (error, socket) => answerAfterReading(error, socket as Socket, this.#connections))
    server.on('connect', (_request, socket) =>
      answerBrokenRequest(new Error('CONNECT'), socket as Socket, this.#connections)
    )
  }

  #listenToRequests(): void {
    const server = this.#server
    server.on('request', (request, response) => this.#answer(request, response, { awaitsContinue: false }))
    server.on('checkContinue', (request, response) => this.#answer(request, response, { awaitsContinue: true }))
    // RFC 9110 §10.1.1 allows a server to ignore an unknown expectation.
    server.on('checkExpectation', (request, response) => this.#answer(request, response, { awaitsContinue: false }))
    // Bun does not hand over the connection as Node does. Without a listener it answers like any request.
    if (bunVersion !== undefined) return
    server.on('upgrade', (request, socket, head) => {
      const response = takeUpgrade(this.#again, { request, socket: socket as Socket, head })
      if (response !== undefined) this.#answer(request, response, { awaitsContinue: false, upgradeHead: head })
    })
  }

  #answer(
    request: IncomingMessage,
    response: ServerResponse,
    asked: Pick<ExchangeOptions, 'awaitsContinue' | 'upgradeHead'>
  ): void {
    if (isRefused(request.socket)) return
    const exchange = new Exchange({
      request,
      response,
      awaitsContinue: asked.awaitsContinue,
      upgradeHead: asked.upgradeHead,
      bodyIdleMs: this.#limits.bodyIdleMs,
      memory: this.#memory,
      callerOf: this.#callerOf,
      checkAgain: this.#checkAgain,
      client: this.#clientOf,
      secureHost: this.#secureHost
    })
    this.#options.hub?.mark(exchange)
    if (!this.#connections.enter(exchange)) return endPipeline(request.socket, this.#connections)
    try {
      if (exchange.client.refusal !== undefined) throw exchange.client.refusal
      checkHead(request, exchange)
      checkHost(exchange, this.#options.allowedHosts?.() ?? [])
      const reply = this.#dispatcher.dispatch(exchange)
      const status = reply instanceof Promise ? undefined : sendAtOnce(exchange, reply, this.#connections)
      if (status === undefined) void this.#answerLater(exchange, reply)
      else this.#end(exchange, status)
      if (request.socket.writableLength > 0) this.#awaitReader(exchange)
    } catch (error) {
      void this.#answerLater(exchange, this.#refuse(exchange, error))
    }
  }

  /** The client has not read its answers. One that lets too many wait is cut. */
  #awaitReader(exchange: Exchange): void {
    const { socket } = exchange.request
    socket.setTimeout(this.#limits.stalledMs)
    if (exchange.response.writableFinished || exchange.isUnreadHeld) return
    try {
      exchange.holdUnread(exchange.response.writableLength)
    } catch {
      socket.destroy()
    }
  }

  async #answerLater(exchange: Exchange, coming: Reply | Promise<Reply>): Promise<void> {
    // Writing to a client that has just gone is not an error of the server. The socket reports that it is closed.
    exchange.response.on('error', () => {})
    exchange.request.socket.setTimeout(this.#limits.stalledMs)
    let status = 0
    this.#lasting.enter(exchange)
    try {
      const checked = this.#checked(exchange, coming)
      // Without a turn between, the first bytes of a reply are on their way before it can fail.
      const reply = checked instanceof Promise ? await checked : checked
      status = await send(exchange, reply, {
        linger: this.#limits.linger,
        slices: this.#slices,
        isStopping: this.#connections.isStopping,
        fail: (exchange, error) => this.#fail(exchange, error)
      })
    } catch (error) {
      this.#fail(exchange, error)
      exchange.response.destroy()
    }
    this.#lasting.leave(exchange)
    this.#end(exchange, status)
    if (exchange.request.socket.writableLength > 0) this.#awaitReader(exchange)
  }

  #checked(exchange: Exchange, coming: Reply | Promise<Reply>): Reply | Promise<Reply> {
    if (coming instanceof Promise)
      return coming.then(
        reply => this.#checked(exchange, reply),
        error => this.#refuse(exchange, error)
      )
    try {
      this.#lasting.beforeReply(exchange, coming)
      return coming
    } catch (error) {
      return this.#refuse(exchange, error)
    }
  }

  #end(exchange: Exchange, status: number): void {
    exchange.letGo()
    this.#connections.leave(exchange)
    const { method, rawPath: path, startedAtMs, answeredAtMs } = exchange
    const ms = (answeredAtMs ?? performance.now()) - startedAtMs
    const address = exchange.client.witnessed
    this.#options.log({ kind: 'request', method, path, status, ms, address, aborted: answeredAtMs === undefined })
  }

  #refuse(exchange: Exchange, error: unknown): Reply {
    if (!(error instanceof Refusal)) return this.#fail(exchange, error)
    if (error.kind === 'unauthorized') this.#markAnonymous(exchange)
    return refusalReply(error)
  }

  /** Logs an internal error under an id, and returns the reply that names the id. */
  #fail(exchange: Exchange, error: unknown): Refused {
    if (isOutOfDescriptors(error)) {
      this.#relieve()
      return refusalReply(outOfDescriptors(error))
    }
    const id = randomBytes(6).toString('hex')
    this.#options.log({ kind: 'failure', id, method: exchange.method, path: exchange.rawPath, error })
    return failureReply(id)
  }

  #markAnonymous(exchange: Exchange): void {
    this.#crowd.mark(exchange.request.socket, exchange.client.witnessed)
  }

  /**
   * Closes one connection to free a descriptor for connections that could not be accepted or files that could not be
   * opened.
   */
  #relieve(): void {
    this.#crowd.makeRoom()
    const nowMs = performance.now()
    if (nowMs - this.#relievedAtMs < complainEveryMs) return
    this.#relievedAtMs = nowMs
    this.#options.log({ kind: 'out_of_descriptors' })
  }

  readonly #clientOf = (request: IncomingMessage): ClientAddress => {
    const found = this.#options.hub?.clientOf(request) ?? null
    if (found !== null && !(found instanceof Refusal)) return found
    const peer = this.#peerAt(request.socket, request.headers)
    return found === null ? peer : { ...peer, refusal: found }
  }

  readonly #peerAt = (socket: Socket, headers: IncomingHttpHeaders): ClientAddress => {
    if (this.#local.has(socket)) return localClient
    // Only users of this machine can open the socket, so its clients count as 127.0.0.1.
    return this.#peerOf(this.#removeSocket === undefined ? (socket.remoteAddress ?? '') : '127.0.0.1', headers)
  }

  readonly #callerOf = (actor: unknown): string | undefined => this.#options.callerOf?.(actor as A)

  readonly #checkAgain = (exchange: Exchange): void => this.#lasting.check(exchange)

  readonly #again = (socket: Socket): void => void this.#server.emit(this.#arrival, socket)

  readonly #takeLocal = (socket: Socket): void => {
    if (this.#connections.isStopping) return void socket.destroy()
    this.#local.add(socket)
    this.#again(socket)
  }
}

function outOfDescriptors(cause: unknown): Refusal {
  const sentence = 'The server cannot open another file: too many open files. Try again later'
  return new Refusal('unavailable', 'out_of_descriptors', sentence, { cause, retryAfterSeconds: 5 })
}

/** Maximum number of peer addresses that are kept. Normally there are few (one, behind a proxy). */
const maxKnownPeers = 1000

/**
 * Creates `clientAddress` for a list of trusted proxies that may change at any time. For requests without proxy headers
 * the result is cached by peer.
 */
export function createPeers(
  read: () => readonly string[]
): (remote: string, headers: IncomingHttpHeaders) => ClientAddress {
  let seen: readonly string[] | undefined
  let trusted: readonly Cidr[] = []
  const direct = new Map<string, ClientAddress>()
  return (remote, headers) => {
    const now = read()
    if (now !== seen || direct.size > maxKnownPeers) {
      seen = now
      trusted = now.flatMap(text => parseCidr(text) ?? [])
      direct.clear()
    }
    const isDirect = headers['x-forwarded-for'] === undefined && headers['x-real-ip'] === undefined
    const known = isDirect ? direct.get(remote) : undefined
    if (known !== undefined) return known
    const found = clientAddress({ remote, headers, trusted })
    if (isDirect) direct.set(remote, Object.freeze(found))
    return found
  }
}
