import type { ListedLock } from '../../lib/model/lock.js'
import type { Client } from './client.js'

/** A lock to place. */
export interface NewLock {
  reason: string
  seconds: number
}

/** The API of locks. Each function rejects as `Client.ask` does. */
export interface LockCalls {
  /** Returns the locks in force; with `projectId`, those that refuse deployments of that project. */
  list(projectId: string | null, signal?: AbortSignal): Promise<readonly ListedLock[]>
  lock(projectId: string, lock: NewLock): Promise<ListedLock>
  /** Removes a lock. `takeOver` is the reason to remove the lock of another owner. */
  unlock(lock: Pick<ListedLock, 'projectId'>, takeOver: string | null): Promise<void>
}

/** Creates the calls. */
export function createLockCalls({ ask }: Client): LockCalls {
  const of = (projectId: string | null): string =>
    projectId === null ? 'api/lock' : `api/projects/${encodeURIComponent(projectId)}/lock`
  return {
    list: (projectId, signal) =>
      ask('GET', `api/locks${projectId === null ? '' : `?${new URLSearchParams({ projectId })}`}`, { signal }),
    lock: async (projectId, body) => (await ask<{ lock: ListedLock }>('PUT', of(projectId), { body })).lock,
    unlock: async ({ projectId }, takeOver) =>
      void (await ask('DELETE', of(projectId), { body: takeOver === null ? {} : { takeOver } }))
  }
}
