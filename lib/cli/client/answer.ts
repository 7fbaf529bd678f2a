import { STATUS_CODES, type IncomingMessage } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { readAtMost } from '../../base/async.js'
import { hasCode, Refusal, type RefusalKind } from '../../base/errors.js'
import { pause } from '../../base/clock.js'
import { createEventReader, createLineReader, type ServerEvent } from '../../base/shared/api.js'

/** The answer to a request, its body unread. */
export type Answer = IncomingMessage

const maxRefusalBytes = 64 * 1024

const kinds: Record<number, RefusalKind> = {
  400: 'invalid',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  405: 'method',
  407: 'unauthorized',
  408: 'timed_out',
  409: 'conflict',
  412: 'precondition',
  413: 'too_large',
  415: 'unsupported_type',
  429: 'too_many',
  501: 'unsupported'
}

/** The server that was asked, and the source of the token that was sent. */
export interface Asked {
  address: string
  tokenFrom: string | null
}

/**
 * Returns the method and path in what svc answers for a route that it does not have, or null if it says something else.
 * Version 1.0 has other words before the colon.
 */
export function missingRoute(said: string): string | null {
  return /^[A-Z][a-z ]{1,40}: ([A-Z]+ \/\S*)$/.exec(said)?.[1] ?? null
}

/**
 * Returns the refusal for an answer that is not a success. If svc sent the answer, this is its own sentence. Otherwise
 * a proxy or another program sent it, and the sentence explains the likely cause.
 */
export async function refusalOf(answer: Answer, { address, tokenFrom }: Asked): Promise<Refusal> {
  const status = answer.statusCode as number
  const text = await readText(answer, maxRefusalBytes).catch(() => '')
  // Part of the request may be unsent and is not wanted, so the connection cannot be used again.
  answer.socket?.destroy()
  const value = parseJson(text) as
    | { error?: unknown; code?: unknown; success?: unknown; message?: unknown; field?: unknown }
    | null
    | undefined
  // Other servers of the same interface answer {success: false, message}.
  const said = value?.success === false && value.error === undefined ? value.message : value?.error
  const kind = kinds[status] ?? 'unavailable'
  if (value != null && typeof said === 'string') {
    const retryAfterSeconds = Number(answer.headers['retry-after']) || undefined
    const code = typeof value.code === 'string' ? value.code : `http_${status}`
    const sentence = status === 401 && tokenFrom !== null ? `${said} (the token came from ${tokenFrom})` : said
    return new Refusal(kind, code, sentence, {
      ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
      ...(typeof value.field === 'string' && { field: value.field })
    })
  }
  const location = answer.headers.location
  if (status >= 300 && status < 400 && location !== undefined) {
    return new Refusal(
      'invalid',
      'redirected',
      `${address} redirects to "${location}". Use that as the server's address`
    )
  }
  if (status === 400 && /plain HTTP request|HTTP request to an HTTPS/i.test(text)) {
    const secure = address.replace(/^http:/, 'https:')
    return new Refusal(
      'invalid',
      'needs_https',
      `${address} expects TLS on that port. Use "${secure}" as the server's address`
    )
  }
  const cure = curesOfProxies[status] ?? (status > 404 ? [`http_${status}`, 'See its log for the reason'] : undefined)
  if (cure === undefined || status === 405) return notSvc(answer, address)
  const [code, advice] = cure
  const seconds = Number(answer.headers['retry-after']) || undefined
  const what = `A proxy in front of ${address} answered ${status} (${STATUS_CODES[status] ?? 'an unknown status'})`
  return new Refusal(kind, code, `${what}. ${advice}`, seconds === undefined ? {} : { retryAfterSeconds: seconds })
}

const unreachable = 'It cannot reach svc. Check that the svc server is running, and the port in its configuration'

