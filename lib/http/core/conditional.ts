import type { IncomingHttpHeaders } from 'node:http'

/**
 * Which part of a file a client wants: all of it, nothing because it is unchanged, the bytes `from` to `to`
 * (inclusive), or a range that cannot be satisfied.
 */
export type Wanted =
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
