import type { BulkAction, BulkOutcome } from '../../lib/model/bulk.js'
import type { FileContent, FileEntry } from '../../lib/model/file-entry.js'
import type { Label } from '../../lib/model/label.js'
import type { ServerStatus } from '../../lib/model/health.js'
import type { GivenPolicy } from '../../lib/model/policy.js'
import type { Pm2Apps, Pm2Binding } from '../../lib/model/pm2.js'
import type { Project, RecentScripts } from '../../lib/model/project.js'
import type { GivenVariable, Variable } from '../../lib/model/variable.js'
import { ifMatch, type Client } from './client.js'

/** All categories and tags. */
export interface Labels {
  categories: readonly Label[]
  tags: readonly Label[]
}

/** The fields of a project that can be set. */
export type ProjectFields = Partial<
  Pick<
    Project,
    | 'name'
    | 'description'
    | 'env'
    | 'deployPath'
    | 'categoryId'
    | 'tagIds'
    | 'pm2AppName'
    | 'preDeployScript'
    | 'postDeployScript'
    | 'postDeployAsync'
    | 'allowClientScripts'
    | 'allowedEnv'
    | 'runAs'
    | 'umask'
    | 'maxDiskMb'
    | 'scriptTimeoutSeconds'
    | 'scriptShell'
    | 'scriptDirectory'
  >
> & { policy?: GivenPolicy }

/** A change of some variables of a project. The others stay. */
export interface VariablesChange {
  variables?: readonly GivenVariable[]
  unset?: readonly string[]
  /** The text of a .env file. */
  dotenv?: string
  /** Whether all variables of `dotenv` are secret. */
  secret?: boolean
}

/** The API of the project pages. Each function rejects as `Client.ask` does. */
export interface ProjectCalls {
  labels(signal?: AbortSignal): Promise<Labels>
  /** Returns the default directory of new projects; empty if it is not set. */
  defaultPath(signal?: AbortSignal): Promise<string>
  /** Returns whether the server can give each project a user of its own. */
  switchesUsers(signal?: AbortSignal): Promise<boolean>
  create(fields: ProjectFields): Promise<Project>
  get(id: string): Promise<Project>
  /**
   * Updates a project. The server refuses with `changed_since` if `tag` is not the `updatedAt` of the current state.
   */
  update(id: string, fields: ProjectFields, tag: string | null): Promise<Project>
  pin(id: string, pinned: boolean): Promise<Project>
  /** Applies an action to any number of projects. */
  bulk(ids: readonly string[], action: BulkAction): Promise<BulkOutcome>
  recentScripts(id: string): Promise<RecentScripts>
  /** Returns the variables of its scripts, by name. */
  variables(id: string, signal?: AbortSignal): Promise<Variable[]>
  /** Changes variables and returns all of them. */
  changeVariables(id: string, change: VariablesChange): Promise<Variable[]>
  pm2(id: string, signal?: AbortSignal): Promise<Pm2Binding>
  pm2Apps(signal?: AbortSignal): Promise<Pm2Apps>
  /** Lists a directory. `path` is relative to the target; empty means the target itself. */
  files(id: string, path: string, signal?: AbortSignal): Promise<FileEntry[]>
  file(id: string, path: string, signal?: AbortSignal): Promise<FileContent>
  /** Returns the contents of a file. */
  bytes(id: string, path: string, signal?: AbortSignal): Promise<Blob>
  /** Returns an address that downloads the file once within 30 seconds. */
  downloadAddress(id: string, path: string): string
}

/** Maximum number of projects per request. */
const maxBulk = 200

/** Creates the calls. */
export function createProjectCalls({ ask, send, address }: Client): ProjectCalls {
  const of = (id: string): string => `api/projects/${encodeURIComponent(id)}`
  const at = (path: string): string => `?${new URLSearchParams({ path })}`
  return {
    async labels(signal) {
      const [categories, tags] = await Promise.all([
        ask<Label[]>('GET', 'api/categories', { signal }),
        ask<Label[]>('GET', 'api/tags', { signal })
      ])
      return { categories, tags }
    },
    async defaultPath(signal) {
      const settings = await ask<Record<string, string>>('GET', 'api/settings', { signal })
      return settings['default_deploy_path'] ?? ''
    },
    async switchesUsers(signal) {
      return (await ask<ServerStatus>('GET', 'api/settings/status', { signal })).switchesUsers === true
    },
    async create(body) {
      return (await ask<{ project: Project }>('POST', 'api/projects', { body })).project
    },
    get: id => ask('GET', of(id)),
    async update(id, body, tag) {
      return (await ask<{ project: Project }>('PUT', of(id), { body, headers: ifMatch(tag) })).project
    },
    async pin(id, pinned) {
      return (await ask<{ project: Project }>('PUT', `${of(id)}/pin`, { body: { pinned } })).project
    },
    async bulk(ids, action) {
      const outcome: BulkOutcome = { done: 0, failed: [] }
      for (let from = 0; from < ids.length; from += maxBulk) {
        const body = { ids: ids.slice(from, from + maxBulk), ...action }
        const { done, failed } = await ask<BulkOutcome>('POST', 'api/projects/bulk', { body })
        outcome.done += done
        outcome.failed.push(...failed)
      }
      return outcome
    },
    async variables(id, signal) {
      return (await ask<{ variables: Variable[] }>('GET', `${of(id)}/variables`, { signal })).variables
    },
    async changeVariables(id, body) {
      return (await ask<{ variables: Variable[] }>('PATCH', `${of(id)}/variables`, { body })).variables
    },
    recentScripts: id => ask('GET', `${of(id)}/recent-scripts`),
    pm2: (id, signal) => ask('GET', `${of(id)}/pm2`, { signal }),
    pm2Apps: signal => ask('GET', 'api/pm2/apps', { signal }),
    files: (id, path, signal) => ask('GET', `${of(id)}/files${at(path)}`, { signal }),
    file: (id, path, signal) => ask('GET', `${of(id)}/file${at(path)}`, { signal }),
    async bytes(id, path, signal) {
      return (await send('GET', `${of(id)}/download${at(path)}`, { signal })).blob()
    },
    downloadAddress: (id, path) => address(`${of(id)}/download?${new URLSearchParams({ path })}`)
  }
}
