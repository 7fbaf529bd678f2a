import { createEventReader, createNdjsonReader, type ServerEvent } from '../shared/api.js'
import type { BulkAction, BulkOutcome, Label, LabelColor, LabelKind } from '../../lib/model/project.js'
import type { DeploymentStatus, ListedDeployment, OutputLine } from '../../lib/model/deployment.js'
import type { ListedLock } from '../../lib/model/marks.js'
import type { LogSource } from '../../lib/model/log-source.js'
import type { PlanAnswer, VerifyEvent } from '../../lib/model/plan.js'
import { type Client, ifMatch, placeOf, type SendOptions } from './client.js'
import type { LogLevel } from '../shared/log-line.js'
import type { Answered, Given, Route } from '../../lib/api/map/routes.js'

/* Requests that are more than one call of a route. Each rejects as `Client.ask` does. */

/** The header that contains the deployment's id in a streaming answer, before its first line. */
export const deployIdHeader = 'x-svc-deploy-id'

/**
 * Starts a deployment, and returns its id when it is recorded. The stream is cancelled: the page of the deployment
 * follows it by its id. The deployment continues.
 */
export async function startDeployment<R extends Route>({ send }: Client, route: R, given: Given<R>): Promise<string> {
  const { body } = given as SendOptions
  const response = await send('POST', placeOf(route, given), { headers: { accept: 'application/x-ndjson' }, body })
  await response.body?.cancel()
  return response.headers.get(deployIdHeader) ?? ''
}

/** A page of deployments. */
export interface DeploymentQuery {
  projectId?: string | undefined
  status?: DeploymentStatus | undefined
  branch?: string | undefined
  /** First digits of a commit, at least four. */
  commit?: string | undefined
  limit: number
  /** Id of the last deployment of the previous page. */
  before?: string | undefined
}

export interface DeploymentPage {
  items: ListedDeployment[]
  /** Number of matching deployments on all pages. */
  total: number
}

/** A range of the stored output: from an offset on, before an offset, or the end. */
export interface OutputWindowQuery {
  from?: number
  before?: number
  bytes: number
}

/** Whole lines and their byte range. */
export interface OutputWindow {
  lines: OutputLine[]
  from: number
  to: number
}

/** Returns a page of deployments without their output. */
export async function readDeployments(
  { send }: Client,
  query: DeploymentQuery,
  signal?: AbortSignal
): Promise<DeploymentPage> {
  const path = placeOf('GET /api/logs', { query: { output: 'none', ...query } })
  const response = await send('GET', path, { signal })
  const items: ListedDeployment[] = await response.json()
  return { items, total: Number(response.headers.get('x-total-count') ?? items.length) }
}

/** Returns a part of the output of a deployment with the times of its lines. */
export async function readOutput(
  { send }: Client,
  { deployId, ...query }: OutputWindowQuery & { deployId: string },
  signal?: AbortSignal
): Promise<OutputWindow> {
  const path = placeOf('GET /api/logs/:deployId/output', { deployId, query: { timestamps: '1', ...query } })
  const response = await send('GET', path, { signal })
  const place = (name: string): number => Number(response.headers.get(`x-svc-output-${name}`))
  return { lines: linesOf(await response.text()), from: place('from'), to: place('to') }
}

/** Reads lines with timestamps: 24 characters of time, a space, the text. */
function linesOf(output: string): OutputLine[] {
  const lines = output.split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines.map(line => ({ at: line.slice(0, 24), text: line.slice(25) }))
}

/** The body of a request for a plan (archive/plan-tree.ts). */
export interface PlanBody {
  body: Blob
  isGzip: boolean
}

/** What to ask for instead of the policy of the project. */
export interface PlanWishes {
  /** Replace edited files although the policy refuses it. */
  force: boolean
  /** Remove files however many they are. */
  pruneAll: boolean
  /** Remove also what svc did not put there. */
  pruneForeign: boolean
  /** Why it begins outside of the windows of the project; null: it does not. */
  override: string | null
}

