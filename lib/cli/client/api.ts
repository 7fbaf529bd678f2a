import { Refusal } from '../../base/refusal.js'
import type { UnfinishedTarget } from '../../model/health.js'
import type { AccessToken, NewToken, TokenList } from '../../model/access.js'
import type { AccessReport } from '../../model/access-report.js'
import { maxBulk, type BulkAction, type BulkOutcome } from '../../model/bulk.js'
import type { Deployment, ListedDeployment } from '../../model/deployment.js'
import type { ListedLock } from '../../model/lock.js'
import type { LogSource } from '../../model/log-source.js'
import type { ListedMaintenance, Maintenance } from '../../model/maintenance.js'
import type { DriftReport } from '../../model/plan.js'
import type { Project, ShownProject } from '../../model/project.js'
import type { RollbackPlan } from '../../model/rollback-plan.js'
import type { ListedRollout } from '../../model/rollout.js'
import type { TokenHolder } from '../../model/token-holder.js'
import type { UploadPermit } from '../../model/upload-permit.js'
import type { VerifyEvent } from '../../model/verify.js'
import type { GivenVariable, Variable } from '../../model/variable.js'
import { isUnknownRoute } from './answer.js'
import type { Client } from './client.js'
import { createFleetApi } from './fleet-api.js'
import { completeDeployment } from './records.js'
import { followRun, runOf, type Run, type RunEvent } from './runs.js'
import { isBroken, readNdjson, type FollowOptions } from './streams.js'
import { formBody } from './upload.js'

/** Maximum number of deployments that the server lists at once. */
const listLimit = 500
const ndjson = 'application/x-ndjson'
/** A comparison with a target takes up to a minute. */
const compareLimitMs = 5 * 60_000
/** Placing a file waits for deployments, and for the disk. */
const answerLimitMs = 5 * 60_000
/** The search for files to repair reads all of them. */
const repairLimitMs = 60 * 60_000

/** The archive and the fields of a new deployment. */
export interface UploadRequest {
  projectId: string
  archive: { path: string; bytes: number }
  /** Form fields in addition to `file` and `projectId` (§4.6). Undefined fields are not sent. */
  fields: Record<string, string | undefined>
  onProgress(sentBytes: number): void
  signal: AbortSignal
}

/** A change of the script variables of a project. */
export interface VariablesChange {
  variables?: GivenVariable[]
  unset?: string[]
  dotenv?: string
  /** Whether to store all variables of `dotenv` as secrets. */
  secret?: boolean
}

/** Fields of a project to set. In `policy`, null restores the default of a key. */
export type ProjectChange = Partial<Omit<Project, 'policy'>> & { policy?: Record<string, unknown> }

/** A change of the maintenance of a project. */
export interface MaintenanceChange {
  on: boolean
  reason?: string | undefined
  /** Replaces a file of somebody else, or removes the file although somebody changed it. */
  force?: boolean
}

interface MaintenanceAnswer {
  maintenance: Maintenance | null
}

/** A named token to create. */
export interface TokenGiven extends Pick<AccessToken, 'name' | 'role' | 'projectIds' | 'allowedIps' | 'showScripts'> {
  expiresAt?: string
}

/** A lock to place. */
export interface LockFields {
  reason: string
  seconds?: number
  /** Replaces the reason and the end of the caller's own lock. */
  renew?: boolean
}

/** What to repair. */
export interface RepairWish {
  paths: readonly string[]
  runScripts: boolean
  message: string | undefined
  signal: AbortSignal
}

/** The filter for a list of deployments. */
export interface DeploymentQuery {
  projectId?: string | undefined
  status?: string
  output?: 'none'
  signal?: AbortSignal
  branch?: string | undefined
  /** First digits of a commit id. */
  commit?: string | undefined
  limit?: number
  /** The next request is an upload, which uses a connection of its own. */
  beforeUpload?: boolean
}

