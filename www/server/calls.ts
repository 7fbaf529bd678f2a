import type { Answered, Arguments, Given, Route } from '../../lib/api/map/call.js'
import { routePath } from '../shared/api.js'
import type { Client, Method, SendOptions } from './client.js'
import type {
  Deployment,
  DeploymentStatus,
  FinalStatus,
  ListedDeployment,
  OutputLine
} from '../../lib/model/deployment.js'
import type { BegunSession } from '../state/session.js'

/* Typed requests: the map of routes (lib/api/map) says what a route takes and answers. */

/** What a request has besides what its route takes. */
type Options = Omit<SendOptions, 'body'>

/** Asks a route. Rejects as `Client.ask` does. */
export type Call = <R extends Route>(route: R, ...given: Arguments<R, Options>) => Promise<Answered<R>>

/** Returns the function that asks routes. */
export function createCall({ ask }: Pick<Client, 'ask'>): Call {
  return (route, ...[given = {}]) => {
    const { body, headers, alsoGood, signal } = given as SendOptions
    const options: SendOptions = {
      ...(body !== undefined && { body }),
      ...(headers && { headers }),
      ...(alsoGood !== undefined && { alsoGood }),
      ...(signal && { signal })
    }
    return ask(route.split(' ')[0] as Method, placeOf(route, given as object), options)
  }
}

/** Returns the path of a route below the base, with its parameters and its query. */
export function placeOf<R extends Route>(route: R, given: Partial<Given<R>>): string {
  const values = given as Record<string, unknown>
  const path = routePath(route, values).slice(1)
  const query = Object.entries((values['query'] ?? {}) as Record<string, unknown>)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, String(value)])
  return query.length === 0 ? path : `${path}?${new URLSearchParams(query)}`
}

/** The header that contains the deployment's id in a streaming answer, before its first line. */
export const deployIdHeader = 'x-svc-deploy-id'

/**
 * Starts a deployment, and returns its id when it is recorded. The stream is cancelled: the page of the deployment
 * follows it by its id. The deployment continues.
 */
export async function startDeployment<R extends Route>(
  { send }: Pick<Client, 'send'>,
  route: R,
  given: Given<R>
): Promise<string> {
  const { body } = given as SendOptions
  const response = await send('POST', placeOf(route, given), { headers: { accept: 'application/x-ndjson' }, body })
  await response.body?.cancel()
  return response.headers.get(deployIdHeader) ?? ''
}

/** The results of a search of one type. */
export type FoundGroup = Answered<'GET /api/search'>['groups'][number]

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

/** What a user enters to sign in. */
export interface SignIn {
  token: string
  /** Whether the browser keeps the session after it is closed. */
  remember: boolean
  /** A code of the authenticator, or a recovery code. Absent: not asked for. */
  code?: string
}

/** The API as functions. Each function rejects as `Client.ask` does. */
export type Calls = ReturnType<typeof createCalls>

/** Reads lines with timestamps: 24 characters of time, a space, the text. */
function linesOf(output: string): OutputLine[] {
  const lines = output.split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines.map(line => ({ at: line.slice(0, 24), text: line.slice(25) }))
}

