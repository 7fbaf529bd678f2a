import { setTimeout as delay } from 'node:timers/promises'
import { Refusal } from '../base/refusal.js'
import type { Deployment, DeploymentRow, FinalStatus, ListedDeployment } from '../model/deployment.js'
import type { Project } from '../model/project.js'
import type { TokenHolder } from '../model/token-holder.js'
import type { UploadPermit } from '../model/upload-permit.js'
import type { GivenVariable, Variable } from '../model/variable.js'
import type { Answer, Client } from './client.js'
import { parseObject, readEvents, readNdjson } from './streams.js'
import { formBody } from './upload.js'

/** The server sends a comment every 15 s at the latest. */
const eventSilenceMs = 60_000
const maxBrokenInRow = 12
/** The most deployments that the server lists at once. */
const listLimit = 500
const longestPauseMs = 5000
const ndjson = 'application/x-ndjson'

/** What a deployment that is watched says: its lines, then once how it ended. */
export type RunEvent =
  | { event: 'log'; text: string; at: string | null }
  | { event: 'status'; status: FinalStatus; duration: string; deployId: string | null }

/** A deployment that goes on while it is read. Its id where the server has said it at once. */
export interface Run {
  deployId: string | null
  /** Where people see it, as far as the server knows. */
  page: string | null
  events: AsyncIterable<RunEvent>
}

export interface UploadRequest {
  projectId: string
  archive: { path: string; bytes: number }
  /** Form fields besides `file` and `projectId` (§4.6); undefined ones are not sent. */
  fields: Record<string, string | undefined>
  onProgress(sentBytes: number): void
  signal: AbortSignal
}

export interface FollowOptions {
  /** Called before each new attempt after a connection broke. */
  onBroken?(): void
  signal?: AbortSignal
}

export interface VariablesChange {
  variables?: GivenVariable[]
  unset?: string[]
  dotenv?: string
  /** Whether all that `dotenv` sets is secret. */
  secret?: boolean
}

export interface DeploymentQuery {
  projectId?: string | undefined
  status?: string
  output?: 'none'
  signal?: AbortSignal
  branch?: string | undefined
  /** The first digits of a commit. */
  commit?: string | undefined
  limit?: number
}

export interface Api {
  readonly address: string
  /** What it asks with. */
  readonly client: Client
  /** What the token is for; null: the server is older than that question. */
  whoami(options?: { signal?: AbortSignal }): Promise<TokenHolder | null>
  /** Refuses what the upload would be refused with; null: the server is older than that question. */
  checkUpload(query: { projectId: string; scripts: readonly string[]; signal?: AbortSignal }): Promise<UploadPermit | null>
  projects(options?: { signal?: AbortSignal }): Promise<Project[]>
  project(id: string): Promise<Project>
  createProject(fields: Partial<Project>): Promise<Project>
  updateProject(id: string, fields: Partial<Project>): Promise<Project>
  removeProject(id: string): Promise<void>
  /** Replaces the deploy token; the old one is no longer valid. */
  replaceToken(id: string): Promise<string>
  /** Of the project's scripts, by name. */
  variables(projectId: string): Promise<Variable[]>
  /** The others stay; `dotenv` is the text of a .env file. Returns all of them as they are now. */
  changeVariables(projectId: string, change: VariablesChange): Promise<Variable[]>
  /** Newest first. */
  deployments(query: DeploymentQuery): Promise<Deployment[]>
  /** The newest deployment of each project, by its id, without output. An older server knows only the last ones. */
  newestDeployments(): Promise<Map<string, ListedDeployment>>
  /** With its whole output, up to 1 MiB, or with the end of it. */
  deployment(id: string, options?: { output?: 'whole' | 'end' }): Promise<Deployment>
  /** The whole text, as bytes. */
  output(id: string, options: { timestamps: boolean }): Promise<AsyncIterable<Buffer>>
  /** Replays, then follows until the end; a broken connection is taken up where it broke. */
  follow(id: string, options?: FollowOptions): AsyncIterable<RunEvent>
  upload(request: UploadRequest): Promise<Run>
  rollback(id: string, options: { message: string | undefined; signal?: AbortSignal }): Promise<Run>
  cancel(id: string): Promise<unknown>
}

