/* What commands ask about deployments in more than one step, and what servers answer that are older or not svc. */
import type { UploadPermit } from '../../model/access.js'
import type { Deployment, ListedDeployment } from '../../model/deployment.js'
import type { ListedRollout } from '../../model/rollout.js'
import type { Marks } from '../../model/marks.js'
import { ifKnown } from './answer.js'
import type { Client } from './client.js'
import type { Given } from '../../api/map/routes.js'

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
