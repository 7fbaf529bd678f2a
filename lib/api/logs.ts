import { setImmediate as turn } from 'node:timers/promises'
import { perObject } from '../base/async.js'
import { invalid, notFound } from '../base/errors.js'
import { linesOf, type StoredBlock } from '../deploy/output/stored-output.js'
import { json, type Reply } from '../http/core/route.js'
import { encodeEvents, eventStream, type Events } from '../http/streams.js'
import { deploymentStatuses } from '../model/deployment.js'
import {
  type ApiRequest,
  checkProject,
  type Handler,
  param,
  queryChoice,
  queryLimit,
  queryOffset,
  queryText,
  switchText
} from './route.js'
import { showsOutput } from './records.js'
import type { ApiServices } from './services.js'

const windowBytes = 256 * 1024
const maxWindowBytes = 1024 * 1024
/** Records in a list without a query, */
const newestRecords = 500
/** and at least this many of every project. */
const newestOfProject = 10

/** Handlers of deployment records and their output (§4.5, §6.1). */
export function logHandlers({ records, deployer, deployments }: ApiServices) {
  const handlers = {
    list: async request => {
      const { query } = request
      if (query.toString() === '') return everyProject({ records, deployments }, request)
      const filter = {
        projectId: askedProject(request),
        projects: request.actor.projects,
        status: queryChoice(query, 'status', deploymentStatuses),
        branch: queryText(query, 'branch'),
        commit: queryCommit(query),
        traceId: queryText(query, 'traceId'),
        ...(switchText(query.get('newest'), 'newest') === true && { newest: true as const })
      }
      const before = queryText(query, 'before')
      if (before !== undefined) records.find(request, before)
      const limit = queryLimit(query, 'limit', { fallback: 100, max: 500 })
      const rows = deployments.list({ ...filter, limit, before })
      const total = deployments.count(filter)
      const items = showsOutput(request)
        ? await Promise.all(rows.map(row => records.listed(request, row)))
        : rows.map(row => records.bare(request, row))
      return json(items, 200, { 'x-total-count': String(total) })
    },

    get: async request => {
      const row = records.find(request, param(request, 'deployId'))
      const isShort = queryChoice(request.query, 'output', ['end', 'whole'] as const) === 'end'
      const ahead = row.status === 'queued' ? deployer.rolloutAhead(row.projectId) : null
      const record = await (isShort
        ? records.listed(request, row)
        : records.complete(request, row, { timestamps: wantsTimes(request) }))
      return json({ ...record, ...(ahead !== null && { rolloutAhead: ahead }) })
    },

    stream: request => {
      const { id } = records.find(request, param(request, 'deployId'))
      return streamOf(id, { from: lastEventId(request), timestamps: wantsTimes(request) })
    },

    output: async request => {
      const { id } = records.find(request, param(request, 'deployId'))
      if (['from', 'before', 'bytes'].some(name => request.query.has(name)))
        return await windowOf({ deployer }, id, request)
      const output = deployer.outputStream(id, { timestamps: wantsTimes(request) })
      return textReply(output, `${id}.log`)
    }
  } satisfies Record<string, Handler>
  return handlers

  function streamOf(deployId: string, { from, timestamps }: StreamWish): Reply {
    const eventsOf = timestamps ? timedEventsOf : bareEventsOf
    return eventStream(async (events, signal) => {
      let told: string | null = null
      const tellConfirm = async (): Promise<void> => {
        const until = deployer.confirmUntil(deployId)
        if (until !== null && until !== told) await events.send({ event: 'confirm', data: { deployId, until } })
        told = until
      }
      let start = from
      if (!timestamps && from === 0) {
        start = await sendStored({ deployer }, deployId, events)
        await tellConfirm()
      }
      for await (const block of deployer.follow(deployId, { from: start, signal })) {
        await events.send(eventsOf(block))
        await tellConfirm()
      }
      const { status, duration, endTime } = records.row(deployId)
      const unrecorded = deployer.unrecorded(deployId)
      if (unrecorded !== null) {
        const line = { at: endTime, text: `→ ${unrecorded}` }
        await events.send({ event: 'log', data: timestamps ? timedLine(line) : bareLine(line) })
      }
      await events.send({ event: 'status', data: { status, duration } })
    })
  }
}

/**
 * Returns the newest records, and at least some of every project: for clients that select a project themselves. There
 * can be as many as projects, so they are read and sent a few at a time.
 */