/** What a proxy means with a status, and what to do: the code of the refusal, and a sentence. */
const curesOfProxies: Record<number, [code: string, advice: string]> = {
  401: [
    'proxy_login',
    'It requires its own user name and password. Turn off its login for paths below /api: svc checks its own tokens there'
  ],
  403: ['http_403', 'It refuses the request before svc sees it. Allow this address and this path in its rules'],
  407: ['proxy_auth', 'It requires authentication. Add a user name and a password to its address'],
  408: ['http_408', 'It waited too long for the request. Raise its limit (nginx: client_body_timeout)'],
  413: ['too_large', 'It refuses uploads of this size. Raise its limit (nginx: client_max_body_size 0)'],
  429: ['http_429', 'It limits the rate of requests. Wait, or raise its limit for this address'],
  500: ['http_500', 'It has an error of its own. See its log'],
  502: ['http_502', unreachable],
  503: ['http_503', unreachable],
  504: ['http_504', 'svc did not answer it in time. Raise its limit (nginx: proxy_read_timeout)']
}

/** Whether an error says that the server does not have the route: it is older, or another server of the interface. */
export function isUnknownRoute(error: unknown): boolean {
  if (!(error instanceof Refusal)) return false
  return ['not_found', 'http_404', 'http_405', 'method_not_allowed', 'not_svc'].includes(error.code)
}

/**
 * Returns the answer of a route that other servers of the same interface lack. They answer 404 or 405, or what svc would
 * not: another shape, or the page of their panel. Then it returns null.
 */
export async function ifKnown<T extends object>(asked: Promise<T>, isKnown: (answer: T) => boolean): Promise<T | null> {
  try {
    const answer: T | null = await asked
    return typeof answer === 'object' && answer !== null && isKnown(answer) ? answer : null
  } catch (error) {
    if (isUnknownRoute(error)) return null
    throw error
  }
}

/**
 * Returns the refusal for an answer that svc never sends. Usual causes: another program, or an address without prefix.
 */
export function notSvc(answer: Answer, address: string): Refusal {
  // Part of the request may be unsent and is not wanted, so the connection cannot be used again.
  answer.socket?.destroy()
  const type = (answer.headers['content-type'] ?? 'no content type').split(';', 1)[0]
  return new Refusal(
    'unavailable',
    'not_svc',
    `${address} is not an svc server: it answered ${answer.statusCode} with ${type}. Check the address, including its path prefix`
  )
}

/** Reads the whole body as text; one that is compressed with gzip is inflated. Refuses (`too_large`) more than `limitBytes`. */
export async function readText(answer: Answer, limitBytes: number): Promise<string> {
  const sentence = `The answer of the server is larger than ${limitBytes} bytes`
  const tooLong = () => new Refusal('too_large', 'answer_too_large', sentence)
  const body = await readAtMost(answer, { maxBytes: limitBytes, tooLong })
  if (answer.headers['content-encoding'] !== 'gzip') return body.toString()
  try {
    return gunzipSync(body, { maxOutputLength: limitBytes }).toString()
  } catch (error) {
    throw hasCode(error, 'ERR_BUFFER_TOO_LARGE') ? tooLong() : streamBroken()
  }
}

/** Parses JSON. Returns undefined if `text` is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Maximum length of a line. Output lines arrive in pieces of 64 KiB, which JSON may escape to six times that size. */
const maxLineLength = 1024 * 1024

/** Returns the values of a body that has one JSON object in each line. Refuses any other line. */
export async function* readNdjson(body: AsyncIterable<Buffer>): AsyncGenerator<Record<string, unknown>> {
  const lines = itemsOf<string>(body, onLine => createLineReader(onLine, { maxLength: maxLineLength }))
  for await (const line of lines) if (line.trim() !== '') yield parseObject(line)
}

export function readEvents(body: AsyncIterable<Buffer>): AsyncGenerator<ServerEvent> {
  return itemsOf(body, onEvent => createEventReader({ onEvent, maxLineLength }))
}

/** Options for following a stream over several connections. */
export interface FollowOptions {
  /** Called after a lost connection, before each new attempt. */
  onBroken?: (() => void) | undefined
  /** Whether the first connection is not tried again: nothing was lost yet. A cluster without a leader is waited for. */
  isFirst?: boolean
  signal?: AbortSignal | undefined
}

/** Timeout for inactivity. The server sends a comment at least every 15 s. */
const eventSilenceMs = 60_000
const maxBrokenInRow = 12
const longestPauseMs = 5000

