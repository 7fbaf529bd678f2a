/* Reads the answers that follow a deployment: the lines of its output, and its status at the end. */
import type { DeploymentRow, FinalStatus } from '../../model/deployment.js'
import type { ServerEvent } from '../../base/shared/api.js'
import { Refusal } from '../../base/errors.js'
import type { RollbackPlan } from '../../model/plan.js'
import { isUnknownRoute, notSvc, parseJson, readText, type Answer } from './answer.js'
import { type Client, requestOf } from './client.js'
import { followEvents, type FollowOptions, isBroken, parseObject, readNdjson, streamBroken } from './streams.js'
import type { Given } from '../../api/map/routes.js'

/** The type of an answer that follows a run. */
export const ndjson = 'application/x-ndjson'
/** A comparison with a target takes up to a minute. */
export const compareLimitMs = 5 * 60_000
/** Maximum size of an answer that describes a run as a whole. */
const maxAnswerBytes = 16 * 1024 * 1024

/** An event of a watched deployment: its lines, then one final status. */
export type RunEvent =
  /** The deployment waits to be confirmed, until that time. */
  | { event: 'confirm'; deployId: string; until: string }
  | { event: 'log'; text: string; at: string | null }
  | { event: 'status'; status: FinalStatus; duration: string; deployId: string | null }

/** A deployment in progress. */
export interface Run {
  /** Null if an older server did not send the id at once. */
  deployId: string | null
  /** Address of its page in the panel; null if the server does not know it. */
  page: string | null
  events: AsyncIterable<RunEvent>
}

/** Returns whether a deployment has finished. */
export function isFinal(status: DeploymentRow['status']): status is FinalStatus {
  return status === 'success' || status === 'failed'
}

/** A route that deploys what the server keeps. */
type RunRoute = 'POST /api/deployments/:id/rollback' | 'POST /api/projects/:id/undo' | 'POST /api/projects/:id/promote'

/** What such a route takes. */
type RunWish<R extends RunRoute> = Omit<Given<R> extends { body?: infer B } ? NonNullable<B> : never, 'dryRun'> & {
  id: string
  signal?: AbortSignal
}

/** Begins a rollback, an undo or a promotion. */
export async function startRun<R extends RunRoute>(
  client: Client,
  route: R,
  { id, signal, ...body }: RunWish<R>
): Promise<Run> {
  const given = { id, body, accept: ndjson, orJson: true, signal }
  return runOf(client, await client.ask(route, given as never).catch(explainAge(route)))
}

/** Says what it would do. An older server does not know the field of a rollback, and begins: check that first. */
export async function planRun<R extends RunRoute>(
  client: Client,
  route: R,
  { id, signal, ...wish }: RunWish<R>
): Promise<RollbackPlan> {
  const given = { id, body: { ...wish, dryRun: true }, answerLimitMs: compareLimitMs, signal }
  return client.json<RollbackPlan>(requestOf(route, given as never)).catch(explainAge(route))
}

/** Explains the error of a promotion. A server without the route answers for the route, not for a record. */
function explainAge(route: RunRoute): (error: unknown) => never {
  return error => {
    const isOfRecord = error instanceof Refusal && /^\w[\w ]* not found: "/.test(error.message)
    if (!route.endsWith('promote') || !isUnknownRoute(error) || isOfRecord) throw error
    const sentence = 'The server is too old for promotions. Update it'
    throw new Refusal('invalid', 'server_too_old', sentence, { cause: error })
  }
}

/** Returns whether a request without an answer may have reached the server and taken effect. */
export function mayHaveArrived(error: unknown): boolean {
  if (!(error instanceof Refusal) || error.code !== 'unreachable') return isBroken(error)
  return ['ECONNRESET', 'EPIPE', 'ETIMEDOUT'].includes(String((error.cause as NodeJS.ErrnoException | undefined)?.code))
}

/** Returns the run that an answer has begun. Its events are the lines of the answer, or those of its deployment. */
export async function runOf(client: Client, answer: Answer): Promise<Run> {
  const { 'x-svc-deploy-id': deployId, 'x-svc-deploy-url': page, 'content-type': type = '' } = answer.headers
  if (type.startsWith('application/json')) return runOfJson(client, answer)
  return { deployId: textOrNull(deployId), page: isPage(page) ? page : null, events: readRun(answer) }
}

