/* Reads the answers that follow a deployment: the lines of its output, and its status at the end. */
import type { DeploymentRow, FinalStatus, Deployment, ListedDeployment } from '../../model/deployment.js'
import type { ServerEvent } from '../../base/shared/api.js'
import { Refusal } from '../../base/errors.js'
import { oneLine } from '../../base/text.js'
import { waitingWords } from '../terminal/deployments.js'
import type { RollbackPlan } from '../../model/plan.js'
import {
  isUnknownRoute,
  notSvc,
  parseJson,
  readText,
  type Answer,
  ifKnown,
  followEvents,
  type FollowOptions,
  isBroken,
  parseObject,
  readNdjson,
  streamBroken
} from './answer.js'
import { type Client, requestOf } from './client.js'
import type { Given } from '../../api/map/routes.js'
import type { UploadPermit } from '../../model/access.js'
import type { ListedRollout } from '../../model/rollout.js'
import type { Marks } from '../../model/marks.js'

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
function isFinal(status: DeploymentRow['status']): status is FinalStatus {
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

/* What commands ask about deployments in more than one step, and what servers answer that are older or not svc. */

/** Maximum number of deployments that the server lists at once. */
const listLimit = 500

/** The filter for a list of deployments. */
type DeploymentQuery = Partial<NonNullable<Given<'GET /api/logs'>['query']>> & {
  signal?: AbortSignal
}

/** Lists deployments, newest first. */
export async function listDeployments(
  client: Pick<Client, 'call'>,
  { signal, ...query }: DeploymentQuery
): Promise<Deployment[]> {
  const { projectId = null, status = null, limit } = query
  // Other servers of the same interface list the deployments of all projects, whatever is asked for.
  const isAsked = (row: Deployment): boolean =>
    (projectId === null || row.projectId === projectId) && (status === null || row.status === status)
  const rows = (await client.call('GET /api/logs', { query, signal })) as Deployment[]
  return rows.filter(isAsked).slice(0, limit).map(completeDeployment)
}

/**
 * Returns the id of the newest deployment of a project before an upload; null: there is none. Undefined: it is not known.
 * An older server does not say it with the permit, and is asked.
 */
export async function newestBefore(
  client: Client,
  permit: UploadPermit | null,
  { projectId, signal }: { projectId: string; signal: AbortSignal }
): Promise<string | null | undefined> {
  if (permit?.newest !== undefined) return permit.newest
  const listed = listDeployments(client, { projectId, output: 'none', limit: 1, signal })
  return await listed.then(([row]) => row?.id ?? null).catch(() => undefined)
}

/** Returns the newest deployment of each project, by project id, without output. Older servers return only recent ones. */
export async function newestDeployments(client: Client): Promise<Map<string, ListedDeployment>> {
  const found = new Map<string, ListedDeployment>()
  for (let before: string | undefined; ; ) {
    const query = { newest: '1', output: 'none', limit: listLimit, before } as const
    const page: ListedDeployment[] = (await client.call('GET /api/logs', { query })).map(completeDeployment)
    const added = page.filter(row => !found.has(row.projectId))
    for (const row of added) if (!found.has(row.projectId)) found.set(row.projectId, row)
    // An older server ignores "newest" and lists every deployment.
    const isOlder = page.length !== new Set(page.map(row => row.projectId)).size || added.length < page.length
    if (page.length < listLimit || isOlder) return found
    before = page.at(-1)?.id
  }
}

/** Returns a deployment with its whole output, up to 1 MiB, or with the end of the output. */
export async function readDeployment(
  client: Pick<Client, 'call'>,
  deployId: string,
  { output = 'whole' }: { output?: 'whole' | 'end' } = {}
): Promise<Deployment> {
  return completeDeployment(
    (await client.call('GET /api/logs/:deployId', { deployId, query: { output } })) as Deployment
  )
}

/** Returns the rollout of a deployment. Null: there is none, the server is too old, or it cannot be read. */
export async function rolloutOf(client: Pick<Client, 'call'>, deployId: string): Promise<ListedRollout | null> {
  const asked = client.call('GET /api/rollouts', { query: { deployId, limit: 1 } })
  return (await asked.catch(() => ({ rollouts: [] }))).rollouts[0] ?? null
}

/** What an older server says, and what no projects have. */
export const noMarks: Marks = { waiting: [], locks: [], failedInBackground: [], placed: [] }

/** Returns what waits for somebody, locks, and failures in the background. Older servers tell nothing. */
export async function marksOf(client: Client, projectId?: string): Promise<Marks> {
  const asked = client.call('GET /api/marks', { query: { projectId } })
  return { ...noMarks, ...(await ifKnown(asked, ({ waiting }) => Array.isArray(waiting))) }
}

/** Time after which a command says what its request waits for. */
const silentMs = 2000

/** A request that may wait for deployments: of one project, or of any. */
interface WaitingRequest {
  client: Client
  projectId?: string
  note(line: string): void
}

/** Does work, and says once which deployments it may wait for, if it takes long. */
export async function sayingWait<T>({ client, projectId, note }: WaitingRequest, work: () => Promise<T>): Promise<T> {
  let isOver = false
  const look = async (): Promise<void> => {
    const asked = { projectId, status: 'running', output: 'none', limit: listLimit } as const
    const [running, { waiting }] = await Promise.all([listDeployments(client, asked), marksOf(client, projectId)])
    for (const { id, projectName } of isOver ? [] : running) {
      const held = waiting.find(each => each.deployId === id)
      const how = held === undefined ? 'which is running' : `which ${waitingWords(held, Date.now())}`
      note(oneLine(`Waiting for ${id} of ${projectName}, ${how}`))
    }
  }
  // The work tells what fails.
  const timer = setTimeout(() => void look().catch(() => {}), silentMs)
  try {
    return await work()
  } finally {
    isOver = true
    clearTimeout(timer)
  }
}

/** Returns the number of components of a release; null: it has no list, or the server is too old to say. */
export async function componentCount(client: Client, id: string): Promise<number | null> {
  const asked = client.call('GET /api/deployments/:id/attestations', { id })
  const found = await ifKnown(asked, ({ attestations }) => Array.isArray(attestations))
  return found?.attestations.find(({ components }) => components !== undefined)?.components ?? null
}

/** An upload that is checked in advance. */
interface CheckedUpload {
  projectId: string
  scripts: readonly string[]
  /** Why it would begin outside of the windows of the project. */
  override?: string | undefined
  /** When it would begin. */
  startAt?: string | undefined
  /** The tree of a release that this client knows. */
  base?: string | undefined
  signal?: AbortSignal
}

/** Checks an upload in advance, with the refusals of the upload itself. Returns null if the server is too old. */
export function checkUpload(
  client: Client,
  { projectId, scripts, override, startAt, base, signal }: CheckedUpload
): Promise<UploadPermit | null> {
  const query = { projectId, scripts: scripts.join(',') || undefined, override, startAt, base }
  const asked = client.call('GET /api/deploy/check', { query, signal })
  return ifKnown(asked, ({ maxUploadBytes }) => typeof maxUploadBytes === 'number')
}

/** Fields that other servers of the same interface have instead of some of svc's. */
interface OtherFields {
  artifactPath?: string | null
}

/**
 * Returns a record with the fields that servers may lack which are older or not svc: without an origin, a message and an
 * environment. If nothing says whether the archive is kept, it is assumed, so that the server decides.
 */
export function completeDeployment<T extends ListedDeployment>(given: T): T {
  const { artifactPath = '' } = given as OtherFields
  const missing = { rollbackOf: null, message: null, provenance: null, env: '', hasArtifact: artifactPath !== null }
  return { ...missing, ...given }
}
