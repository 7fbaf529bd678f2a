import { Refusal } from '../base/refusal.js'
import type { RefusalKind } from '../base/refusal.js'
import { minCompressBytes } from './coding.js'
import type { Reply } from './route.js'

export type Headers = Record<string, string>

/** What each kind of refusal is in HTTP: the one place where it is said (decisions §1). */
export const statusOf: Record<RefusalKind, number> = {
  invalid: 400,
  usage: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  method: 405,
  timed_out: 408,
  conflict: 409,
  precondition: 412,
  too_large: 413,
  unsupported_type: 415,
  misdirected: 421,
  upgrade: 426,
  too_many: 429,
  unsupported: 501,
  unavailable: 503
}

/** Nothing between us and the client may hold a stream back: no cache, no buffering proxy (nginx). */
export const streamHeaders: Headers = { 'cache-control': 'no-store', 'x-accel-buffering': 'no' }

/** On every reply: a browser must not guess another type than the one that is said. */
const everyHeaders: Headers = { 'x-content-type-options': 'nosniff' }

/** The error body, everywhere: `message` says the same as `error`, for endpoints that answer `{success, message}`. */
export interface ErrorBody {
  success: false
  error: string
  message: string
  code: string
  field?: string
}

/** A refusal as the client sees it. */
export function refusalReply(refusal: Refusal, headers: Headers = {}): Extract<Reply, { kind: 'json' }> {
  const body: ErrorBody = { success: false, error: refusal.message, message: refusal.message, code: refusal.code }
  if (refusal.field !== undefined) body.field = refusal.field
  const all = { ...headers }
  if (refusal.kind === 'unauthorized') all['www-authenticate'] = 'Bearer'
  if (refusal.retryAfterSeconds !== undefined) all['retry-after'] = String(Math.ceil(refusal.retryAfterSeconds))
  return { kind: 'json', status: statusOf[refusal.kind], body, headers: all }
}

/** A bug as the client sees it: nothing of the inside, but the id under which the log tells the rest. */
export function failureReply(id: string): Extract<Reply, { kind: 'json' }> {
  const sentence = `The server failed at this request: its log tells the cause under "${id}"`
  const body: ErrorBody = { success: false, error: sentence, message: sentence, code: 'internal_error' }
  return { kind: 'json', status: 500, body }
}

/** The path does not take this method; `allow` lists those that it takes. */
export function methodReply(method: string, allow: string): Extract<Reply, { kind: 'json' }> {
  return refusalReply(new Refusal('method', 'method_not_allowed', `${method} is not possible here: ${allow} is`), { allow })
}

/** On every reply of a route with `cors`, refusals included: a page may read all of it. */
export const corsHeaders: Headers = { 'access-control-allow-origin': '*', 'access-control-expose-headers': '*' }

/** How long a browser need not ask again; they cut it to less. */
const preflightSeconds = 86_400

/** The answer to OPTIONS where other origins may use `methods`: a browser asks before it sends JSON (CORS preflight). */
export function preflightReply(methods: string): Extract<Reply, { kind: 'empty' }> {
  const headers = {
    ...corsHeaders,
    allow: methods,
    'access-control-allow-methods': methods,
    'access-control-allow-headers': 'content-type',
    'access-control-max-age': String(preflightSeconds)
  }
  return { kind: 'empty', status: 204, headers }
}

/** A reply whose bytes are at hand: head and body. */
export interface Whole {
  status: number
  headers: Headers
  body: string | Uint8Array
}

/** The bytes of a reply that is no stream and no file. */
export function wholeReply(reply: Extract<Reply, { kind: 'json' | 'bytes' | 'empty' }>): Whole {
  switch (reply.kind) {
    case 'json': {
      const body = JSON.stringify(reply.body)
      const bytes = Buffer.byteLength(body)
      const headers = reply.headers === undefined ? jsonHeaders(bytes, reply.etag) : mergeHeaders(jsonHeaders(bytes, reply.etag), reply.headers)
      if (bytes >= minCompressBytes) headers['vary'] ??= 'accept-encoding'
      return { status: reply.status, headers, body }
    }
    case 'bytes': {
      const headers = mergeHeaders(everyHeaders, reply.headers)
      headers['content-length'] = String(reply.body.length)
      return { status: reply.status, headers, body: reply.body }
    }
    case 'empty': {
      const headers = mergeHeaders(everyHeaders, reply.headers)
      // RFC 9110 §8.6: neither has a length of its own.
      if (reply.status !== 204 && reply.status !== 304) headers['content-length'] = '0'
      return { status: reply.status, headers, body: '' }
    }
  }
}

/** One literal each: an object that is put together name by name costs as much as its JSON (bench/api). */
function jsonHeaders(bytes: number, etag: string | undefined): Headers {
  const type = 'application/json; charset=utf-8'
  const length = String(bytes)
  if (etag === undefined) {
    return { 'content-type': type, 'content-length': length, 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }
  }
  return { 'content-type': type, 'content-length': length, 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', etag }
}

/** The head of a stream. */
export function streamHead(headers: Headers): Headers {
  return mergeHeaders(everyHeaders, headers)
}

/** The defaults and what wins over them; names in lower case. */
export function mergeHeaders(defaults: Headers, headers: Headers | undefined): Headers {
  const all = { ...defaults }
  if (headers !== undefined) for (const name of Object.keys(headers)) all[name.toLowerCase()] = headers[name] as string
  return all
}
