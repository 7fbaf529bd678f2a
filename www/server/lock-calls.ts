import type { ListedLock } from '../../lib/model/lock.js'
import type { ListedMaintenance } from '../../lib/model/maintenance.js'
import type { Client } from './client.js'

/** A lock, or a maintenance, which does not refuse deployments. */
export type Restriction = ListedLock | ListedMaintenance

/** A change of the maintenance of a project. */
export interface MaintenanceChange {
  on: boolean
  reason?: string | null
  /** Replace or remove a file in the target that svc did not place, or that was changed. */
  force?: boolean
}

/** A lock to place. */
export interface NewLock {
  reason: string
  seconds: number
}

/** The API of locks. Each function rejects as `Client.ask` does. */
export interface LockCalls {
  /** Returns locks and maintenances; with `projectId`, those of that project, and the lock of the server. */
  list(projectId: string | null, signal?: AbortSignal): Promise<readonly Restriction[]>
  lock(projectId: string, lock: NewLock): Promise<ListedLock>
  /** Removes a lock. `takeOver` is the reason to remove the lock of another owner. */
  unlock(lock: Pick<ListedLock, 'projectId'>, takeOver: string | null): Promise<void>
  /** Begins or ends the maintenance of a project. Waits for its deployments for up to 30 seconds. */
  maintain(projectId: string, change: MaintenanceChange): Promise<void>
}

/** Creates the calls. */
export function createLockCalls({ ask }: Client): LockCalls {
  const of = (projectId: string | null): string =>
    projectId === null ? 'api/lock' : `api/projects/${encodeURIComponent(projectId)}/lock`
  return {
    list: (projectId, signal) =>
      ask('GET', `api/locks?${new URLSearchParams({ kind: 'all', ...(projectId !== null && { projectId }) })}`, {
        signal
      }),
    lock: async (projectId, body) => (await ask<{ lock: ListedLock }>('PUT', of(projectId), { body })).lock,
    unlock: async ({ projectId }, takeOver) =>
      void (await ask('DELETE', of(projectId), { body: takeOver === null ? {} : { takeOver } })),
    maintain: async (projectId, body) =>
      void (await ask('PUT', `api/projects/${encodeURIComponent(projectId)}/maintenance`, { body }))
  }
}
