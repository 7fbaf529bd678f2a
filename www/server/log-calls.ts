import type { LogKind, LogSource, LogSourceMeta, LogWindow } from '../../lib/model/log-source.js'
import type { LogLevel } from '../../lib/shared/log-level.js'
import type { Client } from './client.js'

/** The fields of a new log source. */
export interface NewLogSource {
  filePath: string
  label?: string
  kind?: LogKind
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

/** The result of a bulk operation: the number of successes, and the errors of the others. */
export interface BulkOutcome {
  done: number
  failed: ReadonlyArray<{ id: string; error: string }>
}

/** The API of log sources (§4.9, §6.3, §6.4). Each function rejects as `Client.ask` does. */
export interface LogCalls {
  sources(projectId: string, signal?: AbortSignal): Promise<LogSource[]>
  /** Returns the sources of all projects. */
  allSources(signal?: AbortSignal): Promise<LogSource[]>
  add(projectId: string, items: readonly NewLogSource[]): Promise<LogSource[]>
  /** Adds the log files of the PM2 application that are no log sources yet. */
  addPm2(projectId: string): Promise<LogSource[]>
  change(id: string, patch: Partial<Pick<LogSource, 'label' | 'kind' | 'sortOrder'>>): Promise<LogSource>
  /** Removes at most 200 sources. Their files stay. */
  remove(ids: readonly string[]): Promise<BulkOutcome>
  meta(id: string, signal?: AbortSignal): Promise<LogSourceMeta>
  range(id: string, query: RangeQuery, signal?: AbortSignal): Promise<LogWindow>
  /** Returns the event stream of new lines, or of those after an event. */
  stream(id: string, lastEventId: string, signal: AbortSignal): Promise<Response>
  /** Searches a file, newest hits first. */
  search(id: string, query: LogSearchQuery, signal: AbortSignal): Promise<Response>
  /** Returns an address that downloads the file once within a short time. */
  downloadAddress(id: string): string
}

/** Creates the calls. */
export function createLogCalls(client: Client): LogCalls {
  const { ask, send } = client
  const at = (id: string): string => `api/log-sources/${encodeURIComponent(id)}`
  const ofProject = (id: string): string => `api/projects/${encodeURIComponent(id)}/log-sources`
  const events = { accept: 'text/event-stream' }

  return {
    async sources(projectId, signal) {
      return (await ask<{ items: LogSource[] }>('GET', ofProject(projectId), { signal })).items
    },
    async allSources(signal) {
      return (await ask<{ items: LogSource[] }>('GET', 'api/log-sources', { signal })).items
    },
    async add(projectId, items) {
      return (await ask<{ items: LogSource[] }>('POST', ofProject(projectId), { body: { items } })).items
    },
    async addPm2(projectId) {
      return (await ask<{ items: LogSource[] }>('POST', `${ofProject(projectId)}/pm2`)).items
    },
    async change(id, body) {
      return (await ask<{ source: LogSource }>('PATCH', at(id), { body })).source
    },
    remove: ids => ask('POST', 'api/log-sources/bulk', { body: { ids, action: 'delete' } }),
    meta: (id, signal) => ask('GET', `${at(id)}/meta`, { signal }),
    range(id, { direction, offset, atMs, size }, signal) {
      const query = new URLSearchParams({ direction, size: String(size) })
      if (offset !== undefined) query.set('offset', String(offset))
      putTime(query, 'time', atMs)
      return ask('GET', `${at(id)}/range?${query}`, { signal })
    },
    stream(id, lastEventId, signal) {
      const headers = lastEventId === '' ? events : { ...events, 'last-event-id': lastEventId }
      return send('GET', `${at(id)}/stream?tailLines=0`, { headers, signal })
    },
    search(id, { q, isRegex, ignoresCase, maxHits, context, level, sinceMs, untilMs, toOffset }, signal) {
      const query = new URLSearchParams({ q, maxHits: String(maxHits), context: String(context), order: 'newest' })
      if (isRegex) query.set('regex', '1')
      if (ignoresCase) query.set('caseInsensitive', '1')
      if (level) query.set('level', level)
      if (typeof toOffset === 'number') query.set('toOffset', String(toOffset))
      putTime(query, 'since', sinceMs)
      putTime(query, 'until', untilMs)
      return send('GET', `${at(id)}/search?${query}`, { headers: events, signal })
    },
    downloadAddress: id => client.address(`${at(id)}/download`)
  }
}

/** Adds a time and the user's zone, in which times without a zone are read. */
function putTime(query: URLSearchParams, name: string, atMs: number | null | undefined): void {
  if (typeof atMs !== 'number') return
  const at = new Date(atMs)
  query.set(name, at.toISOString())
  query.set('zone', String(-at.getTimezoneOffset()))
}