/** The API of a server as functions (§4). */
export interface Api {
  /** Address of the server. */
  readonly address: string
  /** The client that sends the requests. */
  readonly client: Client
  /** Returns the role of the token, or null if the server is too old to say. */
  whoami(options?: { signal?: AbortSignal }): Promise<TokenHolder | null>
  /** Checks an upload in advance, with the refusals of the upload itself. Returns null if the server is too old. */
  checkUpload(query: {
    projectId: string
    scripts: readonly string[]
    signal?: AbortSignal
  }): Promise<UploadPermit | null>
  projects(options?: { signal?: AbortSignal }): Promise<ShownProject[]>
  project(id: string): Promise<ShownProject>
  createProject(fields: ProjectChange): Promise<Project>
  updateProject(id: string, fields: ProjectChange): Promise<Project>
  /** Applies an action to any number of projects. */
  changeProjects(ids: readonly string[], action: BulkAction): Promise<BulkOutcome>
  removeProject(id: string): Promise<void>
  /** Adds the log files of the PM2 application of a project that are no log sources yet. */
  addPm2Logs(id: string): Promise<{ items: LogSource[] }>
  /** Returns the named tokens and the built-in ones. */
  tokens(): Promise<TokenList>
  /** Returns which tokens can deploy where. */
  accessReport(): Promise<AccessReport>
  createToken(fields: TokenGiven): Promise<NewToken>
  /** Replaces the secret of a token. */
  rotateToken(id: string, given: { overlapSeconds: number; expiresAt: string | undefined }): Promise<NewToken>
  revokeToken(id: string): Promise<void>
  /** Replaces the deploy token and returns the new one. The old one becomes invalid. */
  replaceToken(id: string): Promise<string>
  /** Returns the script variables of a project, sorted by name. */
  /** Returns the locks in force; with `projectId`, those that refuse deployments of that project. */
  locks(projectId?: string): Promise<ListedLock[]>
  /** Locks a project, or the whole server if `projectId` is null. */
  lock(projectId: string | null, fields: LockFields): Promise<ListedLock>
  /** Removes a lock and returns it. `takeOver` is the reason to remove the lock of another owner. */
  unlock(projectId: string | null, takeOver: string | undefined): Promise<ListedLock>
  /** Returns the locks in force and the projects in maintenance. Older servers return only the locks. */
  locksAndMaintenance(): Promise<Array<ListedLock | ListedMaintenance>>
  maintenance(projectId: string): Promise<Maintenance | null>
  /** Begins or ends the maintenance of a project. Resolves when its file is placed or removed. */
  setMaintenance(projectId: string, change: MaintenanceChange): Promise<Maintenance | null>
  variables(projectId: string): Promise<Variable[]>
  /** Changes some variables; `dotenv` is the text of a .env file. Returns all variables after the change. */
  changeVariables(projectId: string, change: VariablesChange): Promise<Variable[]>
  /** Lists deployments, newest first. */
  deployments(query: DeploymentQuery): Promise<Deployment[]>
  /** Returns the id of the newest deployment of a project, before an upload; null: there is none. */
  newestDeployment(projectId: string, options: { signal: AbortSignal }): Promise<string | null>
  /**
   * Returns the newest deployment of each project, by project id, without output. Older servers return only recent
   * ones.
   */
  newestDeployments(): Promise<Map<string, ListedDeployment>>
  /** Returns a deployment with its whole output, up to 1 MiB, or with the end of the output. */
  deployment(id: string, options?: { output?: 'whole' | 'end' }): Promise<Deployment>
  /** Returns the whole output as bytes. */
  output(id: string, options: { timestamps: boolean }): Promise<AsyncIterable<Buffer>>
  /** Replays the output, then follows it until the deployment finishes. Resumes after a lost connection. */
  follow(id: string, options?: FollowOptions): AsyncIterable<RunEvent>
  upload(request: UploadRequest): Promise<Run>
  /** Lists the files of a target that were edited since svc put them there. */
  drift(projectId: string, options: { full: boolean; signal: AbortSignal }): Promise<DriftReport>
  rollback(id: string, options: RollbackOptions & { message: string | undefined }): Promise<Run>
  /** Undoes the last deployment of a project. */
  undo(projectId: string, options: UndoOptions & { message: string | undefined }): Promise<Run>
  /** Says what a rollback would do. */
  planRollback(id: string, options: RollbackOptions): Promise<RollbackPlan>
  /** Says what an undo would do. */
  planUndo(projectId: string, options: UndoOptions): Promise<RollbackPlan>
  /** Returns the contents of a file that was edited on the server. */
  driftFile(projectId: string, path: string, signal: AbortSignal): Promise<AsyncIterable<Buffer>>
  /** Compares every file of a target with what svc put there. */
  verify(projectId: string, options: { sums: boolean; signal: AbortSignal }): AsyncIterable<VerifyEvent>
  /** Puts back the files that differ from what svc put there; no paths: all of them. */
  repair(projectId: string, wish: RepairWish): Promise<Run>
  cancel(id: string): Promise<unknown>
  /** Gives up what a deployment has left half changed in a target that is gone for good. */
  giveUp(deployId: string): Promise<{ given: UnfinishedTarget }>
  /** Deletes the archive of a deployment; `force`: also one that an exact undo needs. */
  deleteArchive(id: string, force: boolean): Promise<{ freedBytes: number }>
  /** Confirms a deployment that waits for it. */
  confirm(id: string): Promise<unknown>
  /** Puts the files before a held deployment back. */
  revert(id: string): Promise<{ success: boolean; deployment: Deployment }>
  /** Returns the rollout of a deployment. Null: there is none, the server is too old, or it cannot be read. */
  rolloutOf(deployId: string): Promise<ListedRollout | null>
}

