import type { BulkAction, BulkOutcome } from '../../lib/model/bulk.js'
import type { Answered, Given } from '../../lib/api/map/call.js'
import type { Label, Inclusion } from '../../lib/model/project.js'
import { createCall, placeOf, startDeployment } from './calls.js'
import { type Client, ifMatch, pauseMs } from './client.js'
import type { ListedLock } from '../../lib/model/lock.js'
import type { Deployment } from '../../lib/model/deployment.js'
import type { RollbackPlan, VerifyEvent, PlanAnswer } from '../../lib/model/plan.js'
import { createEventReader, createNdjsonReader, type ServerEvent } from '../shared/api.js'
import type { LogSource } from '../../lib/model/log-source.js'
import type { LogLevel } from '../shared/log-line.js'

/** All categories and tags. */
export interface Labels {
  categories: readonly Label[]
  tags: readonly Label[]
}

/** The fields of a project that can be set. */
export type ProjectFields = NonNullable<Given<'PUT /api/projects/:id'>['body']>
/** A change of some variables of a project. The others stay. `dotenv` is the text of a .env file. */
export type VariablesChange = NonNullable<Given<'PATCH /api/projects/:id/variables'>['body']>
/** The API of the project pages. Each function rejects as `Client.ask` does. */
export type ProjectCalls = ReturnType<typeof createProjectCalls>

/** Maximum number of projects per request. */
const maxBulk = 200

/** Creates the calls. */
export function createProjectCalls(client: Client) {
  const call = createCall(client)
  return {
    async labels(signal?: AbortSignal): Promise<Labels> {
      const all = [call('GET /api/categories', { signal }), call('GET /api/tags', { signal })] as const
      const [categories, tags] = await Promise.all(all)
      return { categories, tags }
    },
    /** Returns the default directory of new projects; empty if it is not set. */
    defaultPath: async (signal?: AbortSignal) =>
      (await call('GET /api/settings', { signal }))['default_deploy_path'] ?? '',
    /** Returns whether the server can give each project a user of its own. */
    switchesUsers: async (signal?: AbortSignal) =>
      (await call('GET /api/settings/status', { signal })).switchesUsers === true,
    create: async (body: ProjectFields) => (await call('POST /api/projects', { body })).project,
    get: (id: string) => call('GET /api/projects/:id', { id }),
    /** Updates a project. The server refuses with `changed_since` if `tag` is not the `updatedAt` of the current state. */
    update: async (id: string, body: ProjectFields, tag: string | null) =>
      (await call('PUT /api/projects/:id', { id, body, headers: ifMatch(tag) })).project,
    pin: async (id: string, pinned: boolean) =>
      (await call('PUT /api/projects/:id/pin', { id, body: { pinned } })).project,
    /** Applies an action to any number of projects. */
    async bulk(ids: readonly string[], action: BulkAction): Promise<BulkOutcome> {
      const outcome: BulkOutcome = { done: 0, failed: [] }
      for (let from = 0; from < ids.length; from += maxBulk) {
        const body = { ids: ids.slice(from, from + maxBulk), ...action }
        const { done, failed } = await call('POST /api/projects/bulk', { body })
        outcome.done += done
        outcome.failed.push(...failed)
      }
      return outcome
    },
    recentScripts: (id: string) => call('GET /api/projects/:id/recent-scripts', { id }),
    /** Returns the variables of its scripts, by name. */
    variables: async (id: string, signal?: AbortSignal) =>
      (await call('GET /api/projects/:id/variables', { id, signal })).variables,
    /** Changes variables and returns all of them. */
    changeVariables: async (id: string, body: VariablesChange) =>
      (await call('PATCH /api/projects/:id/variables', { id, body })).variables,
    pm2: (id: string, signal?: AbortSignal) => call('GET /api/projects/:id/pm2', { id, signal }),
    pm2Apps: (signal?: AbortSignal) => call('GET /api/pm2/apps', { signal }),
    /** Lists a directory. `path` is relative to the target; empty means the target itself. */
    files: (id: string, path: string, signal?: AbortSignal) =>
      call('GET /api/projects/:id/files', { id, query: { path }, signal }),
    file: (id: string, path: string, signal?: AbortSignal) =>
      call('GET /api/projects/:id/file', { id, query: { path }, signal }),
    /** Returns the contents of a file. */
    bytes: async (id: string, path: string, signal?: AbortSignal): Promise<Blob> =>
      (await client.send('GET', downloadOf(id, path), { signal })).blob(),
    /** Returns an address that downloads the file once within 30 seconds. */
    downloadAddress: (id: string, path: string): string => client.address(downloadOf(id, path))
  }
}

