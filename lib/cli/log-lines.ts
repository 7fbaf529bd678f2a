import { Refusal } from '../base/errors.js'
import { nearOr } from './client/named-project.js'
import type { LogSource, LogHit, LogWindow } from '../model/log-source.js'
import type { Project } from '../model/project.js'
import { levelIn, levelOfLine, type LogLevel, reachesLevel, timeOfLine } from '../base/shared/log-line.js'
import type { Paint } from './terminal/output.js'
import { uncoloured } from './terminal/terminal-text.js'
import type { ServerEvent } from '../base/shared/api.js'
import { type Answer, followEvents, parseObject, readEvents, repeated, streamBroken } from './client/answer.js'
import type { Client } from './client/client.js'
import type { Given } from '../api/map/routes.js'

/** A log line to print. */
export interface TailLine {
  /** Name of its log source. */
  name: string
  sourceId: string
  text: string
  /** Time of the line, else of the line before it; null if unknown. */
  timeMs: number | null
  /** Level in the line; null if it contains none. */
  level: LogLevel | null
}

/** The lines to print. */
export interface LineFilter {
  /** Expression that a line must match; null accepts every line. */
  pattern: RegExp | null
  /** Whether the expression sees control sequences, such as colours. Otherwise it sees what is printed. */
  isRaw: boolean
  /** Lowest level; undefined accepts every line. */
  least: LogLevel | undefined
}

/** Returns a function that reads the lines of one log in order. It returns null for lines that the filter rejects. */
export function createLineReader(
  { name, sourceId }: Pick<TailLine, 'name' | 'sourceId'>,
  { pattern, isRaw, least }: LineFilter
) {
  let timeMs: number | null = null
  // A line of a stack trace has the level of the line above it.
  let inherited: LogLevel | null = null
  return (text: string): TailLine | null => {
    timeMs = timeOfLine(text, Date.now()) ?? timeMs
    const level = levelOfLine(text)
    inherited = level ?? inherited
    const isWanted =
      (pattern === null || pattern.test(isRaw ? text : uncoloured(text))) &&
      (least === undefined || (inherited !== null && reachesLevel(inherited, least)))
    return isWanted ? { name, sourceId, text, timeMs, level } : null
  }
}

/**
 * Merges the lines of several logs by time. Lines of one log keep their order, whatever their times. Lines before the
 * first time of a log count as having that time.
 */
export function mergeLines(logs: ReadonlyArray<readonly TailLine[]>): TailLine[] {
  const timed = logs.flatMap(lines => {
    let last = lines.find(({ timeMs }) => timeMs !== null)?.timeMs ?? Infinity
    return lines.map(line => {
      last = Math.max(last, line.timeMs ?? -Infinity)
      return { line, at: last }
    })
  })
  return timed.sort((a, b) => (a.at === b.at ? 0 : a.at - b.at)).map(({ line }) => line)
}

/** Returns a function that renders a line for people: with its source if there are several, and its level in colour. */
export function createLinePrinter(names: readonly string[], paint: Paint): (line: TailLine) => string {
  const colors = [paint.blue, paint.green, paint.yellow, paint.dim]
  const width = Math.min(24, Math.max(...names.map(name => name.length)))
  return ({ name, text }) => {
    if (names.length < 2) return `${withLevel(text, paint)}\n`
    const color = colors[Math.max(0, names.indexOf(name)) % colors.length] ?? paint.dim
    return `${color(`${name.padEnd(width)} |`)} ${withLevel(text, paint)}\n`
  }
}

function withLevel(text: string, paint: Paint): string {
  const found = text.includes('\x1b') ? null : levelIn(text)
  if (found === null || found.from === found.to) return text
  const color = { error: paint.red, warn: paint.yellow, info: paint.blue, debug: paint.dim }[found.level]
  return `${text.slice(0, found.from)}${color(text.slice(found.from, found.to))}${text.slice(found.to)}`
}

/** Renders a line for programs, as one JSON object. */
export function jsonLine({ name, sourceId, text, timeMs, level }: TailLine): string {
  const time = timeMs === null ? null : new Date(timeMs).toISOString()
  return `${JSON.stringify({ source: name, sourceId, time, level, text })}\n`
}

/** A log source with a name that is unique among the chosen ones: its label, with the project's name if necessary. */
export interface NamedSource {
  source: LogSource
  name: string
}

interface Known {
  sources: readonly LogSource[]
  projects: ReadonlyArray<Pick<Project, 'id' | 'name'>>
}

/**
 * Returns the log sources that a word names: by id, by label, by `project/label`, or all of a project by its id or
 * name. Commas separate several of these. Refuses an unknown word, and an ambiguous one with the candidates.
 */
export function namedSources(word: string, known: Known): NamedSource[] {
  const whole = meant(word, known)
  const found =
    whole.length > 0 || !word.includes(',')
      ? sourcesOf(word, whole, known)
      : word
          .split(',')
          .map(part => part.trim())
          .filter(Boolean)
          .flatMap(part => sourcesOf(part, meant(part, known), known))
  const sources = [...new Set(found)]
  const isPlain = new Set(sources.map(({ label }) => label)).size === sources.length
  return sources.map(source => ({ source, name: isPlain ? source.label : longName(source, known) }))
}

type Meaning = { source: LogSource } | { project: Known['projects'][number] }

function meant(word: string, { sources, projects }: Known): Meaning[] {
  const byId: Meaning[] = [
    ...sources.filter(({ id }) => id === word).map(source => ({ source })),
    ...projects.filter(({ id }) => id === word).map(project => ({ project }))
  ]
  if (byId.length > 0) return byId
  return [
    ...sources
      .filter(source => source.label === word || longName(source, { sources, projects }) === word)
      .map(source => ({ source })),
    ...projects.filter(({ name }) => name === word).map(project => ({ project }))
  ]
}

function sourcesOf(word: string, meanings: readonly Meaning[], known: Known): LogSource[] {
  const [only] = meanings
  if (only === undefined) throw unknown(word, known)
  if (meanings.length > 1) {
    const candidates = meanings.map(each =>
      'source' in each
        ? `${longName(each.source, known)} (log source ${each.source.id})`
        : `${each.project.name} (project ${each.project.id})`
    )
    throw new Refusal(
      'invalid',
      'ambiguous_source',
      `"${word}" is ambiguous. Use the id of one of: ${candidates.join(', ')}`
    )
  }
  if ('source' in only) return [only.source]
  const { id, name } = only.project
  const own = known.sources.filter(({ projectId }) => projectId === id)
  if (own.length > 0) return own
  throw new Refusal(
    'not_found',
    'no_sources',
    `Project "${name}" has no log sources. Add its log files with "svc logs sources add" or in the panel`
  )
}

function unknown(word: string, known: Known): Refusal {
  const names = [...known.sources.map(({ label }) => label), ...known.projects.map(({ name }) => name)]
  const hint = nearOr(word, names, 'The panel lists the log sources under Logs')
  return new Refusal('not_found', 'unknown_source', `No log source and no project is called "${word}". ${hint}`)
}

function longName(source: LogSource, { projects }: Known): string {
  return `${projects.find(({ id }) => id === source.projectId)?.name ?? source.projectId}/${source.label}`
}

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