/** Returns what a deployment of a tree would do. */
export function requestPlan(
  { ask }: Client,
  projectId: string,
  { body, isGzip, wishes, signal }: PlanBody & { wishes: PlanWishes; signal: AbortSignal }
): Promise<PlanAnswer> {
  const prune = wishes.pruneForeign ? 'foreign' : wishes.pruneAll ? 'force' : undefined
  const query = {
    projectId,
    force: wishes.force ? '1' : undefined,
    prune,
    override: wishes.override ?? undefined
  } as const
  const headers: Record<string, string> = { 'x-svc-time': String(Date.now()) }
  if (isGzip) headers['content-encoding'] = 'gzip'
  return ask('POST', placeOf('POST /api/deploy/plan', { query }), { body, headers, signal })
}

/** How to go back. `mode` undefined: as the policy of the project says. */
export interface RollbackWish {
  mode?: 'exact' | 'overlay'
  /** Whether files that were edited since are taken back, too. */
  force?: boolean
}

/** All categories and tags. */
export interface Labels {
  categories: readonly Label[]
  tags: readonly Label[]
}

/** Returns the labels of both kinds. */
export async function readLabels({ call }: Client, signal?: AbortSignal): Promise<Labels> {
  const all = [call('GET /api/categories', { signal }), call('GET /api/tags', { signal })] as const
  const [categories, tags] = await Promise.all(all)
  return { categories, tags }
}

/** Changes the part of a label that is given. */
interface LabelFields {
  name?: string
  color?: LabelColor
  sortOrder?: number
}

const labelOf = (answer: { category: Label } | { tag: Label }): Label =>
  'tag' in answer ? answer.tag : answer.category

/** The routes of the labels of a kind. */
export const labelPaths = { category: '/api/categories', tag: '/api/tags' } as const

export async function createLabel({ call }: Client, kind: LabelKind, body: LabelFields & { name: string }) {
  return labelOf(await call(`POST ${labelPaths[kind]}`, { body }))
}

/** Updates a label. `tag` is the `updatedAt` of the state to change; null accepts any state. */
export async function updateLabel(
  { call }: Client,
  { kind, id }: Pick<Label, 'id'> & { kind: LabelKind },
  { fields: body, tag }: { fields: LabelFields; tag: string | null }
): Promise<Label> {
  return labelOf(await call(`PUT ${labelPaths[kind]}/:id`, { id, body, headers: ifMatch(tag) }))
}

/** The fields of a project that can be set. */
export type ProjectFields = NonNullable<Given<'PUT /api/projects/:id'>['body']>

/** Maximum number of projects per request. */
const maxBulk = 200

/** Applies an action to any number of projects. */
export async function changeProjects(
  { call }: Client,
  ids: readonly string[],
  action: BulkAction
): Promise<BulkOutcome> {
  const outcome: BulkOutcome = { done: 0, failed: [] }
  for (let from = 0; from < ids.length; from += maxBulk) {
    const body = { ids: ids.slice(from, from + maxBulk), ...action }
    const { done, failed } = await call('POST /api/projects/bulk', { body })
    outcome.done += done
    outcome.failed.push(...failed)
  }
  return outcome
}

/** A lock, or a maintenance, which does not refuse deployments. */
export type Restriction = Answered<'GET /api/locks'>[number]

/** Removes a lock. `takeOver` is the reason to remove the lock of another owner. */
export async function unlock(
  { call }: Client,
  { projectId: id }: Pick<ListedLock, 'projectId'>,
  takeOver: string | null
): Promise<void> {
  const body = takeOver === null ? {} : { takeOver }
  await (id === null ? call('DELETE /api/lock', { body }) : call('DELETE /api/projects/:id/lock', { id, body }))
}

