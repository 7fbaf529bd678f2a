import { placeOf } from './calls.js'
import type { VerifyEvent } from '../../lib/model/plan.js'
import { createEventReader, createNdjsonReader, type ServerEvent } from '../shared/api.js'
import type { LogLevel } from '../shared/log-line.js'
import { type Client, pauseMs } from './client.js'

/*
 * Event streams over fetch, because EventSource cannot send headers. A stream that is silent for longer than the
 * keep-alives of the server allow is considered dead and is opened again.
 */

/** The server sends a comment every 15 s (§6.3). After three missed ones the connection is considered lost. */
const silenceMs = 45_000

export interface FollowOptions {
  /** Opens the stream after an event id. Rejects with a final error (refused) or a temporary one (network). */
  open: (lastEventId: string, signal: AbortSignal) => Promise<Response>
  /** Handles an event. Returning `last` ends the stream. */
  onEvent: (event: ServerEvent) => 'more' | 'last'
  /** Called when the connection is opened or lost. */
  onConnection?: (state: 'open' | 'lost') => void
  /** Whether an error of `open` is final. */
  isFinal: (error: unknown) => boolean
  signal: AbortSignal
}

/** Follows a stream over several connections until its last event. No event is lost or repeated. */
export async function followEvents({ open, onEvent, onConnection, isFinal, signal }: FollowOptions): Promise<void> {
  let lastId = ''
  let attempt = 0
  while (!signal.aborted) {
    const connection = new AbortController()
    const cut = (): void => connection.abort()
    signal.addEventListener('abort', cut)
    let timer = setTimeout(cut, silenceMs)
    try {
      const response = await open(lastId, connection.signal)
      onConnection?.('open')
      let isOver = false
      const reader = createEventReader({
        onEvent(event) {
          lastId = event.id
          attempt = 0
          if (!isOver) isOver = onEvent(event) === 'last'
        }
      })
      await eachText(response, text => {
        clearTimeout(timer)
        timer = setTimeout(cut, silenceMs)
        reader.push(text)
        return isOver ? 'last' : 'more'
      })
      if (isOver) return
    } catch (error) {
      if (signal.aborted) return
      if (isFinal(error)) throw error
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', cut)
    }
    if (signal.aborted) return
    onConnection?.('lost')
    await wait(pauseMs(attempt++, Math.random), signal)
  }
}

/** Reads one stream to its end. */
export async function readEvents(
  response: Response,
  onEvent: (event: ServerEvent) => void,
  onComment?: (text: string) => void
): Promise<void> {
  const reader = createEventReader({ onEvent, onComment })
  await eachText(response, text => {
    reader.push(text)
    return 'more'
  })
}

/** Maximum time for handling available events before the page can draw. */
const burstMs = 12

/** Passes the text of the body on as it arrives, decoded as UTF-8. */
async function eachText(response: Response, onText: (text: string) => 'more' | 'last'): Promise<void> {
  const reader = response.body?.getReader()
  if (reader === undefined) return
  const decoder = new TextDecoder()
  for (let sinceMs = performance.now(); ; ) {
    const { done, value } = await reader.read()
    if (done) return
    if (onText(decoder.decode(value, { stream: true })) === 'last') return reader.cancel()
    if (performance.now() - sinceMs < burstMs) continue
    await nextTask()
    sinceMs = performance.now()
  }
}

/** Waits for a new task, so that the page can draw. A resolved promise would continue before that. */
function nextTask(): Promise<void> {
  return new Promise(resolve => {
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = () => {
      port1.close()
      resolve()
    }
    port2.postMessage(null)
  })
}

function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const finish = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', finish)
      resolve()
    }
    const timer = setTimeout(finish, ms)
    signal.addEventListener('abort', finish)
  })
}

/** An event stream to open. An empty `lastEventId` begins it. */
interface EventsFrom {
  id: string
  lastEventId: string
  signal: AbortSignal
}

