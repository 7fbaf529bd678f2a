import type { Answered, Given, Route } from '../../lib/api/map/call.js'
import type { BulkAction, BulkOutcome } from '../../lib/model/bulk.js'
import type { DeploymentStatus, ListedDeployment, OutputLine } from '../../lib/model/deployment.js'
import type { ListedLock } from '../../lib/model/lock.js'
import type { LogSource } from '../../lib/model/log-source.js'
import type { PlanAnswer } from '../../lib/model/plan.js'
import type { Label, LabelColor, LabelKind } from '../../lib/model/project.js'
import { ifMatch, placeOf, type SendOptions } from './calls.js'
import type { Client } from './client.js'

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

/** One page of deployments. */
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
}

/** Returns what a deployment of a tree would do. */
export function requestPlan(
  { ask }: Client,
  projectId: string,
  { body, isGzip, wishes, signal }: PlanBody & { wishes: PlanWishes; signal: AbortSignal }
): Promise<PlanAnswer> {
  const prune = wishes.pruneForeign ? 'foreign' : wishes.pruneAll ? 'force' : undefined
  const query = { projectId, force: wishes.force ? ('1' as const) : undefined, prune } as const
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

/** Creates a label, and returns it. */
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
/** The fields of a new log source. */
export type NewLogSource = Pick<LogSource, 'filePath'> & Partial<Pick<LogSource, 'label' | 'kind'>>
/** An enrollment with its token, which is shown once, and what to run on the machine. */
export type IssuedToken = Omit<Answered<'POST /api/enrollments'>, 'success'>
/** A page of rollouts. `before` is the id of the last rollout of the previous page. */
export type RolloutQuery = NonNullable<Given<'GET /api/rollouts'>['query']>
