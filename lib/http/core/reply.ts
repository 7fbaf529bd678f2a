import type { IncomingHttpHeaders } from 'node:http'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { otherField, Refusal, type RefusalKind } from '../../base/errors.js'
import { isMeasurable } from './headers.js'
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
interface ErrorBody {
  success: false
  error: string
  message: string
  code: string
  field?: string
  [other: `conflict${string}`]: { id: string; name?: string }
}

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
      const body = reply.text ?? JSON.stringify(reply.body)
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

export function streamHead(headers: Headers): Headers {
  return mergeHeaders(everyHeaders, headers)
}

/** Merges headers. `headers` take precedence over `defaults`; names are in lower case. */
export function mergeHeaders(defaults: Headers, headers: Headers | undefined): Headers {
  const all = { ...defaults }
  if (headers !== undefined) for (const name of Object.keys(headers)) all[name.toLowerCase()] = headers[name] as string
  return all
}

/** Content codings that the server can send. */
export type Coding = 'br' | 'gzip' | 'identity'

/** Chooses the best accepted coding (the part of RFC 9110 §12.5.3 that is needed here). `q=0` excludes a coding. */
export function chooseCoding(accept: string | string[] | undefined): Coding {
  const text = String(accept ?? '')
  return accepts(text, 'br') ? 'br' : accepts(text, 'gzip') ? 'gzip' : 'identity'
}

function accepts(text: string, coding: string): boolean {
  return text.split(',').some(part => {
    const [name, ...parameters] = part.split(';').map(each => each.trim().toLowerCase())
    const weight = parameters.find(each => each.startsWith('q='))?.slice('q='.length)
    return name === coding && Number(weight ?? 1) > 0
  })
}

/** Below this size the saving is smaller than the additional header. */
export const minCompressBytes = 1024
/** Larger answers are sent uncompressed: compressing one would occupy a thread for a tenth of a second. */
const maxCompressBytes = 4 * 1024 * 1024
/** Takes half the time of the default level, for a tenth more bytes (a list of 100 deployments). */
const level = 4
const compress = promisify(gzip)

/**
 * Whether a JSON answer is worth compressing, its client accepts gzip, and no attacker can measure it. A text with both
 * a secret and something that an attacker chose must not be compressed if the attacker can make a victim request it and
 * can see its length (BREACH). Pages of other origins cannot send a bearer token. But they can send a session cookie,
 * if they are on another port or another name of the same domain. So a request with a cookie is compressed only if it
 * proves that the panel sent it (headers.ts).
 */
export function wantsGzip(headers: IncomingHttpHeaders, bytes: number): boolean {
  const accepted = headers['accept-encoding']
  if (bytes < minCompressBytes || bytes > maxCompressBytes || accepted === undefined || isMeasurable(headers))
    return false
  return accepts(String(accepted), 'gzip')
}

/** Compresses a body with gzip, in a thread of the pool. */
function gzipped(body: string | Uint8Array): Promise<Buffer> {
  return compress(body, { level })
}

/**
 * Which part of a file a client wants: all of it, nothing because it is unchanged, the bytes `from` to `to`
 * (inclusive), or a range that cannot be satisfied.
 */
type Wanted =
  | { outcome: 'all' }
  | { outcome: 'unchanged' }
  | { outcome: 'part'; from: number; to: number }
  | { outcome: 'unsatisfiable' }

/**
 * Evaluates the conditions of GET and HEAD (RFC 9110 §13.2.2). If-None-Match takes precedence over If-Modified-Since,
 * and both over Range. If-Range allows a range only for the same file. Several ranges are answered with the whole file,
 * which is a correct answer (§14.2).
 */
export function wantedPart(
  headers: IncomingHttpHeaders,
  { etag, modifiedMs, bytes }: { etag: string; modifiedMs: number; bytes: number }
): Wanted {
  if (isUnchanged(headers, etag, modifiedMs)) return { outcome: 'unchanged' }
  const { range } = headers
  if (range === undefined || !mayUseRange(headers['if-range'], etag, modifiedMs)) return { outcome: 'all' }
  const found = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/.exec(range)
  if (found === null || (found[1] === '' && found[2] === '')) return { outcome: 'all' }
  return resolveRange(found[1] as string, found[2] as string, bytes)
}

/** Whether the client has the answer with this tag (RFC 9110 §13.1.2, weak comparison). */
export function hasTag(headers: IncomingHttpHeaders, etag: string): boolean {
  return headers['if-none-match'] !== undefined && isUnchanged(headers, etag, Infinity)
}

/**
 * Returns the tags of `If-Match` without quotes, or undefined if any state is acceptable (RFC 9110 §13.1.1). A tag that
 * a proxy made weak when it compressed the answer is taken as the original one.
 */
export function expectedTags(headers: IncomingHttpHeaders): string[] | undefined {
  const given = headers['if-match']?.trim()
  if (given === undefined || given === '*') return undefined
  return given.split(',').map(tag =>
    tag
      .trim()
      .replace(/^W\//, '')
      .replace(/^"(.*)"$/, '$1')
  )
}

function resolveRange(first: string, last: string, bytes: number): Wanted {
  if (first !== '' && last !== '' && Number(last) < Number(first)) return { outcome: 'all' }
  const from = first === '' ? Math.max(0, bytes - Number(last)) : Number(first)
  const to = first === '' || last === '' ? bytes - 1 : Math.min(Number(last), bytes - 1)
  return from > to ? { outcome: 'unsatisfiable' } : { outcome: 'part', from, to }
}

function isUnchanged(headers: IncomingHttpHeaders, etag: string, modifiedMs: number): boolean {
  const known = headers['if-none-match']
  if (known !== undefined) {
    return (
      known.trim() === '*' || known.split(',').some(tag => tag.trim().replace(/^W\//, '') === etag.replace(/^W\//, ''))
    )
  }
  const since = Date.parse(headers['if-modified-since'] ?? '')
  return !Number.isNaN(since) && wholeSeconds(modifiedMs) <= since
}

function mayUseRange(condition: string | string[] | undefined, etag: string, modifiedMs: number): boolean {
  if (condition === undefined) return true
  if (typeof condition !== 'string') return false
  // §13.1.5: strong comparison, so a weak tag never matches.
  if (condition.includes('"')) return condition.trim() === etag && !etag.startsWith('W/')
  return Date.parse(condition) === wholeSeconds(modifiedMs)
}

/** HTTP dates have no fractions of seconds. */
function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1000) * 1000
}
