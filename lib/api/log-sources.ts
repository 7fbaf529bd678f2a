import { basename } from 'node:path'
import { Refusal, invalid } from '../base/errors.js'
import { isInScope } from '../model/access.js'
import { json, type Reply } from '../http/core/route.js'
import { eventStream, type Events } from '../http/streams.js'
import { downloadBlockBytes, type LogTime, type RangeQuery, type TimeRange } from '../operate/logs/viewer.js'
import { checkQuery, type SearchQuery } from '../operate/logs/search/search.js'
import { logLevels } from '../base/shared/log-line.js'
import { logKinds, type LogSource } from '../model/log-source.js'
import {
  integer,
  line,
  list,
  maxNameLength,
  maxPathLength,
  name,
  object,
  oneOf,
  optional,
  readFields,
  reads
} from '../base/fields.js'
import { type ApiRequest, type Handler, param, queryChoice, queryLimit, queryOffset, switchText } from './route.js'
import type { ApiServices } from './services.js'

const filePath = line({ min: 1, max: maxPathLength })
const label = optional(line({ max: maxNameLength, trim: true }))
const kind = optional(oneOf(logKinds))
const example = { filePath: '/var/log/shop.log', label: 'Shop', kind: 'plain' }
/** Fields of one new log source. */
export const itemFields = { filePath, label, kind }
const item = object(itemFields, { example })

/** Fields of `POST /api/projects/:id/log-sources` (§8). */
export const newFields = {
  /** The log sources to add. If one of them is invalid, none is added. */
  items: list(item, { min: 1, max: 50 })
}
/** Fields of `PATCH /api/log-sources/:sourceId`. */
export const changeFields = {
  label: optional(name),
  /**
   * What the lines are: text, JSON objects, text with terminal colors, output of a PM2 application, or lines of nginx.
   */
  kind,
  sortOrder: optional(integer(-1_000_000, 1_000_000)),
  /** Not allowed: the path of a log source cannot be changed. */
  filePath: optional(
    reads({ not: {} }, undefined, (_, field) => {
      throw invalid(field, '"filePath" cannot be changed: delete the log source and add another')
    })
  )
}
/** Fields of `POST /api/log-sources/bulk`. */
export const bulkFields = {
  /** Ids of the log sources. */
  ids: list(line({ min: 1, max: 100 }), { min: 1, max: 200 }),
  action: oneOf(['delete'] as const)
}

/** What a log stream holds while its client does not read: a block, its lines, and their text. */
const logStreamBytes = 128 * 1024
/** What a search holds: a hit with the lines around it. */
const searchBytes = 512 * 1024

const directions = ['forward', 'backward', 'tail'] as const
const orders = ['oldest', 'newest'] as const

/** Handlers of log sources and of their files: range, download, stream and search (§4.9, §6.3, §6.4). */
export async function logSourceHandlers({ logs }: ApiServices) {
  const { sources, viewer } = await logs()
  const sourceOf = (request: ApiRequest): LogSource => sources.get(param(request, 'sourceId'))

  return {
    list: request => json({ items: sources.list(param(request, 'id')) }),

    listAll: ({ actor }) =>
      json({ items: sources.listAll().filter(({ projectId }) => isInScope(actor.projects, projectId)) }),

    create: async request => {
      const { items } = readFields(await request.json(), newFields)
      return json({ success: true, items: await sources.create(param(request, 'id'), items, request.actor) })
    },

    update: async request => {
      const { filePath: _, ...fields } = readFields(await request.json(), changeFields)
      return json({ success: true, source: await sources.update(param(request, 'sourceId'), fields, request.actor) })
    },

    remove: async request => {
      await sources.remove(param(request, 'sourceId'), request.actor)
      return json({ success: true, message: 'The log source was removed; its file was not deleted' })
    },

    bulk: async request => {
      const { ids } = readFields(await request.json(), bulkFields)
      return json({ success: true, ...(await sources.removeAll(ids, request.actor)) })
    },

    meta: async request => json(await viewer.meta(sourceOf(request), request.signal)),

    range: async request => json(await viewer.range(sourceOf(request), rangeQuery(request))),

    download: async request => {
      const source = sourceOf(request)
      return {
        kind: 'stream',
        status: 200,
        heldBytes: downloadBlockBytes,
        headers: {
          'content-type': 'text/plain; charset=utf-8',
          'content-disposition': `attachment; filename*=UTF-8''${fileName(source)}`,
          'cache-control': 'no-store'
        },
        run: async sink => {
          for await (const block of viewer.read(source, sink.signal)) await sink.write(block)
        }
      }
    },

    stream: async request => {
      const source = sourceOf(request)
      const tailLines = queryCount(request.query, 'tailLines', { fallback: 200, max: 5_000 })
      // Not every client can set the header. One that reconnects by itself sends a newer id in it.
      const after = [request.headers['last-event-id']].flat()[0] ?? request.query.get('lastEventId') ?? undefined
      await viewer.check(source).catch(error => {
        // The file may appear later: the stream reports that it is missing, and waits for it.
        if (!(error instanceof Refusal) || error.code !== 'file_missing') throw error
      })
      return faultyStream(logStreamBytes, (events, signal) =>
        viewer.follow(source, { tailLines, after, signal }, event =>
          event.event === 'snapshot'
            ? events.sendParts({ ...event, list: { name: 'lines', parts: event.lines } })
            : events.send(event)
        )
      )
    },

    search: async request => {
      const source = sourceOf(request)
      const query = searchQuery(request)
      checkQuery(query)
      await viewer.check(source)
      const { caller } = request
      return faultyStream(searchBytes, (events, signal) =>
        viewer.search(source, { ...query, signal, caller }, event =>
          event.event === 'progress' ? events.comment(event.text) : events.send(event)
        )
      )
    }
  } satisfies Record<string, Handler>
}