/** Returns the settings and the tag of their state. Without a proof, the answer would have no secrets. */
export async function readSettings(
  { ensureProven, send }: Client,
  signal?: AbortSignal
): Promise<{ values: Record<string, string>; tag: string | null }> {
  await ensureProven()
  const response = await send('GET', placeOf('GET /api/settings', {}), { signal })
  const tag = response.headers.get('etag')?.replace(/^W\//, '').replaceAll('"', '') ?? null
  return { values: await response.json(), tag }
}

/** The longest lifetime of a token in days if the settings are not known. */
export const usualMaxDays = 365
/** The fields of a named token. Without `expiresAt`: the server's default for a new token, unchanged for a known one. */
export type TokenFields = NonNullable<Given<'POST /api/tokens'>['body']>

/* Names of what routes take and answer. */

/** A request to remove files. `dryRun` only reports what would be removed. */
export type CleanRequest = NonNullable<Given<'POST /api/storage/clean'>['body']>
/** The removed files, or those that would be removed. */
export type CleanResult = Answered<'POST /api/storage/clean'>
/** The result of a test message. */
export type WebhookTest = Answered<'POST /api/settings/webhook-test'>
/** A second factor that was begun: its secret, which is shown once, also as an `otpauth:` address. */
export type BegunFactor = Omit<Answered<'POST /api/auth/second-factor'>, 'success'>
/** The fields of a notification target to write. Missing fields keep their value. */
export type TargetFields = NonNullable<Given<'PUT /api/notification-targets/:id'>['body']>
/** All notification targets, and what the form for a new one needs. */
export type TargetList = Answered<'GET /api/notification-targets'>
/** The results of a search of one type. */
export type FoundGroup = Answered<'GET /api/search'>['groups'][number]
/** A change of some variables of a project. The others stay. `dotenv` is the text of a .env file. */
export type VariablesChange = NonNullable<Given<'PATCH /api/projects/:id/variables'>['body']>
export type NewLogSource = Pick<LogSource, 'filePath'> & Partial<Pick<LogSource, 'label' | 'kind'>>
/** An enrollment with its token, which is shown once, and what to run on the machine. */
export type IssuedToken = Omit<Answered<'POST /api/enrollments'>, 'success'>
/** A page of rollouts. `before` is the id of the last rollout of the previous page. */
export type RolloutQuery = NonNullable<Given<'GET /api/rollouts'>['query']>

/*
 * Event streams over fetch, because EventSource cannot send headers. A stream that is silent for longer than the
 * keep-alives of the server allow is considered dead and is opened again.
 */

/** The server sends a comment every 15 s (§6.3). After three missed ones the connection is considered lost. */
const silenceMs = 45_000

export interface FollowOptions {
  /** Opens the stream after an event id. Rejects with a final error (refused) or a temporary one (network). */
  open: (lastEventId: string, signal: AbortSignal) => Promise<Response>
  /** Handles an event. Returning `last` ends the stream. */
  onEvent: (event: ServerEvent) => 'more' | 'last'
  /** Called when the connection is opened or lost. */
  onConnection?: (state: 'open' | 'lost') => void
  /** Whether an error of `open` is final. */
  isFinal: (error: unknown) => boolean
  signal: AbortSignal
}

/** Follows a stream over several connections until its last event. No event is lost or repeated. */
export async function followEvents({ open, onEvent, onConnection, isFinal, signal }: FollowOptions): Promise<void> {
  let lastId = ''
  let attempt = 0
  while (!signal.aborted) {
    const connection = new AbortController()
    const cut = (): void => connection.abort()
    signal.addEventListener('abort', cut)
    let timer = setTimeout(cut, silenceMs)
    try {
      const response = await open(lastId, connection.signal)
      onConnection?.('open')
      let isOver = false
      const reader = createEventReader({
        onEvent(event) {
          lastId = event.id
          attempt = 0
          if (!isOver) isOver = onEvent(event) === 'last'
        }
      })
      await eachText(response, text => {
        clearTimeout(timer)
        timer = setTimeout(cut, silenceMs)
        reader.push(text)
        return isOver ? 'last' : 'more'
      })
      if (isOver) return
    } catch (error) {
      if (signal.aborted) return
      if (isFinal(error)) throw error
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', cut)
    }
    if (signal.aborted) return
    onConnection?.('lost')
    await wait(pauseMs(attempt++, Math.random), signal)
  }
}

/** Reads one stream to its end. */
export async function readEvents(
  response: Response,
  onEvent: (event: ServerEvent) => void,
  onComment?: (text: string) => void
): Promise<void> {
  const reader = createEventReader({ onEvent, onComment })
  await eachText(response, text => {
    reader.push(text)
    return 'more'
  })
}

/** Maximum time for handling available events before the page can draw. */
const burstMs = 12

/** Passes the text of the body on as it arrives, decoded as UTF-8. */
async function eachText(response: Response, onText: (text: string) => 'more' | 'last'): Promise<void> {
  const reader = response.body?.getReader()
  if (reader === undefined) return
  const decoder = new TextDecoder()
  for (let sinceMs = performance.now(); ; ) {
    const { done, value } = await reader.read()
    if (done) return
    if (onText(decoder.decode(value, { stream: true })) === 'last') return reader.cancel()
    if (performance.now() - sinceMs < burstMs) continue
    await nextTask()
    sinceMs = performance.now()
  }
}

/** Waits for a new task, so that the page can draw. A resolved promise would continue before that. */
function nextTask(): Promise<void> {
  return new Promise(resolve => {
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = () => {
      port1.close()
      resolve()
    }
    port2.postMessage(null)
  })
}

/** Resolves after a time, or when the signal aborts. */
export function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const finish = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', finish)
      resolve()
    }
    const timer = setTimeout(finish, ms)
    signal.addEventListener('abort', finish)
  })
}

