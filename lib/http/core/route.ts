import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { Refusal } from '../../base/errors.js'

/** Methods that a route can have. */
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** Where a request came from, as seen through trusted proxies. */
export interface ClientAddress {
  /**
   * The first entry of X-Forwarded-For, or X-Real-IP, if the peer is a trusted proxy; otherwise the address of the
   * socket.
   */
  address: string
  /** The right-most address that no trusted proxy has written. A client cannot forge it. */
  witnessed: string
  /** Whether the peer itself is a trusted proxy. */
  viaProxy: boolean
  /** Whether the request came through the owner's local socket. Then both addresses are `local`. */
  local: boolean
  /** Set if another hub of the cluster sent the request (cluster/forwarded.ts). */
  hub?: HubFacts
  /** Set if the request says that a hub sent it, and is not believed. */
  refusal?: Error
}

/** What a hub says about a request that it sent. */
export interface HubFacts {
  name: string
  /** Whether the request is its own. Otherwise it passes on the request of a client, whose address this is. */
  isOwn: boolean
  /** Whether the connection of the client to the hub is encrypted. */
  isSecure: boolean
  /** Checks the body, whose signature follows it; undefined: there is no body. */
  seal?: BodySeal
}

/** Separates a body from the signature that follows it, and checks it. */
export interface BodySeal {
  /** Length of the signature. */
  readonly tailBytes: number
  /** Takes the next bytes, and returns those that are surely content. */
  take(chunk: Buffer): Buffer
  /** Whether the signature is right, once everything was taken. */
  isWhole(): boolean
}

/** A request as a handler sees it. `A` is the result of the route's authorization. */
export interface Request<A = unknown> {
  readonly method: Method | 'HEAD'
  /** Path below the base, percent-decoded and normalised. */
  readonly path: string
  /** Path below the base, still percent-encoded. */
  readonly belowPath: string
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly headers: IncomingHttpHeaders
  readonly client: ClientAddress
  /** Whether the client's own connection is encrypted, or a trusted proxy says that it is (X-Forwarded-Proto). */
  readonly isSecure: boolean
  readonly actor: A
  /** Aborted if the client goes away before the reply is complete. */
  readonly signal: AbortSignal
  /**
   * The unread body. Destroying it leaves the connection usable for the reply. Fails: `aborted`, 408 `body_timeout`.
   */
  readonly body: Readable
  /** Who sent the request, for what is counted per caller: a token, a session's token, a node or a network. */
  readonly caller: string
  /**
   * Takes memory for the request until its reply has been sent or its client is gone (memory.ts). Refuses: 429
   * `too_much_at_once`, 503 `server_full`.
   */
  hold(bytes: number): void
  /** Reads the whole body, within the route's limits. Refuses: 413 `too_large`, and what `hold` refuses. */
  bytes(): Promise<Buffer>
  /**
   * Reads the body as JSON, within the route's limits. Refuses: 400 `invalid_body`, 415 `unsupported_type`, and what
   * `bytes` refuses.
   */
  json(): Promise<unknown>
}

/** What is known of a request before its body is read. An authorization may use only this. */
export type RequestFacts = Pick<Request, 'method' | 'path' | 'params' | 'query' | 'headers' | 'client'>

/** A request whose connection may leave HTTP. The code that takes over the connection sets the last two fields. */
export interface UpgradeRequest extends Request {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** The bytes that followed the head; undefined if the runtime cannot hand over the connection. */
  readonly upgradeHead: Buffer | undefined
  /** Whether the reply continues until somebody stops it. */
  isLasting: boolean
  /** When the connection was finished, by `performance.now()`. */
  answeredAtMs: number | undefined
}

/** The destination of a streaming reply. */
export interface Sink {
  /**
   * Writes a chunk. The first one also sends the head. Resolves when more may be written (backpressure); rejects if the
   * client is gone.
   */
  write(chunk: string | Uint8Array): Promise<void>
  /** Sends the head now. After that, an error cannot become another answer. */
  sendHead(): void
  readonly signal: AbortSignal
}

/**
 * What a handler returns. Only `http/` turns it into bytes. Header names are compared without regard to case, and take
 * precedence over the defaults.
 */