/**
 * Returns the encoded file name of a download. RFC 8187 §3.2.1 allows fewer characters than a URL. The name loses
 * `.gz`, because the download is decompressed.
 */
function fileName({ filePath }: LogSource): string {
  const name = basename(filePath).replace(/\.gz$/i, '')
  return encodeURIComponent(Buffer.from(name).toString()).replace(
    /['()*]/g,
    each => `%${each.charCodeAt(0).toString(16)}`
  )
}

/**
 * Sends an error of the stream as an `error` event, which ends the stream (§7). Errors that are bugs are also logged.
 */
function faultyStream(heldBytes: number, run: (events: Events, signal: AbortSignal) => Promise<void>): Reply {
  return eventStream(
    async (events, signal) => {
      try {
        await run(events, signal)
      } catch (error) {
        if (signal.aborted) throw error
        const isRefusal = error instanceof Refusal
        const message = isRefusal
          ? error.message
          : 'Cannot read the log: internal error. The server log contains the cause'
        await events.send({ event: 'error', data: { message } })
        if (!isRefusal) throw error
      }
    },
    { heldBytes }
  )
}

/**
 * Reads the query of a range. Not in §4.9: `time` begins at the first line with this time or a later one; see
 * `queryTime`.
 */
function rangeQuery({ query, signal }: ApiRequest): RangeQuery {
  const offset = queryOffset(query, 'offset')
  const direction = queryChoice(query, 'direction', directions) ?? (offset === undefined ? 'tail' : 'forward')
  const sizeBytes = queryLimit(query, 'size', { fallback: 65_536, max: 1_048_576 })
  return { direction, offset, sizeBytes, time: queryTime(query, 'time'), signal }
}

/**
 * Reads the query of a search. Not in §4.9: `order` (`oldest` or `newest` first), `level` (this level or a more severe
 * one), `since` and `until` with `zone`, `raw`.
 */
function searchQuery({ query }: ApiRequest): SearchQuery & TimeRange {
  return {
    q: query.get('q') ?? '',
    isRegex: switchText(query.get('regex'), 'regex') ?? false,
    ignoresCase: switchText(query.get('caseInsensitive'), 'caseInsensitive') ?? false,
    isRaw: switchText(query.get('raw'), 'raw') ?? false,
    maxHits: queryLimit(query, 'maxHits', { fallback: 500, max: 5_000 }),
    context: queryCount(query, 'context', { fallback: 2, max: 20 }),
    fromOffset: queryOffset(query, 'fromOffset') ?? 0,
    toOffset: queryOffset(query, 'toOffset'),
    isNewestFirst: queryChoice(query, 'order', orders) === 'newest',
    level: queryChoice(query, 'level', logLevels),
    since: queryTime(query, 'since'),
    until: queryTime(query, 'until')
  }
}

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)$/

/**
 * Reads a time in the query. Returns undefined if the parameter is absent or empty. The parameter `zone` is the time
 * zone of log lines without a time zone, in minutes east of Greenwich.
 */
function queryTime(query: URLSearchParams, field: string): LogTime | undefined {
  const given = query.get(field)
  if (given === null || given === '') return undefined
  const atMs = instant.test(given) ? Date.parse(given) : Number.NaN
  if (Number.isNaN(atMs)) {
    throw invalid(field, `"${field}" is "${given}": expected a time with a time zone, like 2026-11-21T12:04:11Z`)
  }
  const zone = query.get('zone') ?? ''
  if (zone === '') return { atMs, zoneMinutes: undefined }
  if (/^[+-]?\d{1,3}$/.test(zone) && Math.abs(Number(zone)) <= 14 * 60) return { atMs, zoneMinutes: Number(zone) }
  throw invalid('zone', `"zone" is "${zone}": expected minutes east of Greenwich, from -840 to 840`)
}

/** Reads a limit like `queryLimit`, but allows 0. */
function queryCount(query: URLSearchParams, field: string, limits: { fallback: number; max: number }): number {
  return /^0+$/.test(query.get(field) ?? '') ? 0 : queryLimit(query, field, limits)
}