/** An event stream to open. An empty `lastEventId` begins it. */
interface EventsFrom {
  id: string
  lastEventId: string
  signal: AbortSignal
}

function openEvents({ send }: Client, path: string, { lastEventId, signal }: Omit<EventsFrom, 'id'>) {
  const accept = { accept: 'text/event-stream' }
  return send('GET', path, {
    headers: lastEventId === '' ? accept : { ...accept, 'last-event-id': lastEventId },
    signal
  })
}

/** Returns the event stream of the output of a deployment after an offset (§6.1). */
export function openOutput(client: Client, { id: deployId, ...from }: EventsFrom): Promise<Response> {
  return openEvents(client, placeOf('GET /api/logs/:deployId/stream', { deployId, query: { timestamps: '1' } }), from)
}

/** Returns the event stream of the new lines of a log file, or of those after an event. */
export function openLogStream(client: Client, { id: sourceId, ...from }: EventsFrom): Promise<Response> {
  const path = placeOf('GET /api/log-sources/:sourceId/stream', { sourceId, query: { tailLines: 0 } })
  return openEvents(client, path, from)
}

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

/** Searches a log file, newest hits first. */
export function openLogSearch(
  client: Client,
  wish: LogSearchQuery & { sourceId: string },
  signal: AbortSignal
): Promise<Response> {
  const { sourceId, q, isRegex, ignoresCase, maxHits, context, level, sinceMs, untilMs, toOffset } = wish
  const query = {
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
  } as const
  const path = placeOf('GET /api/log-sources/:sourceId/search', { sourceId, query })
  return openEvents(client, path, { lastEventId: '', signal })
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

export function readLogRange(
  { call }: Client,
  { sourceId, atMs, ...window }: RangeQuery & { sourceId: string },
  signal?: AbortSignal
) {
  const query = { ...window, ...timeOf('time', atMs) }
  return call('GET /api/log-sources/:sourceId/range', { sourceId, query, signal })
}

/** Returns a time and the user's zone, in which times without a zone are read. */
function timeOf(name: 'time' | 'since' | 'until', atMs: number | null | undefined): { zone?: number } {
  if (typeof atMs !== 'number') return {}
  const at = new Date(atMs)
  return { [name]: at.toISOString(), zone: -at.getTimezoneOffset() }
}

/** Compares every file of a target with what svc put there. Calls `onEvent` with each line of the answer. */
export async function verifyTarget(
  client: Client,
  id: string,
  { onEvent, signal }: { onEvent(event: VerifyEvent): void; signal: AbortSignal }
): Promise<void> {
  const response = await client.send('GET', placeOf('GET /api/projects/:id/verify', { id }), { signal })
  const lines = createNdjsonReader(value => onEvent(value as VerifyEvent))
  await eachText(response, text => {
    lines.push(text)
    return 'more'
  })
  lines.end()
}

/**
 * Returns the pause before the n-th attempt. It doubles up to a maximum and is randomized, so panels do not retry in
 * step.
 */
export function pauseMs(attempt: number, random: () => number): number {
  const firstMs = 500
  const longestMs = 15_000
  return Math.min(longestMs, firstMs * 2 ** attempt) * (0.75 + random() / 2)
}