/** How to undo. */
export interface UndoOptions {
  /** Whether files that were edited since are taken back, too. */
  force?: boolean | undefined
  signal?: AbortSignal | undefined
}

/** How to roll back. */
export interface RollbackOptions extends UndoOptions {
  /** Undefined: as the policy of the project says. */
  mode?: RollbackPlan['mode'] | undefined
}

/** The upload follows after packing. A kept connection may have been closed silently by then. */
const ownConnection = { connection: 'close' }

/** Builds the API on a client. */
export function createApi(client: Client): Api {
  const deploymentPath = (id: string) => `/api/deployments/${encodeURIComponent(id)}`
  const projectPath = (id: string) => `/api/projects/${encodeURIComponent(id)}`
  const variablesPath = (id: string) => `${projectPath(id)}/variables`
  const lockPath = (id: string | null) => (id === null ? '/api/lock' : `${projectPath(id)}/lock`)
  const maintenancePath = (id: string) => `${projectPath(id)}/maintenance`
  const tokenPath = (id: string) => `/api/tokens/${encodeURIComponent(id)}`
  const logPath = (id: string) => `/api/logs/${encodeURIComponent(id)}`

  return {
    address: client.address,
    client,
    whoami: ({ signal } = {}) =>
      ifKnown(client.json<TokenHolder>({ path: '/api/auth/whoami', signal }), ({ role }) => typeof role === 'string'),
    checkUpload: ({ projectId, scripts, signal }) =>
      ifKnown(
        client.json<UploadPermit>({
          path: '/api/deploy/check',
          query: { projectId, scripts: scripts.join(',') || undefined },
          headers: ownConnection,
          signal
        }),
        ({ maxUploadBytes }) => typeof maxUploadBytes === 'number'
      ),
    projects: ({ signal } = {}) => client.json({ path: '/api/projects', signal }),
    project: id => client.json({ path: projectPath(id) }),
    createProject: async json =>
      (await client.json<{ project: Project }>({ method: 'POST', path: '/api/projects', json })).project,
    updateProject: async (id, json) =>
      (await client.json<{ project: Project }>({ method: 'PUT', path: projectPath(id), json })).project,
    async changeProjects(ids, action) {
      const outcome: BulkOutcome = { done: 0, failed: [] }
      for (let from = 0; from < ids.length; from += maxBulk) {
        const json = { ids: ids.slice(from, from + maxBulk), ...action }
        const { done, failed } = await client.json<BulkOutcome>({ method: 'POST', path: '/api/projects/bulk', json })
        outcome.done += done
        outcome.failed.push(...failed)
      }
      return outcome
    },
    removeProject: async id => void (await client.json({ method: 'DELETE', path: projectPath(id) })),
    addPm2Logs: id => client.json({ method: 'POST', path: `${projectPath(id)}/log-sources/pm2` }),
    replaceToken: async id =>
      (await client.json<{ token: string }>({ method: 'POST', path: `${projectPath(id)}/token` })).token,
    tokens: () => client.json<TokenList>({ path: '/api/tokens' }),
    accessReport: () => client.json<AccessReport>({ path: '/api/access/report' }),
    createToken: json => client.json<NewToken>({ method: 'POST', path: '/api/tokens', json }),
    rotateToken: (id, json) => client.json<NewToken>({ method: 'POST', path: `${tokenPath(id)}/rotate`, json }),
    revokeToken: async id => void (await client.json({ method: 'DELETE', path: tokenPath(id) })),
    locks: projectId => client.json({ path: '/api/locks', query: { projectId } }),
    lock: async (id, json) =>
      (await client.json<{ lock: ListedLock }>({ method: 'PUT', path: lockPath(id), json })).lock,
    unlock: async (id, takeOver) =>
      (await client.json<{ lock: ListedLock }>({ method: 'DELETE', path: lockPath(id), json: { takeOver } })).lock,
    locksAndMaintenance: () => client.json({ path: '/api/locks', query: { kind: 'all' } }),
    maintenance: async id => (await client.json<MaintenanceAnswer>({ path: maintenancePath(id) })).maintenance,
    setMaintenance: async (id, json) =>
      (await client.json<MaintenanceAnswer>({ method: 'PUT', path: maintenancePath(id), json, answerLimitMs }))
        .maintenance,
    variables: async id => (await client.json<{ variables: Variable[] }>({ path: variablesPath(id) })).variables,
    changeVariables: async (id, json) =>
      (await client.json<{ variables: Variable[] }>({ method: 'PATCH', path: variablesPath(id), json })).variables,
    async deployments({ limit, signal, beforeUpload = false, ...query }) {
      const headers = beforeUpload ? ownConnection : {}
      const call = { path: '/api/logs', query: { ...query, limit: limit?.toString() }, headers, signal }
      const { projectId = null, status = null } = query
      // Other servers of the same interface list the deployments of all projects, whatever is asked for.
      const isAsked = (row: Deployment): boolean =>
        (projectId === null || row.projectId === projectId) && (status === null || row.status === status)
      return (await client.json<Deployment[]>(call)).filter(isAsked).slice(0, limit).map(completeDeployment)
    },
    async newestDeployment(projectId, { signal }) {
      const query = { projectId, output: 'none', limit: '1' }
      const rows = await client.json<Deployment[]>({ path: '/api/logs', query, headers: ownConnection, signal })
      return rows.find(row => row.projectId === projectId)?.id ?? null
    },
    async newestDeployments() {
      const found = new Map<string, ListedDeployment>()
      for (let before: string | undefined; ; ) {
        const query = { newest: '1', output: 'none', limit: String(listLimit), before }
        const page = (await client.json<ListedDeployment[]>({ path: '/api/logs', query })).map(completeDeployment)
        const added = page.filter(row => !found.has(row.projectId))
        for (const row of added) if (!found.has(row.projectId)) found.set(row.projectId, row)
        // An older server ignores "newest" and lists every deployment.
        const isOlder = page.length !== new Set(page.map(row => row.projectId)).size || added.length < page.length
        if (page.length < listLimit || isOlder) return found
        before = page.at(-1)?.id
      }
    },
    deployment: async (id, { output = 'whole' } = {}) =>
      completeDeployment(await client.json<Deployment>({ path: logPath(id), query: { output } })),
    output: (id, { timestamps }) =>
      client.open({
        path: `${logPath(id)}/output`,
        query: { timestamps: timestamps ? '1' : undefined },
        accept: 'text/plain'
      }),
    follow: (id, options = {}) => followRun(client, id, options),
    async upload({ projectId, archive, fields, onProgress, signal }) {
      const form = Object.fromEntries(
        Object.entries({ projectId, ...fields }).filter((entry): entry is [string, string] => entry[1] !== undefined)
      )
      const body = formBody(form, { field: 'file', filename: 'archive.zip', ...archive }, onProgress)
      return runOf(
        client,
        await client.open({ method: 'POST', path: '/api/deploy/upload', accept: ndjson, body, signal })
      )
    },
    async drift(projectId, { full, signal }) {
      const query = { full: full ? '1' : undefined }
      const call = { path: `${projectPath(projectId)}/drift`, query, answerLimitMs: compareLimitMs, signal }
      return client.json<DriftReport>(call)
    },
    rollback: (id, options) => startRun(client, `${deploymentPath(id)}/rollback`, options),
    undo: (projectId, options) => startRun(client, `${projectPath(projectId)}/undo`, options),
    planRollback: (id, options) => planRun(client, `${deploymentPath(id)}/rollback`, options),
    planUndo: (projectId, options) => planRun(client, `${projectPath(projectId)}/undo`, options),
    driftFile: (projectId, path, signal) =>
      client.open({
        path: `${projectPath(projectId)}/drift/file`,
        query: { path },
        accept: 'application/octet-stream',
        signal
      }),
    async *verify(projectId, { sums, signal }) {
      const call = { path: `${projectPath(projectId)}/verify`, query: { sums: sums ? '1' : undefined }, signal }
      const answer = await client.open({ ...call, accept: ndjson, answerLimitMs: compareLimitMs })
      for await (const event of readNdjson(answer)) yield event as VerifyEvent
    },
    async repair(projectId, { paths, runScripts, message, signal }) {
      const json = { message, ...(paths.length > 0 && { paths }), ...(runScripts && { runScripts }) }
      const call = { method: 'POST', path: `${projectPath(projectId)}/repair`, json, signal } as const
      // The server reads the files before it answers.
      return runOf(client, await client.open({ ...call, accept: ndjson, answerLimitMs: repairLimitMs }))
    },
    cancel: id => client.json({ method: 'POST', path: `${deploymentPath(id)}/cancel` }),
    giveUp: id => client.json({ method: 'DELETE', path: `/api/unfinished-targets/${encodeURIComponent(id)}` }),
    deleteArchive: (id, force) =>
      client.json({ method: 'DELETE', path: `${deploymentPath(id)}/archive${force ? '?force=true' : ''}` }),
    confirm: id => client.json({ method: 'POST', path: `${deploymentPath(id)}/confirm` }),
    revert: id => client.json({ method: 'POST', path: `${deploymentPath(id)}/revert` }),
    async rolloutOf(deployId) {
      const [rollout] = await createFleetApi(client)
        .rollouts({ deployId, limit: 1 })
        .catch(() => [])
      return rollout ?? null
    }
  }
}