/**
 * Yields the results of `read` for the events of a stream (null skips one), and reconnects as often as necessary.
 * `open` opens the stream after the event with the last id, which is empty at first. Ends when the caller stops
 * reading. Throws an error that reconnecting cannot cure, and the last error if too many connections in a row brought
 * no event.
 */
export async function* followEvents<T>(
  open: (lastId: string) => Promise<Answer>,
  read: (event: ServerEvent) => T | null,
  { onBroken, isFirst = false, signal }: FollowOptions
): AsyncGenerator<T> {
  let lastId = ''
  let isNew = isFirst
  for (let brokenInRow = 0; ; brokenInRow++) {
    try {
      const answer = await open(lastId)
      isNew = false
      answer.setTimeout(eventSilenceMs, () => answer.destroy(streamBroken()))
      for await (const event of readEvents(answer)) {
        lastId = event.id || lastId
        const item = read(event)
        brokenInRow = 0
        if (item !== null) yield item
      }
      throw streamBroken()
    } catch (error) {
      if (!mayRepeat(error) || brokenInRow >= maxBrokenInRow || (isNew && !isElecting(error))) throw error
      onBroken?.()
      await pauseBefore(brokenInRow, signal)
    }
  }
}

/** Repeats a read while the connection breaks, as often as `followEvents` reconnects. */
export async function repeated<T>(read: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let brokenInRow = 0; ; brokenInRow++) {
    try {
      return await read()
    } catch (error) {
      if (!mayRepeat(error) || brokenInRow >= maxBrokenInRow) throw error
      await pauseBefore(brokenInRow, signal)
    }
  }
}

function pauseBefore(attempt: number, signal: AbortSignal | undefined): Promise<void> {
  return pause(Math.min(longestPauseMs, 250 * 2 ** attempt), signal)
}

/** Returns the refusal for a stream that ended too early. */
export function streamBroken(): Refusal {
  return new Refusal('unavailable', 'stream_broken', 'The connection to the server was lost')
}

/** Returns whether a retry may help: the network failed, or the server is restarting. */
export function isBroken(error: unknown): boolean {
  if (error instanceof Refusal)
    return ['stream_broken', 'unreachable', 'bad_stream'].includes(error.code) || isPassing(error)
  return ['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ERR_STREAM_PREMATURE_CLOSE'].includes(
    String((error as NodeJS.ErrnoException)?.code)
  )
}

/** Whether a proxy answered what passes: it waited too long, limits the rate, or cannot reach svc. */
export function isPassing({ code }: Refusal): boolean {
  return /^http_(408|429|50[234]|52\d)$/.test(code)
}

/** Whether a cluster has no leader for some seconds: a hub whose problem lasts names no time to wait. */
export function isElecting(error: unknown): error is Refusal {
  if (!(error instanceof Refusal) || error.retryAfterSeconds === undefined) return false
  return error.code === 'no_leader' || error.code === 'not_leader'
}

/** Returns whether a read may be repeated: the connection is broken, or a cluster has no leader for some seconds. */
export function mayRepeat(error: unknown): boolean {
  const isLost = error instanceof Refusal && error.code === 'leader_lost'
  return isLost || isElecting(error) || isBroken(error)
}

interface TextReader {
  push(text: string): void
  end?(): void
}

/** Returns what a reader finds in a body, as it arrives. An error of the body is thrown unchanged. */
async function* itemsOf<T>(
  body: AsyncIterable<Buffer>,
  createReader: (onItem: (item: T) => void) => TextReader
): AsyncGenerator<T> {
  const decoder = new TextDecoder()
  let ready: T[] = []
  const reader = createReader(item => void ready.push(item))
  for await (const chunk of body) {
    reader.push(decoder.decode(chunk, { stream: true }))
    const items = ready
    ready = []
    yield* items
  }
  reader.push(decoder.decode())
  reader.end?.()
  yield* ready
}

/** Returns the JSON object that a line of a stream contains. Refuses (`unavailable`) bad_stream. */
export function parseObject(line: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {
    // Refused below, like any other line that is not an object.
  }
  throw new Refusal('unavailable', 'bad_stream', "Cannot read the server's answer: a line is not a JSON object")
}