function everyProject(
  { records, deployments }: Pick<ApiServices, 'records' | 'deployments'>,
  request: ApiRequest
): Reply {
  const { projects } = request.actor
  const pages = deployments.newestOfEvery({ projects, total: newestRecords, each: newestOfProject })
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'x-total-count': String(deployments.count({ projects }))
  }
  return {
    kind: 'stream',
    status: 200,
    headers,
    async run(sink) {
      let before = '['
      for (const page of pages) {
        if (page.length === 0) await turn()
        const rows = page.flatMap(id => deployments.find(id) ?? [])
        const items = await Promise.all(rows.map(row => records.listed(request, row)))
        for (const item of items) {
          await sink.write(`${before}${JSON.stringify(item)}`)
          before = ','
        }
      }
      await sink.write(before === '[' ? '[]' : ']')
    }
  }
}

/** Returns a part of the output. Headers contain its position, in bytes of the stored output. */
async function windowOf(
  { deployer }: Pick<ApiServices, 'deployer'>,
  deployId: string,
  request: ApiRequest
): Promise<Reply> {
  const { query } = request
  const { text, from, to } = await deployer.outputWindow(deployId, {
    timestamps: wantsTimes(request),
    from: queryOffset(query, 'from'),
    before: queryOffset(query, 'before'),
    maxBytes: queryLimit(query, 'bytes', { fallback: windowBytes, max: maxWindowBytes })
  })
  const headers = {
    'content-type': 'text/plain; charset=utf-8',
    'cache-control': 'no-store',
    'x-svc-output-from': String(from),
    'x-svc-output-to': String(to)
  }
  return { kind: 'bytes', status: 200, headers, body: text }
}

/** Sends the stored lines as one event, as many as a window holds. Returns the offset after them. */
async function sendStored(
  { deployer }: Pick<ApiServices, 'deployer'>,
  deployId: string,
  events: Events
): Promise<number> {
  const { text, to } = await deployer.outputWindow(deployId, { from: 0, maxBytes: windowBytes })
  if (to > 0) await events.send({ event: 'log', id: to, data: JSON.stringify(text.toString().replace(/\n$/, '')) })
  return to
}

interface StreamWish {
  from: number
  timestamps: boolean
}

type ShownLine = { at: string | null; text: string }

const timedLine = ({ at, text }: ShownLine) => ({ data: text, at })
/** A text is sent as it is, so this is the JSON of a string. */
const bareLine = ({ text }: ShownLine) => JSON.stringify(text)
const timedEventsOf = encoderOf(timedLine)
const bareEventsOf = encoderOf(bareLine)

/** Returns an encoder of blocks as events. Results are cached, so that all followers share them. */
function encoderOf(dataOf: (line: ShownLine) => unknown): (block: StoredBlock) => Uint8Array {
  return perObject((block: StoredBlock) =>
    encodeEvents(
      Array.from(linesOf(block), ({ line, nextOffset }) => ({ event: 'log', id: nextOffset, data: dataOf(line) }))
    )
  )
}

/** Returns the project that the client asks for. */
function askedProject({ query, actor }: ApiRequest): string | undefined {
  const asked = queryText(query, 'projectId')
  if (asked !== undefined) checkProject(actor, asked, () => notFound('Project', asked))
  return asked
}

/** Reads the first digits of a commit id, in lower case. Returns undefined if the parameter is absent or empty. */
function queryCommit(query: URLSearchParams): string | undefined {
  const given = queryText(query, 'commit')
  if (given === undefined || /^[0-9a-f]{4,64}$/i.test(given)) return given?.toLowerCase()
  throw invalid('commit', '"commit" is invalid: expected at least 4 hexadecimal digits of a commit id')
}

function wantsTimes({ query }: ApiRequest): boolean {
  return switchText(query.get('timestamps'), 'timestamps') ?? false
}

/** Returns the offset at which a reconnecting client continues, or 0 if the header is absent or not an offset. */
function lastEventId({ headers }: ApiRequest): number {
  const given = headers['last-event-id']
  return typeof given === 'string' && /^\d{1,15}$/.test(given) ? Number(given) : 0
}

function textReply(output: AsyncIterable<Uint8Array>, filename: string): Reply {
  return {
    kind: 'stream',
    status: 200,
    headers: {
      'content-type': 'text/plain; charset=utf-8',
      'content-disposition': `attachment; filename="${filename}"`,
      'cache-control': 'no-store'
    },
    run: async sink => {
      for await (const chunk of output) await sink.write(chunk)
    }
  }
}