const downloadOf = (id: string, path: string): string =>
  placeOf('GET /api/projects/:id/download', { id, query: { path } })

/**
 * Browses the directories of the server. Each function rejects as `Client.ask` does; a private place is a Refused 403.
 */
export type PlaceCalls = ReturnType<typeof createPlaceCalls>

/** Creates the calls. */
export function createPlaceCalls(client: Pick<Client, 'ask'>) {
  const call = createCall(client)
  return {
    home: (signal?: AbortSignal) => call('GET /api/fs/home', { signal }),
    /** Lists a directory by its absolute path. A missing path or a file returns an empty listing that says so. */
    list: (path: string, include: Inclusion, signal?: AbortSignal) =>
      call('GET /api/fs/list', { query: { path, include }, signal })
  }
}

/** A lock, or a maintenance, which does not refuse deployments. */
export type Restriction = Answered<'GET /api/locks'>[number]
/** The API of locks. Each function rejects as `Client.ask` does. */
export type LockCalls = ReturnType<typeof createLockCalls>

/** Creates the calls. */
export function createLockCalls(client: Client) {
  const call = createCall(client)
  return {
    /** Returns locks and maintenances; with `projectId`, those of that project, and the lock of the server. */
    list: (projectId: string | null, signal?: AbortSignal): Promise<readonly Restriction[]> =>
      call('GET /api/locks', { query: { kind: 'all', projectId: projectId ?? undefined }, signal }),
    lock: async (id: string, body: Given<'PUT /api/projects/:id/lock'>['body']) =>
      (await call('PUT /api/projects/:id/lock', { id, body })).lock,
    /** Removes a lock. `takeOver` is the reason to remove the lock of another owner. */
    async unlock({ projectId: id }: Pick<ListedLock, 'projectId'>, takeOver: string | null): Promise<void> {
      const body = takeOver === null ? {} : { takeOver }
      await (id === null ? call('DELETE /api/lock', { body }) : call('DELETE /api/projects/:id/lock', { id, body }))
    },
    /** Begins or ends the maintenance of a project. Waits for its deployments for up to 30 seconds. */
    async maintain(id: string, body: Given<'PUT /api/projects/:id/maintenance'>['body']): Promise<void> {
      await call('PUT /api/projects/:id/maintenance', { id, body })
    }
  }
}

/** How to go back. `mode` undefined: as the policy of the project says. */
export interface RollbackWish {
  mode?: RollbackPlan['mode']
  /** Whether files that were edited since are taken back, too. */
  force?: boolean
}

/** The API of the files that svc put into a target. Each function rejects as `Client.ask` does. */
export type ExactCalls = ReturnType<typeof createExactCalls>

