import { Refusal } from '../../base/errors.js'
import { countOf, oneLine } from '../../base/text.js'
import { logLevels } from '../../base/shared/log-line.js'
import type { Client } from '../client/client.js'
import { findProject } from '../client/named-project.js'
import { openAdmin, projectIdOf } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, number, option, toggle, usage } from '../command.js'
import { adminDetails, adminOptions, sharedOptions, timeOption } from '../common-options.js'
import {
  createLogApi,
  type LogApi,
  type LogPlace,
  createLinePrinter,
  createLineReader,
  jsonLine,
  type LineFilter,
  mergeLines,
  type NamedSource,
  namedSources,
  type TailLine
} from '../log-lines.js'
import { describeProject } from '../project-options.js'
import { withInterrupts } from '../terminal/prompt.js'

const defaultLines = 10
/** Maximum number of lines of one source; a search returns no more. */
const maxLines = 5000

/** The commands for log files on the server. */
export const commands = {
  tail: defineCommand({
    operands: { source: { help: 'log source (id, label, project/label), project, or a list' } },
    options: {
      follow: toggle('print new lines until Ctrl-C', { alias: 'f' }),
      lines: number('count', 'last lines to print (10; with --since 5000)', {
        alias: 'n',
        minimum: 0,
        maximum: maxLines
      }),
      since: option('time', 'only lines since 10m, 12:04 or 2026-11-21T12:04'),
      grep: option('pattern', 'only lines that match this regular expression', { alias: 'g' }),
      'ignore-case': toggle('ignore case in --grep', { alias: 'i' }),
      raw: toggle('let --grep see colours and other control sequences'),
      level: option('level', 'only this level or worse: error, warn, info, debug', { choices: logLevels }),
      ...adminOptions,
      json: toggle('print one JSON object per line: source, time, level, text')
    },
    details:
      'A project means all its log sources. Separate several sources with commas. The default is the project in\n' +
      'svc.config.json.\n\n' +
      'Existing lines of several sources are merged by time; new lines are printed as they arrive. A line without a\n' +
      'level, such as a line of a stack trace, has the level of the line before it. Times without a zone are in the\n' +
      'time zone of the server for --since, and of this machine (TZ) for merging and --json.\n\n' +
      'Log sources can be any files on the server, so a deploy token cannot read them.\n\n' +
      adminDetails('viewer'),
    examples: [
      ['tail access.log', 'print the last 10 lines of a log source'],
      ['tail -f shop', 'follow all log sources of a project'],
      ['tail shop --since 1h --level error --json', 'print the errors of the last hour as JSON']
    ],
    async run({ options, operands }, context) {
      const { since, lines } = options
      const filter = filterOf(options)
      const sinceMs = since === undefined ? undefined : timeOption('--since', since, Date.now())
      const { client, config } = await openAdmin(context, options)
      const logs = createLogApi(client)
      const word = operands.source ?? projectIdOf(context, config)
      const sources = namedSources(word, {
        sources: (await client.call('GET /api/log-sources')).items,
        projects: await client.call('GET /api/projects')
      })
      const count = lines ?? (sinceMs === undefined ? defaultLines : maxLines)
      return withInterrupts(context.host, signal =>
        tail({
          client,
          api: logs,
          sources,
          filter,
          sinceMs,
          count,
          signal,
          follows: options.follow,
          isJson: options.json,
          context
        })
      )
    }
  }),

  'projects pm2-logs': defineCommand({
    operands: { project: { required: true, help: 'id or name of the project', complete: 'projects' } },
    options: { ...adminOptions, json: sharedOptions.json },
    details: `Adds the files for standard output and standard error of each instance. Files that are log sources of the
project already are left as they are. "svc tail" prints them.\n\n${adminDetails('admin')}`,
    examples: [['projects pm2-logs shop', 'add the log files of the PM2 application of a project']],
    async run({ options, operands }, { output, ...context }) {
      const { client } = await openAdmin({ output, ...context }, options)
      const project = await findProject(client, operands.project)
      const answer = await client.call('POST /api/projects/:id/log-sources/pm2', { id: project.id })
      if (options.json) output.json(answer)
      else {
        for (const { label, filePath } of answer.items) output.print(`${oneLine(label)}  ${oneLine(filePath)}`)
        output.note(`Added ${countOf(answer.items.length, 'log source')} to ${describeProject(project)}`)
      }
    }
  })
} satisfies Family

function filterOf({
  grep,
  'ignore-case': ignoresCase,
  raw: isRaw,
  level
}: {
  grep: string | undefined
  'ignore-case': boolean
  raw: boolean
  level: string | undefined
}): LineFilter {
  try {
    const pattern = grep === undefined ? null : new RegExp(grep, ignoresCase ? 'i' : '')
    return { pattern, isRaw, least: logLevels.find(each => each === level) }
  } catch (error) {
    throw usage('--grep', `--grep is not a regular expression: ${(error as Error).message}`)
  }
}

