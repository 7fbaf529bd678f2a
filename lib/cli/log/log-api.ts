import { Refusal } from '../../base/errors.js'
import type { LogLevel } from '../../base/shared/log-line.js'
import type { LogHit, LogWindow } from '../../model/log-source.js'
import type { ServerEvent } from '../../base/shared/api.js'
import type { Answer } from '../client/answer.js'
import type { Client } from '../client/client.js'
import { followEvents, parseObject, readEvents, repeated, streamBroken } from '../client/streams.js'
import type { Given } from '../../api/map/routes.js'

const maxWindowBytes = 1024 * 1024

/** A position in a log: the number of bytes before it, and the file, since rotation replaces files. */
export interface LogPlace {
  offset: number
  file: string
}

/** An event of a log stream (§6.3). `place` is the position after its lines; null for lines of a file rotated away. */
export type LogEvent =
  | { event: 'resumed' }
  | { event: 'snapshot'; place: LogPlace; lines: string[]; binary: boolean }
  | { event: 'lines'; place: LogPlace | null; lines: string[] }
  | { event: 'rotated' }
  | { event: 'gap'; bytes: number }
  | { event: 'error'; message: string }

/** Options of a search. */
export interface LogSearchRequest {
  /** A regular expression. */
  q: string
  ignoresCase: boolean
  /** Whether control sequences, such as colours, are part of the lines. */
  isRaw: boolean
  level: LogLevel | undefined
  /** Start as ISO text; undefined searches from the start of the file. */
  since: string | undefined
  /** Searches only lines that begin before this byte. */
  toOffset: number | undefined
  maxHits: number
  signal: AbortSignal
}

/** Options of every request. */
export interface LogRequest {
  signal: AbortSignal
}

/** The API of log sources as functions (§4.9, §6.3, §6.4). */
export type LogApi = ReturnType<typeof createLogApi>

/** The query of a window of a file. */
type WindowQuery = NonNullable<Given<'GET /api/log-sources/:sourceId/range'>['query']>

/** Builds the API of log sources on a client. */
export function createLogApi(client: Client) {
  const window = (sourceId: string, query: WindowQuery, { signal }: LogRequest): Promise<LogWindow> =>
    client.call('GET /api/log-sources/:sourceId/range', { sourceId, query, signal })

  return {
    window,

    /** Yields the complete lines of a range of bytes, in order, in batches. Reconnects as `follow` does. */
    async *lines(
      id: string,
      { from, to }: { from: number; to: number },
      request: LogRequest
    ): AsyncGenerator<string[]> {
      for (let offset = from; offset < to; ) {
        const query = { offset, direction: 'forward', size: Math.min(maxWindowBytes, to - offset) } as const
        const { lines, endOffset } = await repeated(() => window(id, query, request), request.signal)
        if (endOffset <= offset) return
        yield lines
        offset = endOffset
      }
    },

    /** Returns the newest hits, newest first. */
    async search(sourceId: string, asked: LogSearchRequest): Promise<LogHit[]> {
      const { q, ignoresCase, isRaw, level, since, toOffset, maxHits, signal } = asked
      const query = {
        q,
        regex: '1' as const,
        caseInsensitive: ignoresCase ? ('1' as const) : undefined,
        raw: isRaw ? ('1' as const) : undefined,
        level,
        since,
        toOffset,
        maxHits,
        context: 0,
        order: 'newest' as const
      }
      const given = { sourceId, query, accept: 'text/event-stream', signal } as const
      const answer = await client.ask('GET /api/log-sources/:sourceId/search', given)
      const hits: LogHit[] = []
      for await (const { event, data } of readEvents(answer)) {
        if (event === 'hit') hits.push(parseObject(data) as unknown as LogHit)
        else if (event === 'error') throw new Refusal('invalid', 'search_failed', String(parseObject(data)['message']))
        else if (event === 'done') return hits
      }
      throw streamBroken()
    },

    /**
     * Yields new lines as they are written. After a lost connection it continues after the last event. A server that
     * cannot do that sends a snapshot, which gives the position.
     */
    follow(sourceId: string, request: LogRequest & { onBroken(): void }): AsyncGenerator<LogEvent> {
      const open = (lastId: string): Promise<Answer> => {
        const headers: Record<string, string> = lastId === '' ? {} : { 'last-event-id': lastId }
        const given = { sourceId, query: { tailLines: 0 }, headers, accept: 'text/event-stream' } as const
        return client.ask('GET /api/log-sources/:sourceId/stream', { ...given, signal: request.signal })
      }
      return followEvents(open, eventOf, request)
    }
  }
}

/** Converts an event of the stream. An id stays until the next one (HTML standard). */
function eventOf({ event, data: text, id }: ServerEvent): LogEvent | null {
  const data = parseObject(text)
  const lines = Array.isArray(data['lines']) ? data['lines'].map(String) : []
  if (event === 'snapshot')
    return { event, place: placeOf(id) ?? { offset: 0, file: '' }, lines, binary: data['binary'] === true }
  if (event === 'lines') return { event, place: placeOf(id), lines }
  if (event === 'rotated' || event === 'resumed') return { event }
  if (event === 'gap') return { event, bytes: Number(data['bytes']) }
  return event === 'error' ? { event, message: String(data['message']) } : null
}

function placeOf(id: string): LogPlace | null {
  const [, offset, file] = /^(\d+)@([^;,]*)/.exec(id) ?? []
  return file === undefined ? null : { offset: Number(offset), file }
}
