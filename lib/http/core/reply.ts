import { Refusal, otherField, type RefusalKind } from '../../base/refusal.js'
import { gzipped, minCompressBytes } from './coding.js'
import type { Reply } from './route.js'

/** Headers of a reply, by name. */
export type Headers = Record<string, string>

/** HTTP status of each kind of refusal. This is the only place that defines it (decisions §1). */
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
  bad_gateway: 502,
  unavailable: 503
}

/**
 * Headers of a stream: nothing between server and client may hold it back, neither a cache nor a buffering proxy
 * (nginx).
 */
export const streamHeaders: Headers = { 'cache-control': 'no-store', 'x-accel-buffering': 'no' }

/** The policy of everything but the panel: whatever it contains, a browser that opens it runs and loads nothing. */
const sealed = "default-src 'none'; sandbox"
/** No page of another site may embed it. */
const ownSite = 'same-origin'
/** A browser must not guess another type than the declared one. */
const noSniffing = 'nosniff'

/** Headers of every reply but the panel's. They are the default, so that no route can forget them. */
export const everyHeaders: Headers = {
  'x-content-type-options': noSniffing,
  'cross-origin-resource-policy': ownSite,
  'content-security-policy': sealed
}
/** Headers of every file of the panel. It brings its own policy (static/static.ts). */
const panelHeaders: Headers = { 'x-content-type-options': noSniffing, 'cross-origin-resource-policy': ownSite }

/** The body of every error. `message` equals `error`, for endpoints that answer `{success, message}`. */
export interface ErrorBody {
  success: false
  error: string
  message: string
  code: string
  field?: string
  [other: `conflict${string}`]: { id: string; name?: string }
}

/** Returns the reply for a refusal. */
export function refusalReply(refusal: Refusal, headers: Headers = {}): Extract<Reply, { kind: 'json' }> {
  const body: ErrorBody = { success: false, error: refusal.message, message: refusal.message, code: refusal.code }
  if (refusal.field !== undefined) body.field = refusal.field
  if (refusal.other !== undefined) {
    const { kind, ...record } = refusal.other
    body[otherField(kind)] = record
  }
  const all = { ...headers }
  if (refusal.kind === 'unauthorized') all['www-authenticate'] = 'Bearer'
  if (refusal.retryAfterSeconds !== undefined) all['retry-after'] = String(Math.ceil(refusal.retryAfterSeconds))
  return { kind: 'json', status: statusOf[refusal.kind], body, headers: all }
}

/** Returns the reply for an internal error. It reveals nothing but the id under which the log has the details. */
export function failureReply(id: string): Extract<Reply, { kind: 'json' }> {
  const sentence = `Internal server error: the server's log has the cause under the id "${id}"`
  const body: ErrorBody = { success: false, error: sentence, message: sentence, code: 'internal_error' }
  return { kind: 'json', status: 500, body }
}

/** Returns the reply for a method that the path does not support. `allow` lists the supported ones. */
export function methodReply(allow: string): Extract<Reply, { kind: 'json' }> {
  const sentence = `Method not allowed: use ${allow.replace(/, (\w+)$/, ' or $1')}`
  return refusalReply(new Refusal('method', 'method_not_allowed', sentence), { allow })
}

/** Headers of every reply of a route with `cors`, refusals included, so that any page may read all of it. */
export const corsHeaders: Headers = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': '*',
  'cross-origin-resource-policy': 'cross-origin'
}

/** How long a browser need not ask again. Browsers reduce it. */
const preflightSeconds = 86_400

/**
 * Returns the answer to OPTIONS if other origins may use `methods`. A browser asks before it sends JSON (CORS
 * preflight).
 */
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

/** A reply whose head and body are complete. */
export interface Whole {
  status: number
  headers: Headers
  body: string | Uint8Array
}

/** Returns the head and body of a reply that is neither a stream nor a file. */
export function wholeReply(reply: Extract<Reply, { kind: 'json' | 'bytes' | 'empty' }>): Whole {
  switch (reply.kind) {
    case 'json': {
      const body = JSON.stringify(reply.body)
      const bytes = Buffer.byteLength(body)
      const headers =
        reply.headers === undefined
          ? jsonHeaders(bytes, reply.etag)
          : mergeHeaders(jsonHeaders(bytes, reply.etag), reply.headers)
      if (bytes >= minCompressBytes) headers['vary'] ??= 'accept-encoding'
      return { status: reply.status, headers, body }
    }
    case 'bytes': {
      const headers = mergeHeaders(reply.isPanel ? panelHeaders : everyHeaders, reply.headers)
      headers['content-length'] = String(reply.body.length)
      return { status: reply.status, headers, body: reply.body }
    }
    case 'empty': {
      const headers = mergeHeaders(reply.isPanel ? panelHeaders : everyHeaders, reply.headers)
      // RFC 9110 §8.6: these have no Content-Length.
      if (reply.status !== 204 && reply.status !== 304) headers['content-length'] = '0'
      return { status: reply.status, headers, body: '' }
    }
  }
}

/** Returns the reply with its body compressed. */
export async function compressed({ status, headers, body }: Whole): Promise<Whole> {
  const small = await gzipped(body)
  const changed = { 'content-encoding': 'gzip', 'content-length': String(small.length) }
  return { status, headers: { ...headers, ...changed }, body: small }
}

/**
 * Returns the headers of a JSON answer. One literal each, because an object that is built name by name costs as much
 * time as its JSON (bench/api).
 */
function jsonHeaders(bytes: number, etag: string | undefined): Headers {
  const type = 'application/json; charset=utf-8'
  const length = String(bytes)
  if (etag === undefined) {
    return {
      'content-type': type,
      'content-length': length,
      'cache-control': 'no-store',
      'x-content-type-options': noSniffing,
      'cross-origin-resource-policy': ownSite,
      'content-security-policy': sealed
    }
  }
  return {
    'content-type': type,
    'content-length': length,
    'cache-control': 'no-store',
    'x-content-type-options': noSniffing,
    'cross-origin-resource-policy': ownSite,
    'content-security-policy': sealed,
    etag
  }
}

/** Returns the headers of a stream. */
export function streamHead(headers: Headers): Headers {
  return mergeHeaders(everyHeaders, headers)
}

/** Merges headers. `headers` take precedence over `defaults`; names are in lower case. */
export function mergeHeaders(defaults: Headers, headers: Headers | undefined): Headers {
  const all = { ...defaults }
  if (headers !== undefined) for (const name of Object.keys(headers)) all[name.toLowerCase()] = headers[name] as string
  return all
}