export type Reply =
  | {
      kind: 'json'
      status: number
      body: unknown
      headers?: Record<string, string> | undefined
      etag?: string
      /** The JSON of `body`, if it is known. */
      text?: string | undefined
    }
  /** `isPanel`: it is a file of the panel, which has its own content security policy. */
  | { kind: 'bytes'; status: number; body: Uint8Array; headers: Record<string, string>; isPanel?: boolean }
  /**
   * A refusal before the first write becomes an ordinary error reply; an error after it breaks the connection. `run` is
   * not called if the client is gone, so what must be closed is opened there.
   */
  | {
      kind: 'stream'
      status: number
      headers: Record<string, string>
      /** Whether the stream continues until somebody stops it. A server that shuts down ends it at once. */
      lasting?: boolean
      /** What it holds while its client does not read, if its blocks are larger than `streamBytes` (memory.ts). */
      heldBytes?: number
      run: (sink: Sink) => Promise<void>
    }
  /** A file (http/static/file.ts). `open` returns the reply for this request. */
  | { kind: 'file'; open(request: Pick<Request, 'headers' | 'method'>): Promise<Reply> }
  | { kind: 'empty'; status: number; headers?: Record<string, string>; isPanel?: boolean }
  /**
   * The connection leaves HTTP (websocket/handshake.ts). `open` resolves with undefined when the connection is closed,
   * or with the reply that is sent instead. It reports internal errors to `fail`. This kind and `file` carry their own
   * opening function, so that a server can listen before that code is loaded (test/bench/start).
   */
  | { kind: 'websocket'; open(request: UpgradeRequest, fail: (error: unknown) => void): Promise<Reply | undefined> }

/** What a route accepts as the body of a request. */
export interface BodyLimits {
  /** Maximum size in bytes; then 413 `too_large`. Infinity: the handler streams the body and has limits of its own. */
  maxBytes: number
  /**
   * Maximum time from the first read to the last byte; then 408 `body_timeout`. Infinity: only silences are limited.
   */
  totalMs: number
}

/** Limits of a JSON body from an authenticated client (decisions §1). */
export const jsonBody: BodyLimits = { maxBytes: 1024 * 1024, totalMs: Infinity }
/** Limits of a body from anybody: small and short. */
export const publicBody: BodyLimits = { maxBytes: 8 * 1024, totalMs: 20_000 }
/** Limits of a body that the handler reads as it arrives: an upload. */
export const streamedBody: BodyLimits = { maxBytes: Infinity, totalMs: Infinity }

/**
 * One row of a route table. `R` is the type of the authorization. `auth` is required, so that a route without a
 * decision does not compile. The token is checked before the body is read.
 */
export interface Route<R extends string = string, A = unknown> {
  method: Method
  /** Path with parameters as `:name`: `/api/projects/:id`. A last segment `*name` matches the rest of the path. */
  path: string
  /** Authorization of the route. `public`: anybody may call it, and the connection stays anonymous (connections.ts). */
  auth: R
  /** Default: `publicBody` if `auth` is `public`, otherwise `jsonBody`. */
  body?: BodyLimits
  /**
   * For a GET: a text that changes whenever the answer to this request may change, or null if that is unknown. It
   * becomes the ETag. A client that has this answer gets a 304 before the handler is called.
   */
  version?(request: Request<A>): string | null
  /**
   * Which hub of a cluster answers: the leader, the leader if there is one, or the hub that got the request. Default:
   * the leader for changes, and for reads the hub that got them.
   */
  answeredBy?: 'leader' | 'leader_if_any' | 'receiver'
  /**
   * Whether pages of any other origin may call it (CORS of the Fetch standard, without credentials). OPTIONS is
   * answered for it.
   */
  cors?: boolean
  handle(request: Request<A>): Reply | Promise<Reply>
}

/** Returns a JSON reply. Default status: 200. */
export function json(body: unknown, status = 200, headers?: Record<string, string>): Reply {
  return headers === undefined ? { kind: 'json', status, body } : { kind: 'json', status, body, headers }
}

/** The route of a request, or what else is known about its path. */
export type Match<T extends Route = Route> =
  | { outcome: 'route'; route: T; params: Record<string, string> }
  /** `cors` lists the methods that pages of other origins may use here; empty if there are none. */
  | { outcome: 'method'; allow: string; cors: string }
  | { outcome: 'none' }

/** Finds the route of a request. */
export interface Router<T extends Route = Route> {
  /**
   * Finds the route for a path that is still percent-encoded. HEAD finds the route of GET. Refuses: 400 `invalid_path`
   * for an invalid encoding, and for `.` and `..` segments, which no honest client sends.
   */
  match(method: string, path: string): Match<T>
}

/** A route and the positions of its parameters. All segments from `rest` on are one parameter. */
interface End<T extends Route> {
  route: T
  names: Array<{ name: string; at: number }>
  rest: { name: string; from: number } | undefined
}

type Ends<T extends Route> = Map<Method, End<T>>

/**
 * A node of the routing tree: the routes that end here, by method, and the next nodes: for a word, for any segment
 * (`:name`), or for the rest (`*name`).
 */
interface Node<T extends Route> {
  ends: Ends<T>
  words: Map<string, Node<T>>
  any: Node<T> | undefined
  rest: Ends<T>
}

const none = { outcome: 'none' } as const
const noParams: Record<string, string> = Object.freeze({})

