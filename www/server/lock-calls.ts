import type { Answered, Given } from '../../lib/api/map/call.js'
import type { ListedLock } from '../../lib/model/lock.js'
import { createCall } from './call.js'
import type { Client } from './client.js'

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