/** Creates the calls. */
export function createExactCalls(client: Client) {
  const call = createCall(client)
  const asked = (wish: RollbackWish) => ({ ...wish, dryRun: true })
  const reasoned = (reason: string, wish: RollbackWish) => ({ ...wish, message: reason || null })
  return {
    /** `drift`: searches for edited files, unless that was done within the last hour. */
    summary: (id: string, { drift, signal }: { drift: boolean; signal: AbortSignal }) =>
      call('GET /api/projects/:id/tree', { id, query: { drift: drift ? '1' : undefined }, signal }),
    /** Lists the files that were edited or removed on the server. */
    drift: (id: string, signal: AbortSignal) => call('GET /api/projects/:id/drift', { id, signal }),
    /** Returns an address that downloads a file that was edited on the server. */
    driftAddress: (id: string, path: string) =>
      client.address(placeOf('GET /api/projects/:id/drift/file', { id, query: { path } })),
    /** Compares every file. Calls `onEvent` with each line of the answer. */
    async verify(id: string, { onEvent, signal }: { onEvent(event: VerifyEvent): void; signal: AbortSignal }) {
      const response = await client.send('GET', placeOf('GET /api/projects/:id/verify', { id }), { signal })
      const lines = createNdjsonReader(value => onEvent(value as VerifyEvent))
      const text = new TextDecoder()
      for await (const chunk of chunksOf(response)) lines.push(text.decode(chunk, { stream: true }))
      lines.end()
    },
    /** Starts a repair of these paths. Returns the id of the deployment. */
    repair: (id: string, paths: readonly string[]) =>
      startDeployment(client, 'POST /api/projects/:id/repair', { id, body: { paths } }),
    planUndo: (id: string, wish: RollbackWish, signal: AbortSignal) =>
      call('POST /api/projects/:id/undo', { id, body: asked(wish), signal }) as Promise<RollbackPlan>,
    /** Starts an undo with a reason, which may be empty. Returns the id of the deployment. */
    undo: (id: string, reason: string, wish: RollbackWish) =>
      startDeployment(client, 'POST /api/projects/:id/undo', { id, body: reasoned(reason, wish) }),
    planRollback: (id: string, wish: RollbackWish, signal: AbortSignal) =>
      call('POST /api/deployments/:id/rollback', { id, body: asked(wish), signal }) as Promise<RollbackPlan>,
    /** Starts a rollback like `undo`. */
    rollback: (id: string, reason: string, wish: RollbackWish) =>
      startDeployment(client, 'POST /api/deployments/:id/rollback', { id, body: reasoned(reason, wish) }),
    planPromotion: (id: string, from: string, signal: AbortSignal) =>
      call('POST /api/projects/:id/promote', { id, body: { from, dryRun: true }, signal }) as Promise<RollbackPlan>,
    /** Starts a promotion to a project. Returns the id of the deployment. */
    promote: (id: string, from: string, reason: string) =>
      startDeployment(client, 'POST /api/projects/:id/promote', { id, body: { from, message: reason || null } }),
    /** Deletes the archive of a deployment. `force`: also one that an exact undo needs. */
    deleteArchive: async (id: string, force: boolean) =>
      (await call('DELETE /api/deployments/:id/archive', { id, query: { force: force ? 'true' : undefined } }))
        .deployment as Deployment
  }
}