/** Creates a router for a table. Throws if two routes have the same method and path. */
export function createRouter<T extends Route>(routes: readonly T[]): Router<T> {
  const root = createNode<T>()
  const fixed = new Map<string, Ends<T>>()
  for (const route of routes) {
    const ends = place(root, route)
    if (ends.has(route.method)) throw new Error(`Two routes answer ${route.method} ${route.path}`)
    ends.set(route.method, createEnd(route))
    if (!/\/[:*]/.test(route.path)) fixed.set(route.path, ends)
  }

  return {
    match(method, path) {
      const wanted = (method === 'HEAD' ? 'GET' : method) as Method
      const end = fixed.get(path)?.get(wanted)
      if (end !== undefined) return { outcome: 'route', route: end.route, params: noParams }
      return find(root, wanted, pathSegments(path))
    }
  }
}

/** Returns the decoded segments after the leading slash. Refuses as `Router.match` does. */
export function pathSegments(path: string): string[] {
  const segments = split(path)
  if (path.includes('%')) {
    for (let i = 0; i < segments.length; i++) segments[i] = decodeSegment(segments[i] as string)
  } else if (!path.includes('/.')) {
    return segments
  }
  for (const segment of segments) {
    if (segment === '.' || segment === '..' || segment.includes('\0')) throw badPath()
  }
  return segments
}

/**
 * Same as `path.slice(1).split('/')` in a third of the time. Each request of a route with parameters needs it
 * (bench/api).
 */
function split(path: string): string[] {
  const segments: string[] = []
  let from = 1
  for (let at = path.indexOf('/', 1); at !== -1; at = path.indexOf('/', from)) {
    segments.push(path.slice(from, at))
    from = at + 1
  }
  segments.push(path.slice(from))
  return segments
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch (error) {
    throw badPath(error)
  }
}

function badPath(cause?: unknown): Refusal {
  const sentence = 'The path cannot be read: it must be percent-encoded UTF-8 without "." and ".." segments'
  return new Refusal('invalid', 'invalid_path', sentence, { cause })
}

function createNode<T extends Route>(): Node<T> {
  return { ends: new Map(), words: new Map(), any: undefined, rest: new Map() }
}

function createEnd<T extends Route>(route: T): End<T> {
  const end: End<T> = { route, names: [], rest: undefined }
  for (const [at, segment] of route.path.slice(1).split('/').entries()) {
    if (segment.startsWith(':')) end.names.push({ name: segment.slice(1), at })
    else if (segment.startsWith('*')) end.rest = { name: segment.slice(1), from: at }
  }
  return end
}

function place<T extends Route>(root: Node<T>, route: T): Ends<T> {
  if (!route.path.startsWith('/')) throw new Error(`The path of a route must begin with a slash: ${route.path}`)
  const segments = route.path.slice(1).split('/')
  let node = root
  for (const [i, segment] of segments.entries()) {
    if (segment.startsWith('*')) {
      if (i !== segments.length - 1) throw new Error(`A "*" segment must be the last segment: ${route.path}`)
      return node.rest
    }
    node = segment.startsWith(':') ? (node.any ??= createNode()) : word(node, segment)
  }
  return node.ends
}

function word<T extends Route>(node: Node<T>, segment: string): Node<T> {
  let next = node.words.get(segment)
  if (next === undefined) node.words.set(segment, (next = createNode()))
  return next
}

/**
 * Returns the most specific route with the method: a word comes before `:name`, and that before `*name`. A route that
 * matches the path but not the method does not hide a less specific one that has the method.
 */
function find<T extends Route>(root: Node<T>, method: Method, segments: string[]): Match<T> {
  const fitting: Array<Ends<T>> = []
  collect(root, segments, { at: 0, into: fitting })
  for (const ends of fitting) {
    const end = ends.get(method)
    if (end !== undefined) return { outcome: 'route', route: end.route, params: readParams(end, segments) }
  }
  if (fitting.length === 0) return none
  const rows = fitting.flatMap(ends => [...ends.values()].map(end => end.route))
  return { outcome: 'method', allow: allowed(rows), cors: allowed(rows.filter(row => row.cors)) }
}

interface Search<T extends Route> {
  at: number
  into: Array<Ends<T>>
}

function collect<T extends Route>(node: Node<T>, segments: string[], { at, into }: Search<T>): void {
  if (at === segments.length) {
    if (node.ends.size > 0) into.push(node.ends)
    return
  }
  const segment = segments[at] as string
  const next = { at: at + 1, into }
  const way = node.words.get(segment)
  if (way !== undefined) collect(way, segments, next)
  if (node.any !== undefined && segment !== '') collect(node.any, segments, next)
  if (node.rest.size > 0) into.push(node.rest)
}

function readParams({ names, rest }: End<Route>, segments: string[]): Record<string, string> {
  const params: Record<string, string> = {}
  for (const { name, at } of names) params[name] = segments[at] as string
  if (rest !== undefined) params[rest.name] = segments.slice(rest.from).join('/')
  return params
}

function allowed(rows: Route[]): string {
  const methods = new Set<string>(rows.map(row => row.method))
  if (methods.has('GET')) methods.add('HEAD')
  if (rows.some(row => row.cors)) methods.add('OPTIONS')
  return [...methods].sort().join(', ')
}