type RunOptions = RollbackOptions & { message?: string | undefined }

async function startRun(client: Client, path: string, { signal, ...json }: RunOptions): Promise<Run> {
  return runOf(client, await client.open({ method: 'POST', path, accept: ndjson, orJson: true, json, signal }))
}

/** Asks what a rollback would do. An older server does not know the field, and begins: check that first. */
async function planRun(client: Client, path: string, { signal, ...asked }: RunOptions): Promise<RollbackPlan> {
  const json = { ...asked, dryRun: true }
  return client.json<RollbackPlan>({ method: 'POST', path, json, answerLimitMs: compareLimitMs, signal })
}

/**
 * Returns the answer of a route that other servers of the same interface lack. They answer 404 or 405, or what svc would
 * not: another shape, or the page of their panel. Then it returns null.
 */
async function ifKnown<T extends object>(asked: Promise<T>, isKnown: (answer: T) => boolean): Promise<T | null> {
  try {
    const answer: T | null = await asked
    return typeof answer === 'object' && answer !== null && isKnown(answer) ? answer : null
  } catch (error) {
    if (isUnknownRoute(error)) return null
    throw error
  }
}

/** Returns whether a request without an answer may have reached the server and taken effect. */
export function mayHaveArrived(error: unknown): boolean {
  if (!(error instanceof Refusal) || error.code !== 'unreachable') return isBroken(error)
  return ['ECONNRESET', 'EPIPE', 'ETIMEDOUT'].includes(String((error.cause as NodeJS.ErrnoException | undefined)?.code))
}
