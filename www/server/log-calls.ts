import type { Given } from '../../lib/api/map/call.js'
import type { LogSource } from '../../lib/model/log-source.js'
import type { LogLevel } from '../shared/log-line.js'
import { createCall, placeOf } from './call.js'
import type { Client } from './client.js'

/** The fields of a new log source. */
export type NewLogSource = Pick<LogSource, 'filePath'> & Partial<Pick<LogSource, 'label' | 'kind'>>

/** A window of a log file. */
export interface RangeQuery {
  direction: 'forward' | 'backward' | 'tail'
  offset?: number
  /** The window begins with the first line at or after this time. Times without a zone are in the user's zone. */
  atMs?: number
  /** Size in bytes, at most 1 MiB. */
  size: number
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

/** The API of log sources (§4.9, §6.3, §6.4). Each function rejects as `Client.ask` does. */
export type LogCalls = ReturnType<typeof createLogCalls>

/** Creates the calls. */
export function createLogCalls(client: Client) {
  const call = createCall(client)
  const events = { accept: 'text/event-stream' }

  return {
    sources: async (id: string, signal?: AbortSignal) =>
      (await call('GET /api/projects/:id/log-sources', { id, signal })).items,
    /** Returns the sources of all projects. */
    allSources: async (signal?: AbortSignal) => (await call('GET /api/log-sources', { signal })).items,
    add: async (id: string, items: readonly NewLogSource[]) =>
      (await call('POST /api/projects/:id/log-sources', { id, body: { items } })).items,
    /** Adds the log files of the PM2 application that are no log sources yet. */
    addPm2: async (id: string) => (await call('POST /api/projects/:id/log-sources/pm2', { id })).items,
    change: async (sourceId: string, body: Given<'PATCH /api/log-sources/:sourceId'>['body']) =>
      (await call('PATCH /api/log-sources/:sourceId', { sourceId, body })).source,
    /** Removes at most 200 sources. Their files stay. */
    remove: (ids: readonly string[]) => call('POST /api/log-sources/bulk', { body: { ids, action: 'delete' } }),
    meta: (sourceId: string, signal?: AbortSignal) => call('GET /api/log-sources/:sourceId/meta', { sourceId, signal }),
    range: (sourceId: string, { direction, offset, atMs, size }: RangeQuery, signal?: AbortSignal) =>
      call('GET /api/log-sources/:sourceId/range', {
        sourceId,
        query: { direction, size, offset, ...timeOf('time', atMs) },
        signal
      }),
    /** Returns the event stream of new lines, or of those after an event. */
    stream(sourceId: string, lastEventId: string, signal: AbortSignal): Promise<Response> {
      const headers = lastEventId === '' ? events : { ...events, 'last-event-id': lastEventId }
      const path = placeOf('GET /api/log-sources/:sourceId/stream', { sourceId, query: { tailLines: 0 } })
      return client.send('GET', path, { headers, signal })
    },
    /** Searches a file, newest hits first. */
    search(sourceId: string, query: LogSearchQuery, signal: AbortSignal): Promise<Response> {
      const { q, isRegex, ignoresCase, maxHits, context, level, sinceMs, untilMs, toOffset } = query
      const path = placeOf('GET /api/log-sources/:sourceId/search', {
        sourceId,
        query: {
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
        }
      })
      return client.send('GET', path, { headers: events, signal })
    },
    /** Returns an address that downloads the file once within a short time. */
    downloadAddress: (sourceId: string): string =>
      client.address(placeOf('GET /api/log-sources/:sourceId/download', { sourceId }))
  }
}

/** Returns a time and the user's zone, in which times without a zone are read. */
function timeOf(name: 'time' | 'since' | 'until', atMs: number | null | undefined): { zone?: number } {
  if (typeof atMs !== 'number') return {}
  const at = new Date(atMs)
  return { [name]: at.toISOString(), zone: -at.getTimezoneOffset() }
}
