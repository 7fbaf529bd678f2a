import type { BulkAction, BulkOutcome } from '../../lib/model/bulk.js'
import type { Given } from '../../lib/api/map/call.js'
import type { Label } from '../../lib/model/project.js'
import { createCall, placeOf } from './call.js'
import { ifMatch, type Client } from './client.js'

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
