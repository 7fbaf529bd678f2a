import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'

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
  /** Set if another hub of the cluster sent the request (http/outgoing/forwarded.ts). */
  hub?: HubFacts
  /** Set if the request says that a hub sent it, and is not believed. */
  refusal?: Error
}

/** What a hub says about a request that it sent. */
export interface HubFacts {
  /** The name of the hub. */
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
  | { kind: 'json'; status: number; body: unknown; headers?: Record<string, string> | undefined; etag?: string }
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
  /** A file (file.ts). `open` returns the reply for this request. */
  | { kind: 'file'; open(request: Pick<Request, 'headers' | 'method'>): Promise<Reply> }
  | { kind: 'empty'; status: number; headers?: Record<string, string>; isPanel?: boolean }
  /**
   * The connection leaves HTTP (websocket/reply.ts). `open` resolves with undefined when the connection is closed, or
   * with the reply that is sent instead. It reports internal errors to `fail`. This kind and `file` carry their own
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