/** Creates the calls. */
export function createCalls(client: Client) {
  const { send } = client
  const call = createCall(client)
  return {
    /** Signs in. Rejects with Refused: the token is wrong, its second factor needs a `code`, too many attempts. */
    login: async (fields: SignIn): Promise<BegunSession> =>
      (await call('POST /api/auth/login', { body: { ...fields, session: true } })).session as BegunSession,
    /** Signs out all tabs of this browser. */
    signOut: () => call('DELETE /api/auth/session'),
    /** Returns what waits for somebody, and what is locked. */
    marks: (signal?: AbortSignal) => call('GET /api/marks', { signal }),
    /** Returns the versions of all topics. */
    changeVersions: () => call('GET /api/changes'),
    /** Returns the overview, with the results of the deployments of the last `days` days. */
    overview: (days: number | null, signal?: AbortSignal) =>
      call('GET /api/overview', { query: { days: days ?? undefined }, signal }),
    /** Returns the SHA-256 of the archives that the server hands out. */
    archives: async (signal?: AbortSignal) => (await call('GET /api/settings/status', { signal })).archives,
    resources: (signal?: AbortSignal) => call('GET /api/system/resources', { signal }),
    /** Returns the history of a day, one row for five minutes. */
    history: (signal?: AbortSignal) => call('GET /api/system/history', { query: { step: 5 }, signal }),
    // An unhealthy server answers 503 in the same shape (§4.8).
    health: (signal?: AbortSignal) => call('GET /api/health', { alsoGood: 503, signal }),
    async search(q: string, signal?: AbortSignal): Promise<readonly FoundGroup[]> {
      const { groups } = await call('GET /api/search', { query: { q }, signal })
      return groups.filter(({ items }) => items.length > 0)
    },
    projects: (signal?: AbortSignal) => call('GET /api/projects', { signal }),
    /** Returns the projects of each application side by side. */
    families: async (signal?: AbortSignal) => (await call('GET /api/families', { signal })).families,
    project: (id: string, signal?: AbortSignal) => call('GET /api/projects/:id', { id, signal }),
    /** With its deploy token: asks for the token of the session if it was given too long ago. */
    async provenProject(id: string) {
      await client.ensureProven()
      return call('GET /api/projects/:id', { id })
    },
    projectOverview: (id: string, signal?: AbortSignal) => call('GET /api/projects/:id/overview', { id, signal }),
    createProject: async (body: Given<'POST /api/projects'>['body']) =>
      (await call('POST /api/projects', { body })).project,
    updateProject: async (id: string, body: Given<'PUT /api/projects/:id'>['body']) =>
      (await call('PUT /api/projects/:id', { id, body })).project,
    deleteProject: (id: string) => call('DELETE /api/projects/:id', { id }),
    /** Returns a new deploy token. The old one becomes invalid. */
    regenerateToken: async (id: string) => (await call('POST /api/projects/:id/token', { id })).token,
    async deployments(query: DeploymentQuery, signal?: AbortSignal): Promise<DeploymentPage> {
      const path = placeOf('GET /api/logs', { query: { output: 'none', ...query } })
      const response = await send('GET', path, { signal })
      const items: ListedDeployment[] = await response.json()
      return { items, total: Number(response.headers.get('x-total-count') ?? items.length) }
    },
    deployment: (deployId: string, signal?: AbortSignal) =>
      call('GET /api/logs/:deployId', { deployId, signal }) as Promise<Deployment>,
    /** Returns the record with only the end of its output, as in a list. */
    deploymentRecord: (deployId: string, signal?: AbortSignal) =>
      call('GET /api/logs/:deployId', { deployId, query: { output: 'end' }, signal }) as Promise<Deployment>,
    /** Returns a part of the output with the times of its lines. */
    async outputWindow(deployId: string, query: OutputWindowQuery, signal?: AbortSignal): Promise<OutputWindow> {
      const path = placeOf('GET /api/logs/:deployId/output', { deployId, query: { timestamps: '1', ...query } })
      const response = await send('GET', path, { signal })
      const place = (name: string): number => Number(response.headers.get(`x-svc-output-${name}`))
      return { lines: linesOf(await response.text()), from: place('from'), to: place('to') }
    },
    /** Returns the event stream of the output after an offset (§6.1). */
    outputStream(deployId: string, lastEventId: string, signal: AbortSignal): Promise<Response> {
      const headers: Record<string, string> = { accept: 'text/event-stream' }
      if (lastEventId !== '') headers['last-event-id'] = lastEventId
      const path = placeOf('GET /api/logs/:deployId/stream', { deployId, query: { timestamps: '1' } })
      return send('GET', path, { headers, signal })
    },
    /** Returns the whole output as text. */
    output: async (deployId: string): Promise<Blob> =>
      (await send('GET', placeOf('GET /api/logs/:deployId/output', { deployId }))).blob(),
    /** Returns the receipt of a deployment. */
    receipt: async (id: string): Promise<Blob> =>
      (await send('GET', placeOf('GET /api/deployments/:id/receipt', { id }))).blob(),
    /** Returns the files that differ between a deployment and another one. */
    changes: (id: string, against: string, signal?: AbortSignal) =>
      call('GET /api/deployments/:id/changes', { id, query: { against }, signal }),
    /** Starts a rollback with a reason, which may be empty. Returns its id when it is recorded. */
    rollback: (id: string, reason: string) =>
      startDeployment(client, 'POST /api/deployments/:id/rollback', { id, body: { message: reason || null } }),
    cancel: async (id: string): Promise<void> => void (await call('POST /api/deployments/:id/cancel', { id })),
    /** Returns what a deployment would do that waits before it begins. */
    planWaiting: (id: string, signal: AbortSignal) => call('GET /api/deployments/:id/plan', { id, signal }),
    /** Approves the files of a deployment. */
    approve: async (id: string, body: { treeSha256: string; comment: string | null }) =>
      (await call('POST /api/deployments/:id/approve', { id, body })).deployment as Deployment,
    reject: async (id: string, comment: string | null) =>
      (await call('POST /api/deployments/:id/reject', { id, body: { comment } })).deployment as Deployment,
    /** Confirms a deployment that waits for it. */
    confirm: async (id: string) => (await call('POST /api/deployments/:id/confirm', { id })).deployment as Deployment,
    /** Puts the files before a held deployment back. */
    revert: async (id: string) => (await call('POST /api/deployments/:id/revert', { id })).deployment as Deployment,
    mark: async (id: string, status: FinalStatus) =>
      (await call('PATCH /api/deployments/:id/status', { id, body: { status } })).deployment as Deployment
  }
}