/** The server's API as functions (§4). */
export function createApi(client: Client): Api {
  const deploymentPath = (id: string) => `/api/deployments/${encodeURIComponent(id)}`
  const projectPath = (id: string) => `/api/projects/${encodeURIComponent(id)}`
  const variablesPath = (id: string) => `${projectPath(id)}/variables`
  const logPath = (id: string) => `/api/logs/${encodeURIComponent(id)}`

  return {
    address: client.address,
    client,
    whoami: ({ signal } = {}) => ifKnown(client.json<TokenHolder>({ path: '/api/auth/whoami', signal }), ({ role }) => typeof role === 'string'),
    checkUpload: ({ projectId, scripts, signal }) =>
      ifKnown(
        client.json<UploadPermit>({
          path: '/api/deploy/check',
          query: { projectId, scripts: scripts.join(',') || undefined },
          // The upload comes after the packing, when a kept connection may have been closed silently.
          headers: { connection: 'close' },
          signal
        }),
        ({ maxUploadBytes }) => typeof maxUploadBytes === 'number'
      ),
    projects: ({ signal } = {}) => client.json({ path: '/api/projects', signal }),
    project: id => client.json({ path: projectPath(id) }),
    createProject: async json => (await client.json<{ project: Project }>({ method: 'POST', path: '/api/projects', json })).project,
    updateProject: async (id, json) => (await client.json<{ project: Project }>({ method: 'PUT', path: projectPath(id), json })).project,
    removeProject: async id => void (await client.json({ method: 'DELETE', path: projectPath(id) })),
    replaceToken: async id => (await client.json<{ token: string }>({ method: 'POST', path: `${projectPath(id)}/token` })).token,
    variables: async id => (await client.json<{ variables: Variable[] }>({ path: variablesPath(id) })).variables,
    changeVariables: async (id, json) =>
      (await client.json<{ variables: Variable[] }>({ method: 'PATCH', path: variablesPath(id), json })).variables,
    deployments: ({ limit, signal, ...query }) =>
      client.json({ path: '/api/logs', query: { ...query, limit: limit?.toString() }, signal }),
    async newestDeployments() {
      const found = new Map<string, ListedDeployment>()
      for (let before: string | undefined; ;) {
        const query = { newest: '1', output: 'none', limit: String(listLimit), before }
        const page = await client.json<ListedDeployment[]>({ path: '/api/logs', query })
        const added = page.filter(row => !found.has(row.projectId))
        for (const row of added) if (!found.has(row.projectId)) found.set(row.projectId, row)
        // An older server does not know "newest", and would list everything.
        const isOlder = page.length !== new Set(page.map(row => row.projectId)).size || added.length < page.length
        if (page.length < listLimit || isOlder) return found
        before = page.at(-1)?.id
      }
    },
    deployment: (id, { output = 'whole' } = {}) => client.json({ path: logPath(id), query: { output } }),
    output: (id, { timestamps }) =>
      client.open({
        path: `${logPath(id)}/output`,
        query: { timestamps: timestamps ? '1' : undefined },
        accept: 'text/plain'
      }),
    follow: (id, options = {}) => follow(client, `${logPath(id)}/stream`, options),
    async upload({ projectId, archive, fields, onProgress, signal }) {
      const form = Object.fromEntries(
        Object.entries({ projectId, ...fields }).filter((entry): entry is [string, string] => entry[1] !== undefined)
      )
      const body = formBody(form, { field: 'file', filename: 'archive.zip', ...archive }, onProgress)
      return runOf(await client.open({ method: 'POST', path: '/api/deploy/upload', accept: ndjson, body, signal }))
    },
    async rollback(id, { message, signal }) {
      const path = `${deploymentPath(id)}/rollback`
      return runOf(await client.open({ method: 'POST', path, accept: ndjson, json: { message }, signal }))
    },
    cancel: id => client.json({ method: 'POST', path: `${deploymentPath(id)}/cancel` })
  }
}