function openEvents({ send }: Client, path: string, { lastEventId, signal }: Omit<EventsFrom, 'id'>) {
  const accept = { accept: 'text/event-stream' }
  return send('GET', path, {
    headers: lastEventId === '' ? accept : { ...accept, 'last-event-id': lastEventId },
    signal
  })
}

/** Returns the event stream of the output of a deployment after an offset (§6.1). */
export function openOutput(client: Client, { id: deployId, ...from }: EventsFrom): Promise<Response> {
  return openEvents(client, placeOf('GET /api/logs/:deployId/stream', { deployId, query: { timestamps: '1' } }), from)
}

/** Returns the event stream of the new lines of a log file, or of those after an event. */
export function openLogStream(client: Client, { id: sourceId, ...from }: EventsFrom): Promise<Response> {
  const path = placeOf('GET /api/log-sources/:sourceId/stream', { sourceId, query: { tailLines: 0 } })
  return openEvents(client, path, from)
}

/** A search in a log file. */
export interface LogSearchQuery {
  q: string
  isRegex: boolean
  ignoresCase: boolean
  maxHits: number
  /** Number of context lines before and after each hit. */
  context: number
  /** Finds lines of this level or a worse one; null finds all. */
  level?: LogLevel | null
  /** Finds lines at or after this time and before `untilMs`. */
  sinceMs?: number | null
  untilMs?: number | null
  /** Finds lines that begin before this byte. */
  toOffset?: number | null
}

/** Searches a log file, newest hits first. */
export function openLogSearch(
  client: Client,
  wish: LogSearchQuery & { sourceId: string },
  signal: AbortSignal
): Promise<Response> {
  const { sourceId, q, isRegex, ignoresCase, maxHits, context, level, sinceMs, untilMs, toOffset } = wish
  const query = {
    q,
    maxHits,
    context,
    order: 'newest',
    regex: isRegex ? '1' : undefined,
    caseInsensitive: ignoresCase ? '1' : undefined,
    level: level ?? undefined,
    toOffset: toOffset ?? undefined,
    ...timeOf('since', sinceMs),
    ...timeOf('until', untilMs)
  } as const
  const path = placeOf('GET /api/log-sources/:sourceId/search', { sourceId, query })
  return openEvents(client, path, { lastEventId: '', signal })
}

/** A window of a log file. */
export interface RangeQuery {
  direction: 'forward' | 'backward' | 'tail'
  offset?: number
  /** The window begins with the first line at or after this time. Times without a zone are in the user's zone. */
  atMs?: number
  /** Size in bytes, at most 1 MiB. */
  size: number
}

/** Reads a window of a log file. */
export function readLogRange(
  { call }: Client,
  { sourceId, atMs, ...window }: RangeQuery & { sourceId: string },
  signal?: AbortSignal
) {
  const query = { ...window, ...timeOf('time', atMs) }
  return call('GET /api/log-sources/:sourceId/range', { sourceId, query, signal })
}

/** Returns a time and the user's zone, in which times without a zone are read. */
function timeOf(name: 'time' | 'since' | 'until', atMs: number | null | undefined): { zone?: number } {
  if (typeof atMs !== 'number') return {}
  const at = new Date(atMs)
  return { [name]: at.toISOString(), zone: -at.getTimezoneOffset() }
}

/** Compares every file of a target with what svc put there. Calls `onEvent` with each line of the answer. */
export async function verifyTarget(
  client: Client,
  id: string,
  { onEvent, signal }: { onEvent(event: VerifyEvent): void; signal: AbortSignal }
): Promise<void> {
  const response = await client.send('GET', placeOf('GET /api/projects/:id/verify', { id }), { signal })
  const lines = createNdjsonReader(value => onEvent(value as VerifyEvent))
  await eachText(response, text => {
    lines.push(text)
    return 'more'
  })
  lines.end()
}
