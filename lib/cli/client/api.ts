import { buffer } from 'node:stream/consumers'
import type { Given } from '../../api/map/call.js'
import { Refusal } from '../../base/errors.js'
import { type BulkAction, type BulkOutcome, maxBulk } from '../../model/bulk.js'
import type { Deployment, ListedDeployment } from '../../model/deployment.js'
import type { ListedLock } from '../../model/lock.js'
import type { Project, ShownProject } from '../../model/project.js'
import type { ComponentQuery, ComponentSearch } from '../../model/sbom.js'
import type { RollbackPlan, VerifyEvent } from '../../model/plan.js'
import type { Marks } from '../../model/waiting.js'
import type { ListedRollout } from '../../model/rollout.js'
import type { OpenUpload, TokenHolder, UploadPermit } from '../../model/access.js'
import type { GivenVariable } from '../../model/variable.js'
import { treeMediaType } from '../../core/archive/tree-wire.js'
import { isUnknownRoute } from './answer.js'
import { createCall, requestOf } from './call.js'
import type { Client } from './client.js'
import { createFleetApi } from './fleet-api.js'
import { followRun, type Run, runOf } from './runs.js'
import { type FollowOptions, isBroken, readNdjson } from './streams.js'
import type { Attached } from '../../model/statement.js'
import { formBody, partBody } from './files.js'

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
interface UploadRequest {
  projectId: string
  /** The archive, or the id of the upload that brought it in pieces. */
  archive: { path: string; bytes: number } | { uploadId: string }
  /** Form fields in addition to `file` and `projectId` (§4.6). Undefined fields are not sent. */
  fields: Record<string, string | undefined>
  /** The differences of the trees, if the archive contains only changes (core/archive/tree-delta.ts). */
  tree?: Uint8Array | undefined
  /** Statement, signatures, and the list of components. */
  attached?: Attached | undefined
  /** The id by which the deployment is found again. */
  traceId?: string | undefined
  onProgress(sentBytes: number): void
  signal: AbortSignal
}

/** A part of a file that is uploaded in pieces. */
interface PieceRequest {
  id: string
  path: string
  offset: number
  bytes: number
  onProgress(sentBytes: number): void
  signal: AbortSignal
}

/** A change of the script variables of a project. */
interface VariablesChange {
  variables?: GivenVariable[]
  unset?: string[]
  dotenv?: string
  /** Whether to store all variables of `dotenv` as secrets. */
  secret?: boolean
}

/** Fields of a project to set. In `policy`, null restores the default of a key. */
type ProjectChange = Partial<Omit<Project, 'policy'>> & { policy?: Record<string, unknown> }
/** A change of the maintenance of a project. */
type MaintenanceChange = NonNullable<Given<'PUT /api/projects/:id/maintenance'>['body']>
/** A named token to create. */
type TokenGiven = NonNullable<Given<'POST /api/tokens'>['body']>
/** A lock to place. */
type LockFields = NonNullable<Given<'PUT /api/lock'>['body']>

interface RepairWish {
  paths: readonly string[]
  runScripts: boolean
  message: string | undefined
  signal: AbortSignal
}

