import { Refusal } from '../../base/errors.js'
import type { LogLevel } from '../../base/shared/log-line.js'
import type { LogHit, LogSource, LogWindow } from '../../model/log-source.js'
import type { ServerEvent } from '../../base/shared/api.js'
import type { Answer } from '../client/answer.js'
import type { Client } from '../client/client.js'
import { followEvents, parseObject, readEvents, repeated, streamBroken } from '../client/streams.js'

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
export interface LogApi {
  sources(): Promise<LogSource[]>
  /** Returns the size of the file in bytes. */
  size(id: string, request: LogRequest): Promise<number>
  window(id: string, query: Record<string, string>, request: LogRequest): Promise<LogWindow>
  /** Yields the complete lines of a range of bytes, in order, in batches. Reconnects as `follow` does. */
  lines(id: string, range: { from: number; to: number }, request: LogRequest): AsyncGenerator<string[]>
  /** Returns the newest hits, newest first. */
  search(id: string, request: LogSearchRequest): Promise<LogHit[]>
  /**
   * Yields new lines as they are written. After a lost connection it continues after the last event. A server that
   * cannot do that sends a snapshot, which gives the position.
   */
  follow(id: string, request: LogRequest & { onBroken(): void }): AsyncGenerator<LogEvent>
}

/** Builds the API of log sources on a client. */
export function createLogApi(client: Client): LogApi {
  const pathOf = (id: string, what: string): string => `/api/log-sources/${encodeURIComponent(id)}/${what}`
  const window: LogApi['window'] = (id, query, { signal }) => client.json({ path: pathOf(id, 'range'), query, signal })

  return {
    async sources() {
      return (await client.json<{ items: LogSource[] }>({ path: '/api/log-sources' })).items
    },
    async size(id, { signal }) {
      return (await client.json<{ size: number }>({ path: pathOf(id, 'meta'), signal })).size
    },
    window,
    async *lines(id, { from, to }, request) {
      for (let offset = from; offset < to; ) {
        const size = String(Math.min(maxWindowBytes, to - offset))
        const query = { offset: String(offset), direction: 'forward', size }
        const { lines, endOffset } = await repeated(() => window(id, query, request), request.signal)
        if (endOffset <= offset) return
        yield lines
        offset = endOffset
      }
    },
    async search(id, { q, ignoresCase, isRaw, level, since, toOffset, maxHits, signal }) {
      const query = {
        q,
        regex: '1',
        caseInsensitive: ignoresCase ? '1' : undefined,
        raw: isRaw ? '1' : undefined,
        level,
        since,
        toOffset: toOffset?.toString(),
        maxHits: String(maxHits),
        context: '0',
        order: 'newest'
      }
      const answer = await client.open({ path: pathOf(id, 'search'), query, accept: 'text/event-stream', signal })
      const hits: LogHit[] = []
      for await (const { event, data } of readEvents(answer)) {
        if (event === 'hit') hits.push(parseObject(data) as unknown as LogHit)
        else if (event === 'error') throw new Refusal('invalid', 'search_failed', String(parseObject(data)['message']))
        else if (event === 'done') return hits
      }
      throw streamBroken()
    },
    follow: (id, request) => follow(client, pathOf(id, 'stream'), request)
  }
}

function follow(client: Client, path: string, request: LogRequest & { onBroken(): void }): AsyncGenerator<LogEvent> {
  const { signal } = request
  const open = (lastId: string): Promise<Answer> => {
    const headers: Record<string, string> = lastId === '' ? {} : { 'last-event-id': lastId }
    return client.open({ path, query: { tailLines: '0' }, headers, accept: 'text/event-stream', signal })
  }
  return followEvents(open, eventOf, request)
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
