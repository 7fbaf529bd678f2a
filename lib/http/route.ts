import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import type { Exchange } from './exchange.js'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** Where a request came from, seen through trusted proxies. */
export interface ClientAddress {
  /** The first entry of X-Forwarded-For, or X-Real-IP, where the peer is a trusted proxy; else the socket's. */
  address: string
  /** The right-most address that no trusted proxy has written: what a client cannot invent. */
  witnessed: string
  /** Whether the peer itself is a trusted proxy. */
  viaProxy: boolean
  /** Whether the request came by the owner's local socket; then both addresses are `local`. */
  local: boolean
}

/** A request as a handler sees it. `A` is what the authorisation of the route established. */
export interface Request<A = unknown> {
  readonly method: Method | 'HEAD'
  /** Below the base prefix, percent-decoded, normalised. */
  readonly path: string
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly headers: IncomingHttpHeaders
  readonly client: ClientAddress
  /** Whether the client's own connection is encrypted, also if a trusted proxy says so (X-Forwarded-Proto). */
  readonly isSecure: boolean
  readonly actor: A
  /** Aborted when the client goes away before the reply is complete. */
  readonly signal: AbortSignal
  /** The body, unread. Destroying it leaves the connection usable for the reply. Fails: `aborted`, 408 `body_timeout`. */
  readonly body: Readable
  /** The body as JSON, within the route's limits. Refuses: 413 `too_large`, 400 `invalid_body`, 415 `unsupported_type`. */
  json(): Promise<unknown>
}

/** What is known of a request before its body is read: all that an authorisation may look at. */
export type RequestFacts = Pick<Request, 'method' | 'path' | 'params' | 'query' | 'headers' | 'client'>

/** Where a streaming reply writes. */
export interface Sink {
  /** Resolves when more may be written (backpressure); rejects once the client is gone. The first one sends the head. */
  write(chunk: string | Uint8Array): Promise<void>
  /** Sends the head now: nothing that fails later becomes another answer. */
  sendHead(): void
  readonly signal: AbortSignal
}

/**
 * What a handler returns; only `http/` turns it into bytes. Header names are compared without regard to case, and
 * win over the defaults.
 */
export type Reply =
  | { kind: 'json'; status: number; body: unknown; headers?: Record<string, string> | undefined; etag?: string }
  | { kind: 'bytes'; status: number; body: Uint8Array; headers: Record<string, string> }
  /**
   * A refusal thrown before the first write becomes an ordinary error reply; a throw after it breaks the connection.
   * `run` is not called if the client has gone, so what must be closed is opened there.
   */
  | {
      kind: 'stream'
      status: number
      headers: Record<string, string>
      /** Goes on until somebody stops it, so a server that shuts down ends it at once. */
      lasting?: boolean
      run: (sink: Sink) => Promise<void>
    }
  /** A file (file.ts), as the reply that it is to this request. */
  | { kind: 'file'; open(request: Pick<Request, 'headers' | 'method'>): Promise<Reply> }
  | { kind: 'empty'; status: number; headers?: Record<string, string> }
  /**
   * The connection leaves HTTP (websocket/reply.ts). Resolves with nothing once it is gone, or with what is answered
   * instead; `fail` is told of a bug. This and a file carry what opens them, so that a server which listens already
   * need not have loaded any of it (test/bench/start).
   */
  | { kind: 'websocket'; open(exchange: Exchange, fail: (error: unknown) => void): Promise<Reply | undefined> }

/** What a route takes as the body of a request. */
export interface BodyLimits {
  /** Bytes; then 413 `too_large`. Infinity: the handler streams the body, and has limits of its own. */
  maxBytes: number
  /** From the first read to the last byte; then 408 `body_timeout`. Infinity: only silences are limited. */
  totalMs: number
}

/** decisions §1: a JSON body of a client that has proved who it is. */
export const jsonBody: BodyLimits = { maxBytes: 1024 * 1024, totalMs: Infinity }
/** A body from anybody: small, and soon over. */
export const publicBody: BodyLimits = { maxBytes: 8 * 1024, totalMs: 20_000 }
/** A body that the handler reads as it comes: an upload. */
export const streamedBody: BodyLimits = { maxBytes: Infinity, totalMs: Infinity }

/**
 * One row of a route table. `R` names who may call it: a required field, so that a route without a decision does not
 * compile. The token is checked before the body is read.
 */
export interface Route<R extends string = string, A = unknown> {
  method: Method
  /** Segments, parameters as `:name`: `/api/projects/:id`. A last segment `*name` takes the rest. */
  path: string
  /** `public`: nobody is asked who they are, and the connection stays anonymous (crowd.ts). */
  auth: R
  /** Default: `publicBody` if `auth` is `public`, else `jsonBody`. */
  body?: BodyLimits
  /**
   * Of a GET: text that changes whenever the answer to this request may (null: nobody knows). It becomes the ETag, and
   * a client that has the answer gets a 304 before the handler is asked.
   */
  version?(request: Request<A>): string | null
  /** Pages of any other origin may call it (the Fetch standard's CORS, without credentials); OPTIONS is answered for it. */
  cors?: boolean
  handle(request: Request<A>): Reply | Promise<Reply>
}

/** A 200 with a JSON body; `status` for another. */
export function json(body: unknown, status = 200, headers?: Record<string, string>): Reply {
  return headers === undefined ? { kind: 'json', status, body } : { kind: 'json', status, body, headers }
}
