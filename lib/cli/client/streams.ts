import { pause } from '../../base/clock.js'
import { Refusal } from '../../base/errors.js'
import { createEventReader, createLineReader, type ServerEvent } from '../../base/shared/api.js'
import type { Answer } from './answer.js'

/** Maximum length of a line. Output lines arrive in pieces of 64 KiB, which JSON may escape to six times that size. */
const maxLineLength = 1024 * 1024

/** Returns the values of a body that has one JSON object in each line. Refuses any other line. */
export async function* readNdjson(body: AsyncIterable<Buffer>): AsyncGenerator<Record<string, unknown>> {
  const lines = itemsOf<string>(body, onLine => createLineReader(onLine, { maxLength: maxLineLength }))
  for await (const line of lines) if (line.trim() !== '') yield parseObject(line)
}

/** Returns the events of an event stream. */
export function readEvents(body: AsyncIterable<Buffer>): AsyncGenerator<ServerEvent> {
  return itemsOf(body, onEvent => createEventReader({ onEvent, maxLineLength }))
}

/** Options for following a stream over several connections. */
export interface FollowOptions {
  /** Called after a lost connection, before each new attempt. */
  onBroken?: (() => void) | undefined
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
  { onBroken, signal }: FollowOptions
): AsyncGenerator<T> {
  let lastId = ''
  for (let brokenInRow = 0; ; brokenInRow++) {
    try {
      const answer = await open(lastId)
      answer.setTimeout(eventSilenceMs, () => answer.destroy(streamBroken()))
      for await (const event of readEvents(answer)) {
        lastId = event.id || lastId
        const item = read(event)
        brokenInRow = 0
        if (item !== null) yield item
      }
      throw streamBroken()
    } catch (error) {
      if (!mayRepeat(error) || brokenInRow >= maxBrokenInRow) throw error
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
