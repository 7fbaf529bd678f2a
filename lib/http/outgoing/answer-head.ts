/*
 * Reads the head of an answer that another machine gave and that a browser shows in the origin of this server. Nothing of
 * it passes as it is: status, type and headers come from the lists of the caller, and this server writes them. What a page
 * does not read is a download, whatever the other machine calls it.
 */
import { parseHeaderValue } from '../core/headers.js'
import { streamHeaders, type Headers } from '../core/reply.js'
import { attachment } from '../static/file.js'
import type { Refusal } from '../../base/errors.js'

/** What the head of an answer may be. */
export interface AnswerRules {
  statuses: ReadonlySet<number>
  /** Types that are not downloads, whole or by their essence, as they are sent on. */
  types: ReadonlyMap<string, string>
  /** Types that a download keeps. */
  fileTypes?: RegExp
  /** Other headers, and the values that they may have. */
  headers: Readonly<Record<string, RegExp>>
  /** Returns the refusal for an answer that does not pass. */
  refuse(why: string): Refusal
}

/** What the client asked for. */
export interface Asked {
  path: string
  headers: Readonly<Record<string, unknown>>
}

/** A head that passes. */
export interface AnswerHead {
  status: number
  headers: Headers
  /** Whether the answer is a download. */
  isFile: boolean
  /** Whether the answer is a stream that continues until somebody stops it. */
  isLasting: boolean
}

/** Headers of each kind of answer that passes, and their form. */
export const commonHeaders: Readonly<Record<string, RegExp>> = {
  'accept-ranges': /^bytes$/,
  'content-range': /^bytes (?:\d{1,16}-\d{1,16}|\*)\/(?:\d{1,16}|\*)$/,
  etag: /^(?:W\/)?"[\x21\x23-\x7e]{1,200}"$/,
  'last-modified': /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  'retry-after': /^\d{1,6}$/,
  'x-svc-output-from': /^\d{1,16}$/,
  'x-svc-output-to': /^\d{1,16}$/,
  'x-total-count': /^\d{1,16}$/
}
/** The types that a page reads. */
export const pageTypes: ReadonlyMap<string, string> = new Map([
  ['application/json', 'application/json; charset=utf-8'],
  ['application/x-ndjson', 'application/x-ndjson'],
  ['text/event-stream', 'text/event-stream; charset=utf-8']
])
const lasting = /^(?:text\/event-stream|application\/x-ndjson)/
const json = 'application/json'
const maxNameLength = 200

/** Returns the head of an answer as this server sends it on, or refuses with `rules.refuse`. */
export function readAnswerHead(
  { status, headers: given }: { status: number; headers: Readonly<Record<string, unknown>> },
  asked: Asked,
  rules: AnswerRules
): AnswerHead {
  if (!rules.statuses.has(status) || !isAsked(status, asked.headers))
    throw rules.refuse('its status is not one of such a request')
  const textOf = (name: string): string => {
    const value = Object.hasOwn(given, name) ? given[name] : undefined
    return typeof value === 'string' ? value : ''
  }
  const headers: Headers = {}
  for (const [name, pattern] of Object.entries(rules.headers)) {
    if (pattern.test(textOf(name))) headers[name] = textOf(name)
  }
  if (status === 206 && headers['content-range'] === undefined) throw rules.refuse('it does not say which part it is')
  if (status !== 206 && status !== 416) delete headers['content-range']
  const essence = parseHeaderValue(textOf('content-type'))?.value ?? ''
  const type = rules.types.get(textOf('content-type')) ?? rules.types.get(essence)
  const isLasting = type !== undefined && lasting.test(type)
  if (isEmpty(status)) return { status, headers: { ...streamHeaders, ...headers }, isFile: false, isLasting: false }
  if (status >= 400 && status !== 416 && essence !== json) throw rules.refuse('its error is not in JSON')
  const disposition = parseHeaderValue(textOf('content-disposition'))
  const isFile = type === undefined || disposition?.value === 'attachment'
  headers['content-type'] = type ?? (rules.fileTypes?.test(essence) ? essence : 'application/octet-stream')
  if (isFile) {
    const name = disposition?.parameters.get('filename*') ?? disposition?.parameters.get('filename')
    headers['content-disposition'] = attachment(plainName(name ?? asked.path))
    return { status, headers: { 'cache-control': 'private, no-cache', ...headers }, isFile, isLasting }
  }
  return { status, headers: { ...streamHeaders, ...headers }, isFile, isLasting }
}

/** Whether an answer with this status has no body and no type. */
function isEmpty(status: number): boolean {
  return status === 204 || status === 304
}

/** Whether the client asked for what only some requests are answered with. */
function isAsked(status: number, headers: Asked['headers']): boolean {
  if (status === 304) return headers['if-none-match'] !== undefined || headers['if-modified-since'] !== undefined
  return (status !== 206 && status !== 416) || headers['range'] !== undefined
}

/** Returns the last part of a name, without what a file system or a terminal could take for something else. */
function plainName(name: string): string {
  const last = name.split('?')[0]?.split(/[/\\]/).at(-1) ?? ''
  return last.replace(/\p{C}/gu, '').replace(/^\.+$/, '').slice(0, maxNameLength) || 'download'
}
