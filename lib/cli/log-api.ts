import { setTimeout as delay } from 'node:timers/promises'
import { Refusal } from '../base/refusal.js'
import type { LogLevel } from '../model/log-level.js'
import type { LogHit, LogSource, LogWindow } from '../model/log-source.js'
import { isBroken } from './api.js'
import type { Client } from './client.js'
import { parseObject, readEvents } from './streams.js'

/** The server sends a comment every 15 s at the latest. */
const eventSilenceMs = 60_000
const maxBrokenInRow = 12
const longestPauseMs = 5000
const maxWindowBytes = 1024 * 1024

/** A place in a file: bytes that were told, and which file it is. */
export interface LogPlace {
  offset: number
  file: string
}

/** An event of a log's stream (§6.3); `place`: up to where it tells; null: lines of a file that was rotated away. */
export type LogEvent =
  | { event: 'snapshot'; place: LogPlace; lines: string[]; binary: boolean }
  | { event: 'lines'; place: LogPlace | null; lines: string[] }
  | { event: 'rotated' }
  | { event: 'gap'; bytes: number }
  | { event: 'error'; message: string }

export interface LogSearchRequest {
  /** A regular expression. */
  q: string
  ignoresCase: boolean
  level: LogLevel | undefined
  /** ISO text; undefined: from the start. */
  since: string | undefined
  /** Only lines that begin before this byte. */
  toOffset: number | undefined
  maxHits: number
  signal: AbortSignal
}

export interface LogRequest {
  signal: AbortSignal
}

/** The API of log sources as functions (§4.9, §6.3, §6.4). */
export interface LogApi {
  sources(): Promise<LogSource[]>
  /** Bytes. */
  size(id: string, request: LogRequest): Promise<number>
  window(id: string, query: Record<string, string>, request: LogRequest): Promise<LogWindow>
  /** The whole lines from one byte to another, in order, in parts. */
  lines(id: string, range: { from: number; to: number }, request: LogRequest): AsyncGenerator<string[]>
  /** The newest hits, the last of them first. */
  search(id: string, request: LogSearchRequest): Promise<LogHit[]>
  /** What is written from now on; where the connection breaks it is opened again, and tells its place by a snapshot. */
  follow(id: string, request: LogRequest & { onBroken(): void }): AsyncGenerator<LogEvent>
}

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
      for (let offset = from; offset < to;) {
        const size = String(Math.min(maxWindowBytes, to - offset))
        const { lines, endOffset } = await window(id, { offset: String(offset), direction: 'forward', size }, request)
        if (endOffset <= offset) return
        yield lines
        offset = endOffset
      }
    },
    async search(id, { q, ignoresCase, level, since, toOffset, maxHits, signal }) {
      const query = {
        q, regex: '1', caseInsensitive: ignoresCase ? '1' : undefined, level, since,
        toOffset: toOffset?.toString(), maxHits: String(maxHits), context: '0', order: 'newest'
      }
      const answer = await client.open({ path: pathOf(id, 'search'), query, accept: 'text/event-stream', signal })
      const hits: LogHit[] = []
      for await (const { event, data } of readEvents(answer)) {
        if (event === 'hit') hits.push(parseObject(data) as unknown as LogHit)
        else if (event === 'error') throw new Refusal('invalid', 'search_failed', String(parseObject(data)['message']))
        else if (event === 'done') return hits
      }
      throw broken()
    },
    follow: (id, request) => follow(client, pathOf(id, 'stream'), request)
  }
}

async function* follow(
  client: Client, path: string, { onBroken, signal }: LogRequest & { onBroken(): void }
): AsyncGenerator<LogEvent> {
  for (let brokenInRow = 0; ; brokenInRow++) {
    try {
      const answer = await client.open({ path, query: { tailLines: '0' }, accept: 'text/event-stream', signal })
      answer.setTimeout(eventSilenceMs, () => answer.destroy(broken()))
      for await (const { event, data, id } of readEvents(answer)) {
        const known = eventOf(event, parseObject(data), id)
        if (known === null) continue
        brokenInRow = 0
        yield known
      }
      throw broken()
    } catch (error) {
      if (!isBroken(error) || brokenInRow >= maxBrokenInRow) throw error
      onBroken()
      await delay(Math.min(longestPauseMs, 250 * 2 ** brokenInRow), undefined, { signal })
    }
  }
}

/** Ids stay until the next one, as the standard has it: lines without one of their own tell no new place. */
function eventOf(event: string, data: Record<string, unknown>, id: string | undefined): LogEvent | null {
  const lines = Array.isArray(data['lines']) ? data['lines'].map(String) : []
  if (event === 'snapshot') return { event, place: placeOf(id), lines, binary: data['binary'] === true }
  if (event === 'lines') return { event, place: placeOf(id), lines }
  if (event === 'rotated') return { event }
  if (event === 'gap') return { event, bytes: Number(data['bytes']) }
  return event === 'error' ? { event, message: String(data['message']) } : null
}

function placeOf(id = ''): LogPlace {
  const at = id.indexOf('@')
  return { offset: Number(id.slice(0, at)) || 0, file: id.slice(at + 1) }
}

function broken(): Refusal {
  return new Refusal('unavailable', 'stream_broken', 'The connection to the server broke')
}