/** The answer of a route that an older server has not: null for its 404, and for an answer of another shape. */
async function ifKnown<T extends object>(asked: Promise<T>, isKnown: (answer: T) => boolean): Promise<T | null> {
  try {
    const answer = await asked
    return isKnown(answer) ? answer : null
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_found') return null
    throw error
  }
}

/** Whether a deployment has come to its end. */
export function isFinal(status: DeploymentRow['status']): status is FinalStatus {
  return status === 'success' || status === 'failed'
}

function runOf(answer: Answer): Run {
  const { 'x-svc-deploy-id': deployId, 'x-svc-deploy-url': page } = answer.headers
  return { deployId: textOrNull(deployId), page: isPage(page) ? page : null, events: readRun(answer) }
}

/** It is printed: nothing that a terminal would obey. */
function isPage(page: unknown): page is string {
  return typeof page === 'string' && /^https?:\/\/[\x21-\x7e]+$/.test(page)
}

/** Ends after the status; a stream that ends without one is a broken connection. */
async function* readRun(answer: Answer): AsyncGenerator<RunEvent> {
  for await (const value of readNdjson(answer)) {
    if (value['event'] === 'log') yield { event: 'log', text: String(value['data']), at: textOrNull(value['at']) }
    else if (value['event'] === 'status') {
      yield statusOf(value)
      return
    }
  }
  throw broken()
}

async function* follow(client: Client, path: string, { onBroken, signal }: FollowOptions): AsyncGenerator<RunEvent> {
  let lastId: string | undefined
  for (let brokenInRow = 0; ; brokenInRow++) {
    try {
      const headers: Record<string, string> = lastId === undefined ? {} : { 'last-event-id': lastId }
      const answer = await client.open({ path, headers, accept: 'text/event-stream', signal })
      answer.setTimeout(eventSilenceMs, () => answer.destroy(broken()))
      for await (const event of readEvents(answer)) {
        brokenInRow = 0
        lastId = event.id ?? lastId
        if (event.event === 'log') yield lineOf(event.data)
        else if (event.event === 'status') {
          const status = statusOf(parseObject(event.data))
          if (!isFinal(status.status)) continue
          yield status
          return
        }
      }
      throw broken()
    } catch (error) {
      if (!isBroken(error) || brokenInRow >= maxBrokenInRow) throw error
      onBroken?.()
      await delay(Math.min(longestPauseMs, 250 * 2 ** brokenInRow), undefined, signal === undefined ? {} : { signal })
    }
  }
}

function lineOf(data: string): RunEvent {
  const value = parseObject(data)
  return { event: 'log', text: String(value['data']), at: textOrNull(value['at']) }
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

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

function broken(): Refusal {
  return new Refusal('unavailable', 'stream_broken', 'The connection to the server broke')
}

/** Whether a request may have been carried out although no answer came: it may have reached the server. */
export function mayHaveArrived(error: unknown): boolean {
  if (!(error instanceof Refusal) || error.code !== 'unreachable') return isBroken(error)
  return ['ECONNRESET', 'EPIPE', 'ETIMEDOUT'].includes(String((error.cause as NodeJS.ErrnoException | undefined)?.code))
}

/** Whether trying again may help: the network failed, or the server is about to be back. */
export function isBroken(error: unknown): boolean {
  if (error instanceof Refusal)
    return ['stream_broken', 'unreachable', 'http_502', 'http_503', 'http_504', 'bad_stream'].includes(error.code)
  return ['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ERR_STREAM_PREMATURE_CLOSE'].includes(
    String((error as NodeJS.ErrnoException)?.code)
  )
}