interface Tail {
  client: Client
  api: LogApi
  sources: readonly NamedSource[]
  filter: LineFilter
  sinceMs: number | undefined
  /** Number of existing lines to print. */
  count: number
  follows: boolean
  isJson: boolean
  signal: AbortSignal
  context: Context
}

async function tail(request: Tail): Promise<number> {
  const {
    sources,
    count,
    follows,
    isJson,
    context: { output }
  } = request
  const isAlone = sources.length === 1
  const names = sources.map(({ name }) => name)
  const print = createLinePrinter(names, output.paint)
  const write = (line: TailLine): Promise<void> => output.write(isJson ? jsonLine(line) : print(line))
  const note = (name: string, words: string): void => output.note(isAlone ? sentence(words) : `${name}: ${words}`)
  const pastOf = createPast(request)
  const past = createMeeting(sources.length, async logs => {
    for (const line of mergeLines(logs).slice(count === 0 ? Infinity : -count)) await write(line)
  })
  const results = await Promise.allSettled(
    sources.map(async named => {
      const take = past.member()
      try {
        if (follows) await followOne(request, named, { pastOf, take, write, note })
        else {
          const given = { sourceId: named.source.id, signal: request.signal }
          const { size } = await request.client.call('GET /api/log-sources/:sourceId/meta', given)
          await take(await pastOf(named, size))
        }
      } catch (error) {
        await take([])
        if (request.signal.aborted || isAlone || !(error instanceof Refusal)) throw error
        output.warn(`${named.name}: ${error.message}`)
        throw error
      }
    })
  )
  const failures = results.flatMap(result => (result.status === 'rejected' ? [result.reason as unknown] : []))
  const bug = failures.find(reason => isAlone || !(reason instanceof Refusal))
  if (bug !== undefined) throw bug
  return failures.length === sources.length ? exitCodes.failed : exitCodes.success
}

interface Sink {
  pastOf: PastOf
  /** Receives the existing lines of a source. Resolves once the lines of all sources are printed. */
  take(lines: TailLine[]): Promise<void>
  write(line: TailLine): Promise<void>
  note(name: string, words: string): void
}

function followOne(request: Tail, named: NamedSource, { pastOf, take, write, note }: Sink): Promise<void> {
  const { api, filter, signal } = request
  const {
    source: { id },
    name
  } = named
  const read = createLineReader({ name, sourceId: id }, filter)
  return followLog({
    api,
    id,
    signal,
    onBegin: async offset => take(await pastOf(named, offset)),
    async onLines(lines) {
      for (const text of lines) {
        const line = read(text)
        if (line !== null) await write(line)
      }
    },
    onNote: words => note(name, words)
  })
}

/**
 * Collects the lines of several members, one batch each. Calls `use` with all batches when the last one has arrived.
 */
function createMeeting(
  size: number,
  use: (brought: TailLine[][]) => Promise<void>
): { member(): (own: TailLine[]) => Promise<void> } {
  const brought: TailLine[][] = []
  let missing = size
  let finish: (done: Promise<void>) => void
  const done = new Promise<void>(resolve => {
    finish = resolve
  })
  return {
    member() {
      let isHere = false
      return own => {
        if (isHere) return done
        isHere = true
        brought.push(own)
        if (--missing === 0) finish(use(brought))
        return done
      }
    }
  }
}

const sentence = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1)

/** The lines to read, and the API to read them with. */
export interface PastNeeds {
  api: LogApi
  filter: LineFilter
  /** Time of the first line to read; undefined reads from the start of the file. */
  sinceMs: number | undefined
  /** Maximum number of lines of one source. */
  count: number
  signal: AbortSignal
}

/** Returns the last matching lines of a log source before a byte. */
type PastOf = (named: NamedSource, to: number) => Promise<TailLine[]>

const windowBytes = 256 * 1024
/** Number of concurrent searches. The server refuses more than a few, and other users search, too. */
const maxSearches = 2

/** Creates a reader for existing lines. With a filter the server searches them, else they are read by windows. */
export function createPast(needs: PastNeeds): PastOf {
  const inTurn = createTurns(maxSearches)
  const {
    filter: { pattern, least },
    count
  } = needs
  return async ({ source: { id }, name }, to) => {
    if (count === 0 || to === 0) return []
    const texts =
      pattern === null && least === undefined ? await linesOf(needs, id, to) : await inTurn(() => hitsOf(needs, id, to))
    const read = createLineReader({ name, sourceId: id }, { pattern: null, isRaw: false, least: undefined })
    // Extra lines were read because they give a time to later lines that have none.
    return texts
      .map(read)
      .filter((line): line is TailLine => line !== null)
      .slice(-count)
  }
}