async function* chunksOf({ body }: Response): AsyncGenerator<Uint8Array> {
  const reader = body?.getReader()
  for (let read = await reader?.read(); read !== undefined && !read.done; read = await reader?.read()) yield read.value
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

/** Returns what a deployment of a tree would do. Rejects as `Client.ask` does. */
export function requestPlan(
  { ask }: Pick<Client, 'ask'>,
  projectId: string,
  { body, isGzip, wishes, signal }: PlanBody & { wishes: PlanWishes; signal: AbortSignal }
): Promise<PlanAnswer> {
  const prune = wishes.pruneForeign ? 'foreign' : wishes.pruneAll ? 'force' : undefined
  const query = { projectId, force: wishes.force ? ('1' as const) : undefined, prune } as const
  const headers: Record<string, string> = { 'x-svc-time': String(Date.now()) }
  if (isGzip) headers['content-encoding'] = 'gzip'
  return ask('POST', placeOf('POST /api/deploy/plan', { query }), { body, headers, signal })
}

/** The fields of a new log source. */
export type NewLogSource = Pick<LogSource, 'filePath'> & Partial<Pick<LogSource, 'label' | 'kind'>>

/** A window of a log file. */
export interface RangeQuery {
  direction: 'forward' | 'backward' | 'tail'
  offset?: number
  /** The window begins with the first line at or after this time. Times without a zone are in the user's zone. */
  atMs?: number
  /** Size in bytes, at most 1 MiB. */
  size: number
}

/** A search in a log file. */
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

/** The API of log sources (§4.9, §6.3, §6.4). Each function rejects as `Client.ask` does. */
export type LogCalls = ReturnType<typeof createLogCalls>

/** Creates the calls. */
export function createLogCalls(client: Client) {
  const call = createCall(client)
  const events = { accept: 'text/event-stream' }

  return {
    sources: async (id: string, signal?: AbortSignal) =>
      (await call('GET /api/projects/:id/log-sources', { id, signal })).items,
    /** Returns the sources of all projects. */
    allSources: async (signal?: AbortSignal) => (await call('GET /api/log-sources', { signal })).items,
    add: async (id: string, items: readonly NewLogSource[]) =>
      (await call('POST /api/projects/:id/log-sources', { id, body: { items } })).items,
    /** Adds the log files of the PM2 application that are no log sources yet. */
    addPm2: async (id: string) => (await call('POST /api/projects/:id/log-sources/pm2', { id })).items,
    change: async (sourceId: string, body: Given<'PATCH /api/log-sources/:sourceId'>['body']) =>
      (await call('PATCH /api/log-sources/:sourceId', { sourceId, body })).source,
    /** Removes at most 200 sources. Their files stay. */
    remove: (ids: readonly string[]) => call('POST /api/log-sources/bulk', { body: { ids, action: 'delete' } }),
    meta: (sourceId: string, signal?: AbortSignal) => call('GET /api/log-sources/:sourceId/meta', { sourceId, signal }),
    range: (sourceId: string, { direction, offset, atMs, size }: RangeQuery, signal?: AbortSignal) =>
      call('GET /api/log-sources/:sourceId/range', {
        sourceId,
        query: { direction, size, offset, ...timeOf('time', atMs) },
        signal
      }),
    /** Returns the event stream of new lines, or of those after an event. */
    stream(sourceId: string, lastEventId: string, signal: AbortSignal): Promise<Response> {
      const headers = lastEventId === '' ? events : { ...events, 'last-event-id': lastEventId }
      const path = placeOf('GET /api/log-sources/:sourceId/stream', { sourceId, query: { tailLines: 0 } })
      return client.send('GET', path, { headers, signal })
    },
    /** Searches a file, newest hits first. */
    search(sourceId: string, query: LogSearchQuery, signal: AbortSignal): Promise<Response> {
      const { q, isRegex, ignoresCase, maxHits, context, level, sinceMs, untilMs, toOffset } = query
      const path = placeOf('GET /api/log-sources/:sourceId/search', {
        sourceId,
        query: {
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
        }
      })
      return client.send('GET', path, { headers: events, signal })
    },
    /** Returns an address that downloads the file once within a short time. */
    downloadAddress: (sourceId: string): string =>
      client.address(placeOf('GET /api/log-sources/:sourceId/download', { sourceId }))
  }
}

/** Returns a time and the user's zone, in which times without a zone are read. */
function timeOf(name: 'time' | 'since' | 'until', atMs: number | null | undefined): { zone?: number } {
  if (typeof atMs !== 'number') return {}
  const at = new Date(atMs)
  return { [name]: at.toISOString(), zone: -at.getTimezoneOffset() }
}

/** An enrollment with its token, which is shown once, and what to run on the machine. */
export type IssuedToken = Omit<Answered<'POST /api/enrollments'>, 'success'>
/** The API of nodes, enrollments and placements. Each function rejects as `Client.ask` does. */
export type FleetCalls = ReturnType<typeof createFleetCalls>

/** Creates the calls. */
export function createFleetCalls(client: Pick<Client, 'ask'>) {
  const call = createCall(client)
  return {
    nodes: async (signal?: AbortSignal) => (await call('GET /api/nodes', { signal })).nodes,
    /** Returns the nodes, and the releases that they have in place. */
    fleet: (signal?: AbortSignal) => call('GET /api/nodes', { signal }),
    /** Finds a node by its id or its name. */
    node: async (node: string, signal?: AbortSignal) => (await call('GET /api/nodes/:node', { node, signal })).node,
    updateNode: async (node: string, body: Given<'PATCH /api/nodes/:node'>['body']) =>
      (await call('PATCH /api/nodes/:node', { node, body })).node,
    drain: async (node: string, isDrained: boolean) =>
      (await call('PUT /api/nodes/:node/drain', { node, body: { drained: isDrained } })).node,
    /** Removes a node. Its files stay. */
    forget: (node: string) => call('DELETE /api/nodes/:node', { node }),
    enrollments: async (signal?: AbortSignal) => (await call('GET /api/enrollments', { signal })).enrollments,
    enroll: (body: Given<'POST /api/enrollments'>['body']): Promise<IssuedToken> =>
      call('POST /api/enrollments', { body }),
    revokeEnrollment: (id: string) => call('DELETE /api/enrollments/:id', { id }),
    placements: async (id: string, signal?: AbortSignal) =>
      (await call('GET /api/projects/:id/placements', { id, signal })).placements,
    place: (id: string, body: Given<'PATCH /api/projects/:id/placements'>['body']) =>
      call('PATCH /api/projects/:id/placements', { id, body })
  }
}

/** A page of rollouts. `before` is the id of the last rollout of the previous page. */
export type RolloutQuery = NonNullable<Given<'GET /api/rollouts'>['query']>
/** The API of rollouts. Each function rejects as `Client.ask` does. */
export type RolloutCalls = ReturnType<typeof createRolloutCalls>

/** Creates the calls. */
export function createRolloutCalls({ ask, send }: Pick<Client, 'ask' | 'send'>) {
  const call = createCall({ ask })
  return {
    /** Returns rollouts, the newest first. */
    list: async (query: RolloutQuery, signal?: AbortSignal) =>
      (await call('GET /api/rollouts', { query, signal })).rollouts,
    get: async (rolloutId: string, signal?: AbortSignal) =>
      (await call('GET /api/rollouts/:rolloutId', { rolloutId, signal })).rollout,
    /** Returns a node with the end of its output. */
    node: async (rolloutId: string, node: string, signal?: AbortSignal) =>
      (await call('GET /api/rollouts/:rolloutId/nodes/:node', { rolloutId, node, signal })).node,
    /** Returns the NDJSON stream of a rollout, which begins with the whole of it. */
    events: (rolloutId: string, signal: AbortSignal): Promise<Response> =>
      send('GET', placeOf('GET /api/rollouts/:rolloutId/events', { rolloutId }), {
        signal,
        headers: { accept: 'application/x-ndjson' }
      }),
    halt: async (rolloutId: string) =>
      (await call('POST /api/rollouts/:rolloutId/halt', { rolloutId, body: {} })).rollout,
    resume: async (rolloutId: string) => (await call('POST /api/rollouts/:rolloutId/resume', { rolloutId })).rollout,
    /** Lets the nodes of a wave and those after it go back; null: all. */
    revert: async (rolloutId: string, wave: number | null) =>
      (await call('POST /api/rollouts/:rolloutId/revert', { rolloutId, body: wave === null ? {} : { wave } })).rollout,
    approve: async (rolloutId: string) => (await call('POST /api/rollouts/:rolloutId/approve', { rolloutId })).rollout
  }
}

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

function wait(ms: number, signal: AbortSignal): Promise<void> {
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