/** The filter for a list of deployments. */
interface DeploymentQuery {
  projectId?: string | undefined
  status?: Deployment['status']
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
export type Api = ReturnType<typeof createApi>

/** How to undo. */
interface UndoOptions {
  /** Whether files that were edited since are taken back, too. */
  force?: boolean | undefined
  signal?: AbortSignal | undefined
}

/** How to roll back. */
interface RollbackOptions extends UndoOptions {
  /** Undefined: as the policy of the project says. */
  mode?: RollbackPlan['mode'] | undefined
}

/** What an older server says, and what no projects have. */
export const noMarks: Marks = { waiting: [], locks: [], failedInBackground: [], placed: [] }

/** How to promote. */
type PromoteOptions = Omit<NonNullable<Given<'POST /api/projects/:id/promote'>['body']>, 'dryRun'> & {
  signal: AbortSignal
}

/** The upload follows after packing. A kept connection may have been closed silently by then. */
const ownConnection = { connection: 'close' }

/** Builds the API on a client. */
export function createApi(client: Client) {
  const call = createCall(client)
  return {
    /** Address of the server, or the path of its socket. */
    address: client.address,
    /** The client that sends the requests. */
    client,
    /** Returns the role of the token, or null if the server is too old to say. */
    whoami: ({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<TokenHolder | null> =>
      ifKnown(call('GET /api/auth/whoami', { signal }), ({ role }) => typeof role === 'string'),
    /** Checks an upload in advance, with the refusals of the upload itself. Returns null if the server is too old. */
    checkUpload: (given: {
      projectId: string
      scripts: readonly string[]
      /** Why it would begin outside of the windows of the project. */
      override?: string | undefined
      /** When it would begin. */
      startAt?: string | undefined
      /** The tree of a release that this client knows. */
      base?: string | undefined
      signal?: AbortSignal
    }): Promise<UploadPermit | null> => {
      const { projectId, override, startAt, base } = given
      const query = { projectId, scripts: given.scripts.join(',') || undefined, override, startAt, base }
      const asked = call('GET /api/deploy/check', { query, headers: ownConnection, signal: given.signal })
      return ifKnown(asked, ({ maxUploadBytes }) => typeof maxUploadBytes === 'number')
    },
    /** Returns the tree of a kept release, compressed (core/archive/tree-wire.ts). */
    async baseTree({ projectId, deployId, signal }: { projectId: string; deployId: string; signal: AbortSignal }) {
      const query = { projectId, deployId }
      return await buffer(await client.open(requestOf('GET /api/deploy/base', { query, accept: '*/*', signal })))
    },
    projects: ({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<ShownProject[]> =>
      call('GET /api/projects', { signal }),
    project: (id: string) => call('GET /api/projects/:id', { id }),
    overview: (id: string) => call('GET /api/projects/:id/overview', { id }),
    createProject: async (body: ProjectChange) =>
      (await call('POST /api/projects', { body: body as never })).project as Project,
    updateProject: async (id: string, body: ProjectChange) =>
      (await call('PUT /api/projects/:id', { id, body: body as never })).project as Project,
    /** Applies an action to any number of projects. */
    async changeProjects(ids: readonly string[], action: BulkAction): Promise<BulkOutcome> {
      const outcome: BulkOutcome = { done: 0, failed: [] }
      for (let from = 0; from < ids.length; from += maxBulk) {
        const body = { ids: ids.slice(from, from + maxBulk), ...action }
        const { done, failed } = await call('POST /api/projects/bulk', { body })
        outcome.done += done
        outcome.failed.push(...failed)
      }
      return outcome
    },
    removeProject: async (id: string): Promise<void> => void (await call('DELETE /api/projects/:id', { id })),
    /** Adds the log files of the PM2 application of a project that are no log sources yet. */
    addPm2Logs: (id: string) => call('POST /api/projects/:id/log-sources/pm2', { id }),
    /** Replaces the deploy token and returns the new one. The old one becomes invalid. */
    replaceToken: async (id: string) => (await call('POST /api/projects/:id/token', { id })).token,
    /** Returns the named tokens and the built-in ones. */
    tokens: () => call('GET /api/tokens'),
    /** Returns which tokens can deploy where. */
    accessReport: () => call('GET /api/access/report'),
    createToken: (body: TokenGiven) => call('POST /api/tokens', { body }),
    /** Replaces the secret of a token. */
    rotateToken: (id: string, body: Given<'POST /api/tokens/:id/rotate'>['body']) =>
      call('POST /api/tokens/:id/rotate', { id, body }),
    revokeToken: async (id: string): Promise<void> => void (await call('DELETE /api/tokens/:id', { id })),
    /** Lists the keys that may sign releases. */
    signingKeys: () => call('GET /api/signing-keys'),
    trustKey: (body: Given<'POST /api/signing-keys'>['body']) => call('POST /api/signing-keys', { body }),
    revokeKey: (id: string, body: Given<'POST /api/signing-keys/:id/revoke'>['body']) =>
      call('POST /api/signing-keys/:id/revoke', { id, body }),
    /** Returns the locks in force; with `projectId`, those that refuse deployments of that project. */
    locks: (projectId?: string) => call('GET /api/locks', { query: { projectId } }) as Promise<ListedLock[]>,
    /** Locks a project, or the whole server if `id` is null. */
    lock: async (id: string | null, body: LockFields) =>
      (await (id === null ? call('PUT /api/lock', { body }) : call('PUT /api/projects/:id/lock', { id, body }))).lock,
    /** Removes a lock and returns it. `takeOver` is the reason to remove the lock of another owner. */
    async unlock(id: string | null, takeOver: string | undefined): Promise<ListedLock> {
      const body = { takeOver }
      const asked =
        id === null ? call('DELETE /api/lock', { body }) : call('DELETE /api/projects/:id/lock', { id, body })
      return (await asked).lock
    },
    /** Returns the locks in force and the projects in maintenance. Older servers return only the locks. */
    locksAndMaintenance: () => call('GET /api/locks', { query: { kind: 'all' } }),
    /** Returns what waits for somebody, locks, and failures in the background. Older servers tell nothing. */
    marks: async (projectId?: string): Promise<Marks> => ({
      ...noMarks,
      ...(await ifKnown(call('GET /api/marks', { query: { projectId } }), ({ waiting }) => Array.isArray(waiting)))
    }),
    /** Finds where a component is in place. An older server does not know it. */
    components: (query: ComponentQuery): Promise<ComponentSearch> => call('GET /api/components', { query }),
    /** Returns the number of components of a release; null: it has no list, or the server is too old to say. */
    componentCount: async (id: string): Promise<number | null> => {
      const asked = call('GET /api/deployments/:id/attestations', { id })
      const found = await ifKnown(asked, ({ attestations }) => Array.isArray(attestations))
      return found?.attestations.find(({ components }) => components !== undefined)?.components ?? null
    },
    /** Returns the projects of each application side by side. */
    families: async () => (await call('GET /api/families')).families,
    maintenance: async (id: string) => (await call('GET /api/projects/:id/maintenance', { id })).maintenance,
    /** Begins or ends the maintenance of a project. Resolves when its file is placed or removed. */
    setMaintenance: async (id: string, body: MaintenanceChange) =>
      (await call('PUT /api/projects/:id/maintenance', { id, body, answerLimitMs })).maintenance,
    /** Returns the script variables of a project, sorted by name. */
    variables: async (id: string) => (await call('GET /api/projects/:id/variables', { id })).variables,
    /** Changes some variables; `dotenv` is the text of a .env file. Returns all variables after the change. */
    changeVariables: async (id: string, body: VariablesChange) =>
      (await call('PATCH /api/projects/:id/variables', { id, body })).variables,
    /** Lists deployments, newest first. `beforeUpload`: the next request is an upload, on a connection of its own. */
    async deployments(given: DeploymentQuery): Promise<Deployment[]> {
      const { signal, beforeUpload = false, ...query } = given
      const headers = beforeUpload ? ownConnection : {}
      const { projectId = null, status = null, limit } = query
      // Other servers of the same interface list the deployments of all projects, whatever is asked for.
      const isAsked = (row: Deployment): boolean =>
        (projectId === null || row.projectId === projectId) && (status === null || row.status === status)
      const rows = (await call('GET /api/logs', { query, headers, signal })) as Deployment[]
      return rows.filter(isAsked).slice(0, limit).map(completeDeployment)
    },
    /** Returns the id of the newest deployment of a project, before an upload; null: there is none. */
    async newestDeployment(projectId: string, { signal }: { signal: AbortSignal }): Promise<string | null> {
      const query = { projectId, output: 'none', limit: 1 } as const
      const rows = await call('GET /api/logs', { query, headers: ownConnection, signal })
      return rows.find(row => row.projectId === projectId)?.id ?? null
    },
    /**
     * Returns the newest deployment of each project, by project id, without output. Older servers return only recent
     * ones.
     */
    async newestDeployments(): Promise<Map<string, ListedDeployment>> {
      const found = new Map<string, ListedDeployment>()
      for (let before: string | undefined; ; ) {
        const query = { newest: '1', output: 'none', limit: listLimit, before } as const
        const page: ListedDeployment[] = (await call('GET /api/logs', { query })).map(completeDeployment)
        const added = page.filter(row => !found.has(row.projectId))
        for (const row of added) if (!found.has(row.projectId)) found.set(row.projectId, row)
        // An older server ignores "newest" and lists every deployment.
        const isOlder = page.length !== new Set(page.map(row => row.projectId)).size || added.length < page.length
        if (page.length < listLimit || isOlder) return found
        before = page.at(-1)?.id
      }
    },
    /** Returns a deployment with its whole output, up to 1 MiB, or with the end of the output. */
    deployment: async (deployId: string, { output = 'whole' }: { output?: 'whole' | 'end' } = {}) =>
      completeDeployment((await call('GET /api/logs/:deployId', { deployId, query: { output } })) as Deployment),
    /** Returns the whole output as bytes. */
    output(deployId: string, { timestamps }: { timestamps: boolean }): Promise<AsyncIterable<Buffer>> {
      const query = { timestamps: timestamps ? ('1' as const) : undefined }
      return client.open(requestOf('GET /api/logs/:deployId/output', { deployId, query, accept: 'text/plain' }))
    },
    /** Replays the output, then follows it until the deployment finishes. Resumes after a lost connection. */
    follow: (id: string, options: FollowOptions = {}) => followRun(client, id, options),
    async upload(asked: UploadRequest): Promise<Run> {
      const { projectId, archive, fields, tree, attached = {}, traceId, onProgress, signal } = asked
      const { statement, signatures: signature, sbom } = attached
      const uploadId = 'uploadId' in archive ? archive.uploadId : undefined
      const form = Object.fromEntries(
        Object.entries({ projectId, ...fields, uploadId, statement, signature }).filter(
          (entry): entry is [string, string | string[]] => entry[1] !== undefined
        )
      )
      const small = [
        ...(tree === undefined ? [] : [{ field: 'tree', type: treeMediaType, contents: tree }]),
        ...(sbom === undefined ? [] : [{ field: 'sbom', type: 'application/json', contents: sbom }])
      ]
      const file = 'uploadId' in archive ? null : { field: 'file', filename: 'archive.zip', ...archive }
      const body = formBody({ fields: form, small }, file, onProgress)
      const headers = traceId === undefined ? undefined : { 'x-svc-trace-id': traceId }
      const given = requestOf('POST /api/deploy/upload', { accept: ndjson, ...(headers && { headers }), signal })
      return runOf(client, await client.open({ ...given, body }))
    },
    /** Begins an upload in pieces, or returns the one with this content that this token has begun. */
    beginUpload: (body: { projectId: string; bytes: number; sha256: string }, { signal }: { signal: AbortSignal }) =>
      call('POST /api/uploads', { body, signal }),
    findUpload: (id: string, { signal }: { signal: AbortSignal }) => call('GET /api/uploads/:id', { id, signal }),
    dropUpload: (id: string) => call('DELETE /api/uploads/:id', { id }),
    /** Sends a part of the file. */
    appendPiece({ id, signal, onProgress, ...part }: PieceRequest): Promise<OpenUpload> {
      const headers = { 'upload-offset': String(part.offset) }
      const asked = requestOf('PATCH /api/uploads/:id', { id, headers, signal })
      return client.json({ ...asked, body: partBody(part, onProgress) })
    },
    /** Lists the files of a target that were edited since svc put them there. */
    drift(id: string, { full, signal }: { full: boolean; signal: AbortSignal }) {
      const query = { full: full ? ('1' as const) : undefined }
      return call('GET /api/projects/:id/drift', { id, query, answerLimitMs: compareLimitMs, signal })
    },
    rollback: (id: string, options: RunOptions): Promise<Run> =>
      startRun(client, 'POST /api/deployments/:id/rollback', { id, ...options }),
    /** Undoes the last deployment of a project. */
    undo: (id: string, options: RunOptions): Promise<Run> =>
      startRun(client, 'POST /api/projects/:id/undo', { id, ...options }),
    /** Says what a rollback would do. An older server does not know the field, and begins: check that first. */
    planRollback: (id: string, { signal, ...asked }: RollbackOptions): Promise<RollbackPlan> => {
      const given = { id, body: { ...asked, dryRun: true }, answerLimitMs: compareLimitMs, signal }
      return call('POST /api/deployments/:id/rollback', given) as Promise<RollbackPlan>
    },
    /** Deploys the release of another project. */
    promote: (id: string, options: PromoteOptions): Promise<Run> =>
      startRun(client, 'POST /api/projects/:id/promote', { id, ...options }).catch(tooOldToPromote),
    /** Says what a promotion would do. */
    planPromotion: (id: string, { signal, ...asked }: PromoteOptions): Promise<RollbackPlan> => {
      const given = { id, body: { ...asked, dryRun: true }, answerLimitMs: compareLimitMs, signal }
      return (call('POST /api/projects/:id/promote', given) as Promise<RollbackPlan>).catch(tooOldToPromote)
    },
    /** Says what a deployment would do that waits before it begins. */
    planWaiting: (id: string, signal: AbortSignal): Promise<RollbackPlan> =>
      call('GET /api/deployments/:id/plan', { id, answerLimitMs: compareLimitMs, signal }),
    /** Approves the files of a deployment that waits for it. */
    approve: (id: string, body: Given<'POST /api/deployments/:id/approve'>['body']) =>
      call('POST /api/deployments/:id/approve', { id, body }),
    reject: (id: string, comment: string | undefined) =>
      call('POST /api/deployments/:id/reject', { id, body: { comment: comment ?? null } }),
    /** Says what an undo would do. */
    planUndo: (id: string, { signal, ...asked }: UndoOptions): Promise<RollbackPlan> => {
      const given = { id, body: { ...asked, dryRun: true }, answerLimitMs: compareLimitMs, signal }
      return call('POST /api/projects/:id/undo', given) as Promise<RollbackPlan>
    },
    /** Returns the contents of a file that was edited on the server. */
    driftFile: (id: string, path: string, signal: AbortSignal): Promise<AsyncIterable<Buffer>> =>
      client.open(
        requestOf('GET /api/projects/:id/drift/file', {
          id,
          query: { path },
          accept: 'application/octet-stream',
          signal
        })
      ),
    /** Compares every file of a target with what svc put there. */
    async *verify(id: string, { sums, signal }: { sums: boolean; signal: AbortSignal }): AsyncGenerator<VerifyEvent> {
      const query = { sums: sums ? ('1' as const) : undefined }
      const given = { id, query, accept: ndjson, answerLimitMs: compareLimitMs, signal } as const
      const answer = await client.open(requestOf('GET /api/projects/:id/verify', given))
      for await (const event of readNdjson(answer)) yield event as VerifyEvent
    },
    /** Puts back the files that differ from what svc put there; no paths: all of them. */
    async repair(id: string, { paths, runScripts, message, signal }: RepairWish): Promise<Run> {
      const body = { message, ...(paths.length > 0 && { paths }), ...(runScripts && { runScripts }) }
      // The server reads the files before it answers.
      const given = { id, body, accept: ndjson, answerLimitMs: repairLimitMs, signal } as const
      return runOf(client, await client.open(requestOf('POST /api/projects/:id/repair', given)))
    },
    cancel: (id: string) => call('POST /api/deployments/:id/cancel', { id }) as Promise<unknown>,
    /** Gives up what a deployment has left half changed in a target that is gone for good. */
    giveUp: (deployId: string) => call('DELETE /api/unfinished-targets/:deployId', { deployId }),
    /** Deletes the archive of a deployment; `force`: also one that an exact undo needs. */
    deleteArchive: (id: string, force: boolean): Promise<{ freedBytes: number }> =>
      call('DELETE /api/deployments/:id/archive', { id, query: { force: force ? 'true' : undefined } }),
    /** Confirms a deployment that waits for it. */
    confirm: (id: string) => call('POST /api/deployments/:id/confirm', { id }) as Promise<unknown>,
    /** Puts the files before a held deployment back. */
    revert: (id: string) =>
      call('POST /api/deployments/:id/revert', { id }) as Promise<{ success: boolean; deployment: Deployment }>,
    /** Returns the rollout of a deployment. Null: there is none, the server is too old, or it cannot be read. */
    async rolloutOf(deployId: string): Promise<ListedRollout | null> {
      const asked = createFleetApi(client).rollouts({ deployId, limit: 1 })
      return (await asked.catch(() => []))[0] ?? null
    }
  }
}

type RunOptions = RollbackOptions & { message: string | undefined }

async function startRun(
  client: Client,
  route: 'POST /api/deployments/:id/rollback' | 'POST /api/projects/:id/undo' | 'POST /api/projects/:id/promote',
  { id, signal, ...body }: (RunOptions | PromoteOptions) & { id: string }
): Promise<Run> {
  const given = { id, body: body as never, accept: ndjson, orJson: true, signal } as const
  return runOf(client, await client.open(requestOf(route, given)))
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

/** Throws the error of a promotion. A server without the route answers for the route, not for a record. */
function tooOldToPromote(error: unknown): never {
  const isOfRecord = error instanceof Refusal && /^\w[\w ]* not found: "/.test(error.message)
  if (!isUnknownRoute(error) || isOfRecord) throw error
  const sentence = 'The server is too old for promotions. Update it'
  throw new Refusal('invalid', 'server_too_old', sentence, { cause: error })
}

/** Returns whether a request without an answer may have reached the server and taken effect. */
export function mayHaveArrived(error: unknown): boolean {
  if (!(error instanceof Refusal) || error.code !== 'unreachable') return isBroken(error)
  return ['ECONNRESET', 'EPIPE', 'ETIMEDOUT'].includes(String((error.cause as NodeJS.ErrnoException | undefined)?.code))
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