/**
 * Reads one JSON object that describes a run, as other servers of the same interface answer a rollback: with its id, with
 * its status, or both, also within `deployment`. Refuses (`unavailable`) not_svc an object without them.
 */
async function runOfJson(client: Client, answer: Answer): Promise<Run> {
  const value = parseJson(await readText(answer, maxAnswerBytes))
  const told = isObject(value) ? value : {}
  const record = isObject(told['deployment']) ? told['deployment'] : told
  const deployId = [told['deployId'], told['deploymentId'], record['deployId'], record['id']]
    .map(textOrNull)
    .find(Boolean)
  const status = textOrNull(record['status']) ?? textOrNull(told['status'])
  const ended =
    status ?? (told['success'] === undefined || deployId != null ? null : told['success'] ? 'success' : 'failed')
  if (ended === null || !isFinal(ended as DeploymentRow['status'])) {
    if (deployId == null) throw notSvc(answer, client.address)
    return { deployId, page: null, events: followRun(client, deployId, {}) }
  }
  const output = textOrNull(record['output']) ?? textOrNull(told['message']) ?? textOrNull(told['error'])
  return { deployId: deployId ?? null, page: null, events: eventsOf({ ...record, deployId, status: ended }, output) }
}

async function* eventsOf(ended: Record<string, unknown>, output: string | null): AsyncGenerator<RunEvent> {
  yield* linesOf(output ?? '', null)
  yield statusOf(ended)
}

/** Returns whether a text is a printable address: it is shown on the terminal, so it must not contain control characters. */
function isPage(page: unknown): page is string {
  return typeof page === 'string' && /^https?:\/\/[\x21-\x7e]+$/.test(page)
}

/** Reads the events of a run and ends after the status. A stream without a status is a lost connection. */
async function* readRun(answer: Answer): AsyncGenerator<RunEvent> {
  for await (const value of readNdjson(answer)) {
    if (value['event'] === 'log')
      yield { event: 'log', text: textOrNull(value['data']) ?? '', at: textOrNull(value['at']) }
    else if (value['event'] === 'confirm') yield confirmOf(value)
    else if (value['event'] === 'status') {
      yield statusOf(value)
      return
    }
  }
  throw streamBroken()
}

/** Replays the output of a deployment, and follows it until its final status, over lost connections. */
export async function* followRun(client: Client, id: string, options: FollowOptions): AsyncGenerator<RunEvent> {
  const { signal } = options
  let seen = 0
  let repeated = 0
  const open = (lastId: string): Promise<Answer> => {
    // A server whose events have no ids sends all of them again.
    repeated = lastId === '' ? seen : 0
    const headers: Record<string, string> = lastId === '' ? {} : { 'last-event-id': lastId }
    const given = { deployId: id, query: { timestamps: '1' }, headers, accept: 'text/event-stream', signal } as const
    return client.ask('GET /api/logs/:deployId/stream', given)
  }
  for await (const events of followEvents(open, runEventsOf, options)) {
    for (const event of events) {
      if (event.event === 'log' && repeated-- > 0) continue
      if (event.event === 'log') seen++
      yield event
      if (event.event === 'status') return
    }
  }
}

function runEventsOf({ event, data }: ServerEvent): RunEvent[] | null {
  if (event === 'log') return logOf(data)
  if (event === 'confirm') return [confirmOf(parseObject(data))]
  if (event !== 'status') return null
  const status = statusOf(parseObject(data))
  return isFinal(status.status) ? [status] : null
}

/** Reads a line with its time, or, of other servers of the same interface, a text of one or more lines. */
function logOf(data: string): RunEvent[] {
  const value = parseJson(data)
  if (isObject(value)) return linesOf(textOrNull(value['data']) ?? '', textOrNull(value['at']))
  return linesOf(typeof value === 'string' ? value : data, null)
}

function linesOf(text: string, at: string | null): RunEvent[] {
  if (text === '' && at === null) return []
  return text
    .replace(/\r?\n$/, '')
    .split(/\r?\n/)
    .map(line => ({ event: 'log', text: line, at }))
}

function confirmOf({ deployId, until }: Record<string, unknown>): RunEvent {
  return { event: 'confirm', deployId: String(deployId), until: String(until) }
}

function statusOf(value: Record<string, unknown>): Extract<RunEvent, { event: 'status' }> {
  const { status, duration, deployId } = value
  return {
    event: 'status',
    status: status as FinalStatus,
    duration: textOrNull(duration) ?? '',
    deployId: textOrNull(deployId)
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}
