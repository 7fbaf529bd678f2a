import type { LogKind, LogSource, LogSourceMeta, LogWindow } from '../../lib/model/log-source.js'
import type { LogLevel } from '../../lib/model/log-level.js'
import type { Client } from './client.js'

/** What a source may be added with. */
export interface NewLogSource {
  filePath: string
  label?: string
  kind?: LogKind
}

export interface RangeQuery {
  direction: 'forward' | 'backward' | 'tail'
  offset?: number
  /** Begins with the first line at or after it; lines without a zone are taken for the reader's. */
  atMs?: number
  /** Bytes, at most 1 MiB. */
  size: number
}

export interface LogSearchQuery {
  q: string
  isRegex: boolean
  ignoresCase: boolean
  maxHits: number
  /** Lines before and after each hit. */
  context: number
  /** Only lines of this level, or worse; null: all. */
  level?: LogLevel | null
  /** Only lines at or after it, and before `untilMs`. */
  sinceMs?: number | null
  untilMs?: number | null
  /** Only lines that begin before this byte. */
  toOffset?: number | null
}

/** How many of several were done, and what stood in the way of the others. */
export interface BulkOutcome {
  done: number
  failed: ReadonlyArray<{ id: string; error: string }>
}

/** The API of log sources as functions (§4.9, §6.3, §6.4). Each rejects as Client.ask does. */
export interface LogCalls {
  sources(projectId: string, signal?: AbortSignal): Promise<LogSource[]>
  /** Of all projects. */
  allSources(signal?: AbortSignal): Promise<LogSource[]>
  add(projectId: string, items: readonly NewLogSource[]): Promise<LogSource[]>
  change(id: string, patch: Partial<Pick<LogSource, 'label' | 'kind' | 'sortOrder'>>): Promise<LogSource>
  /** At most 200. The files stay. */
  remove(ids: readonly string[]): Promise<BulkOutcome>
  meta(id: string, signal?: AbortSignal): Promise<LogSourceMeta>
  range(id: string, query: RangeQuery, signal?: AbortSignal): Promise<LogWindow>
  /** The event stream of what is written from now on. */
  stream(id: string, signal: AbortSignal): Promise<Response>
  /** The newest hits first. */
  search(id: string, query: LogSearchQuery, signal: AbortSignal): Promise<Response>
  /** An address that downloads the whole file once, soon. */
  downloadAddress(id: string): string
}

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
    stream: (id, signal) => send('GET', `${at(id)}/stream?tailLines=0`, { headers: events, signal }),
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

/** The times of lines that have no zone are read as the reader of the page reads them. */
function putTime(query: URLSearchParams, name: string, atMs: number | null | undefined): void {
  if (typeof atMs !== 'number') return
  const at = new Date(atMs)
  query.set(name, at.toISOString())
  query.set('zone', String(-at.getTimezoneOffset()))
}