async function hitsOf(
  { api, filter: { pattern, isRaw, least }, sinceMs, count, signal }: PastNeeds,
  id: string,
  to: number
): Promise<string[]> {
  const hits = await api.search(id, {
    q: pattern?.source ?? '^',
    ignoresCase: pattern?.ignoreCase ?? false,
    isRaw,
    level: least,
    since: sinceMs === undefined ? undefined : new Date(sinceMs).toISOString(),
    toOffset: to,
    maxHits: count,
    signal
  })
  return hits.reverse().map(({ text }) => text)
}

async function linesOf({ api, sinceMs, count, signal }: PastNeeds, id: string, to: number): Promise<string[]> {
  let lines: string[] = []
  if (sinceMs !== undefined) {
    const query = { direction: 'forward', time: new Date(sinceMs).toISOString(), size: 1 } as const
    const { startOffset } = await api.window(id, query, { signal })
    for await (const more of api.lines(id, { from: startOffset, to }, { signal }))
      lines = [...lines, ...more].slice(-count)
    return lines
  }
  for (let offset = to; offset > 0 && lines.length < count; ) {
    const query = { direction: 'backward', offset, size: windowBytes } as const
    const window = await api.window(id, query, { signal })
    if (window.startOffset >= offset) break
    lines = [...window.lines, ...lines]
    offset = window.startOffset
  }
  return lines
}

/** Limits the number of tasks that run at the same time. The others wait in order. */
function createTurns(most: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: Array<() => void> = []
  let running = 0
  return async work => {
    if (running >= most)
      await new Promise<void>(resolve => {
        waiting.push(resolve)
      })
    else running++
    try {
      return await work()
    } finally {
      // The next waiting task takes over the slot.
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }
}

/*
 * Follows a log source across lost connections. The first snapshot gives the position from which on every line arrives
 * as an event; the caller reads the lines before it. After a reconnect, the server continues after the last event. If it
 * sends a snapshot instead, the lines in between are read from the file.
 */

/** A log source to follow, and the callbacks for its lines. */
interface FollowedLog {
  api: LogApi
  id: string
  signal: AbortSignal
  /** Called once, before the first lines. The caller can read existing lines up to this byte of the file. */
  onBegin(offset: number): Promise<void>
  onLines(lines: readonly string[]): Promise<void>
  /** Reports a rotation, lost lines, a missing file or a lost connection. */
  onNote(words: string): void
}

/** Follows a log source until the signal is aborted or the server refuses. */
export async function followLog(followed: FollowedLog): Promise<void> {
  const { api, id, signal, onBegin, onLines, onNote } = followed
  let place: LogPlace | null = null
  let isRotating = false
  let isMissing = false
  const onBroken = (): void => onNote('the connection was lost, reconnecting…')
  for await (const event of api.follow(id, { signal, onBroken })) {
    if (event.event === 'error') {
      onNote(event.message)
      if (place !== null || isMissing) continue
      // A missing file has no existing lines. All of its lines are new once it exists.
      isMissing = true
      await onBegin(0)
    } else if (event.event === 'rotated') {
      isRotating = true
      onNote('the file was rotated')
    } else if (event.event === 'gap') {
      onNote(event.bytes === 0 ? 'lines may have been lost here' : `at least ${event.bytes} bytes were lost here`)
    } else if (event.event === 'lines') {
      place = event.place ?? place
      await onLines(event.lines)
    } else if (event.event === 'snapshot') {
      if (event.binary) onNote('this file is binary')
      const before: LogPlace | null = place
      place = event.place
      if (isRotating) await onLines(event.lines)
      else if (before === null && !isMissing) await onBegin(place.offset)
      else await catchUp(followed, before, place)
      isRotating = false
    }
  }
}

/** Reads the lines that were written during a lost connection: the whole file if it was replaced or is shorter. */
async function catchUp(
  { api, id, signal, onLines, onNote }: FollowedLog,
  before: LogPlace | null,
  now: LogPlace
): Promise<void> {
  const isSame = before !== null && before.file === now.file && before.offset <= now.offset
  if (before !== null && !isSame) onNote(lostWords(before.offset))
  for await (const lines of api.lines(id, { from: isSame ? before.offset : 0, to: now.offset }, { signal }))
    await onLines(lines)
}

const lostWords = (offset: number): string =>
  `the file was rotated meanwhile: lines of the old file after byte ${offset} may be missing, how many is not known`
