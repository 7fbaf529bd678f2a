import { Refusal } from '../../base/errors.js'
import { countOf, oneLine } from '../../base/text.js'
import { logLevels } from '../../base/shared/log-line.js'
import type { Client } from '../client/client.js'
import { findProject } from '../client/named-project.js'
import { openAdmin, projectIdOf } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, number, option, toggle, usage } from '../command.js'
import { adminDetails, adminOptions, sharedOptions, timeOption } from '../common-options.js'
import { createLogApi, type LogApi } from '../log/log-api.js'
import {
  createLinePrinter,
  createLineReader,
  jsonLine,
  type LineFilter,
  mergeLines,
  type NamedSource,
  namedSources,
  type TailLine
} from '../log/log-lines.js'
import { createPast, followLog, type PastOf } from '../log/log-past.js'
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
