import type {
  Deployment,
  ListedDeployment,
  DeploymentStatus,
  FinalStatus,
  OutputLine
} from '../../lib/model/deployment.js'
import type { ChangeVersions } from '../../lib/model/changes.js'
import type { HealthReport } from '../../lib/model/health.js'
import type { MachineHistory, ResourceSnapshot } from '../../lib/model/machine.js'
import type { Changes } from '../../lib/model/manifest.js'
import type { Overview, ProjectOverview } from '../../lib/model/overview.js'
import type { Project } from '../../lib/model/project.js'
import type { BegunSession } from '../state/session.js'
import type { Client } from './client.js'

/** The header that contains the deployment's id in a streaming answer, before its first line. */
export const deployIdHeader = 'x-svc-deploy-id'

/** The results of a search of one type. */
export interface FoundGroup {
  type: string
  total: number
  items: ReadonlyArray<{ id: string; title: string; subtitle: string; href: string }>
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

/** The fields of a new project. */
export type NewProject = Pick<Project, 'name' | 'deployPath'> & Partial<Pick<Project, 'description' | 'env'>>
/** The fields of a project to change. */
export type ProjectPatch = Partial<
  Pick<
    Project,
    | 'name'
    | 'description'
    | 'env'
    | 'deployPath'
    | 'preDeployScript'
    | 'postDeployScript'
    | 'postDeployAsync'
    | 'allowClientScripts'
    | 'allowedEnv'
  >
>

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
export interface Calls {
  /** Signs in. Rejects with Refused: the token is wrong, its second factor needs a `code`, too many attempts. */
  login(fields: SignIn): Promise<BegunSession>
  /** Signs out all tabs of this browser. */
  signOut(): Promise<void>
  /** Returns the versions of all topics. */
  changeVersions(): Promise<ChangeVersions>
  /** Returns the overview, with the results of the deployments of the last `days` days. */
  overview(days: number | null, signal?: AbortSignal): Promise<Overview>
  resources(signal?: AbortSignal): Promise<ResourceSnapshot>
  /** Returns the history of a day, one row for each minute. */
  history(signal?: AbortSignal): Promise<MachineHistory>
  health(signal?: AbortSignal): Promise<HealthReport>
  search(text: string, signal?: AbortSignal): Promise<readonly FoundGroup[]>
  projects(signal?: AbortSignal): Promise<Project[]>
  project(id: string, signal?: AbortSignal): Promise<Project>
  /** With its deploy token: asks for the token of the session if it was given too long ago. */
  provenProject(id: string): Promise<Project>
  projectOverview(id: string, signal?: AbortSignal): Promise<ProjectOverview>
  createProject(project: NewProject): Promise<Project>
  updateProject(id: string, patch: ProjectPatch): Promise<Project>
  deleteProject(id: string): Promise<void>
  /** Returns a new deploy token. The old one becomes invalid. */
  regenerateToken(id: string): Promise<string>
  deployments(query: DeploymentQuery, signal?: AbortSignal): Promise<DeploymentPage>
  deployment(id: string, signal?: AbortSignal): Promise<Deployment>
  /** Returns the record with only the end of its output, as in a list. */
  deploymentRecord(id: string, signal?: AbortSignal): Promise<Deployment>
  /** Returns a part of the output with the times of its lines. */
  outputWindow(id: string, query: OutputWindowQuery, signal?: AbortSignal): Promise<OutputWindow>
  /** Returns the event stream of the output after an offset (§6.1). */
  outputStream(id: string, lastEventId: string, signal: AbortSignal): Promise<Response>
  /** Returns the whole output as text. */
  output(id: string): Promise<Blob>
  /** Returns the files that differ between a deployment and another one. */
  changes(id: string, against: string, signal?: AbortSignal): Promise<Changes>
  /** Starts a rollback with a reason, which may be empty. Returns its id when it is recorded. */
  rollback(id: string, reason: string): Promise<string>
  cancel(id: string): Promise<void>
  /** Confirms a deployment that waits for it. */
  confirm(id: string): Promise<Deployment>
  /** Puts the files before a held deployment back. */
  revert(id: string): Promise<Deployment>
  mark(id: string, status: FinalStatus): Promise<Deployment>
}

/** Reads lines with timestamps: 24 characters of time, a space, the text. */
function linesOf(output: string): OutputLine[] {
  const lines = output.split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines.map(line => ({ at: line.slice(0, 24), text: line.slice(25) }))
}

/** Creates the calls. */
export function createCalls(client: Client): Calls {
  const { ask, send } = client
  const segment = encodeURIComponent
  return {
    async login(fields) {
      const body = { ...fields, session: true }
      return (await ask<{ session: BegunSession }>('POST', 'api/auth/login', { body })).session
    },
    async signOut() {
      await ask('DELETE', 'api/auth/session')
    },
    changeVersions: () => ask('GET', 'api/changes'),
    overview: (days, signal) => ask('GET', days === null ? 'api/overview' : `api/overview?days=${days}`, { signal }),
    resources: signal => ask('GET', 'api/system/resources', { signal }),
    history: signal => ask('GET', 'api/system/history?step=5', { signal }),
    // An unhealthy server answers 503 in the same shape (§4.8).
    health: signal => ask('GET', 'api/health', { alsoGood: 503, signal }),
    async search(text, signal) {
      const { groups } = await ask<{ groups: FoundGroup[] }>('GET', `api/search?${new URLSearchParams({ q: text })}`, {
        signal
      })
      return groups.filter(({ items }) => items.length > 0)
    },
    projects: signal => ask('GET', 'api/projects', { signal }),
    project: (id, signal) => ask('GET', `api/projects/${segment(id)}`, { signal }),
    async provenProject(id) {
      await client.ensureProven()
      return ask('GET', `api/projects/${segment(id)}`)
    },
    projectOverview: (id, signal) => ask('GET', `api/projects/${segment(id)}/overview`, { signal }),
    async createProject(body) {
      return (await ask<{ project: Project }>('POST', 'api/projects', { body })).project
    },
    async updateProject(id, body) {
      return (await ask<{ project: Project }>('PUT', `api/projects/${segment(id)}`, { body })).project
    },
    async deleteProject(id) {
      await ask('DELETE', `api/projects/${segment(id)}`)
    },
    async regenerateToken(id) {
      return (await ask<{ token: string }>('POST', `api/projects/${segment(id)}/token`)).token
    },
    async deployments(query, signal) {
      const sought = new URLSearchParams({ output: 'none' })
      for (const [name, value] of Object.entries(query)) if (value !== undefined) sought.set(name, String(value))
      const response = await send('GET', `api/logs?${sought}`, { signal })
      const items: ListedDeployment[] = await response.json()
      return { items, total: Number(response.headers.get('x-total-count') ?? items.length) }
    },
    deployment: (id, signal) => ask('GET', `api/logs/${segment(id)}`, { signal }),
    deploymentRecord: (id, signal) => ask('GET', `api/logs/${segment(id)}?output=end`, { signal }),
    async outputWindow(id, query, signal) {
      const sought = new URLSearchParams({ timestamps: '1' })
      for (const [name, value] of Object.entries(query)) if (value !== undefined) sought.set(name, String(value))
      const response = await send('GET', `api/logs/${segment(id)}/output?${sought}`, { signal })
      const place = (name: string): number => Number(response.headers.get(`x-svc-output-${name}`))
      return { lines: linesOf(await response.text()), from: place('from'), to: place('to') }
    },
    outputStream(id, lastEventId, signal) {
      const headers: Record<string, string> = { accept: 'text/event-stream' }
      if (lastEventId !== '') headers['last-event-id'] = lastEventId
      return send('GET', `api/logs/${segment(id)}/stream?timestamps=1`, { headers, signal })
    },
    async output(id) {
      return (await send('GET', `api/logs/${segment(id)}/output`)).blob()
    },
    changes: (id, against, signal) =>
      ask('GET', `api/deployments/${segment(id)}/changes?against=${segment(against)}`, { signal }),
    async rollback(id, reason) {
      const headers = { accept: 'application/x-ndjson' }
      const response = await send('POST', `api/deployments/${segment(id)}/rollback`, {
        headers,
        body: { message: reason || null }
      })
      // The stream is cancelled: the page of the deployment follows it by its id. The rollback continues.
      await response.body?.cancel()
      return response.headers.get(deployIdHeader) ?? ''
    },
    async cancel(id) {
      await ask('POST', `api/deployments/${segment(id)}/cancel`)
    },
    async confirm(id) {
      return (await ask<{ deployment: Deployment }>('POST', `api/deployments/${segment(id)}/confirm`)).deployment
    },
    async revert(id) {
      return (await ask<{ deployment: Deployment }>('POST', `api/deployments/${segment(id)}/revert`)).deployment
    },
    async mark(id, status) {
      const path = `api/deployments/${segment(id)}/status`
      return (await ask<{ deployment: Deployment }>('PATCH', path, { body: { status } })).deployment
    }
  }
}
