import type { Clock } from '../base/clock.js'
import { notFound, Refusal } from '../base/errors.js'
import type { Actor, AuditEvent } from '../model/audit.js'
import { lockSentence, type ListedLock, type Lock } from '../model/lock.js'
import type { Project } from '../model/project.js'
import type { Reader, Store, Transaction } from '../store/database.js'
import { deleteExpiredLocks, deleteLock, findLock, insertLock, listLocks, locksOn } from '../store/tables/locks.js'
import { findProject } from '../store/tables/projects.js'

/** Identifies a lock. A null `projectId` means the whole server. */
export type LockPlace = Pick<Lock, 'projectId' | 'kind'>

/** A lock as a caller asks for it. */
export interface LockRequest extends LockPlace {
  reason: string
  seconds: number
  /** Replaces the reason and the end of the caller's own lock. */
  renew: boolean
  actor: Actor
}

/** The removal of a lock. */
export interface UnlockRequest extends LockPlace {
  actor: Actor
  /** Whether the caller may remove the lock of another owner. */
  mayTakeOver: boolean
  /** Why the caller removes the lock of another owner. */
  takeOver: string | null
}

/** Places and removes locks. Audited. */
export interface Locks {
  /** Returns the locks in force. With `projectId`, only those that refuse deployments of that project. */
  list(projectId?: string): ListedLock[]
  /** Refuses: 404, 409 `locked` if there is one of this kind, unless `renew` replaces the caller's own. */
  lock(request: LockRequest): Promise<ListedLock>
  /** Returns the removed lock. Refuses: 404, 403 `other_owner`. */
  unlock(request: UnlockRequest): Promise<ListedLock>
}

/** Creates the locks of a server. */
export function createLocks(needs: {
  store: Store
  clock: Clock
  audit: { within(tx: Transaction, event: AuditEvent): void }
}): Locks {
  const { store, clock, audit } = needs
  const now = (): string => new Date(clock.now()).toISOString()

  return {
    list(projectId) {
      const locks = projectId === undefined ? listLocks(store, now()) : locksOn(store, projectId, now())
      return locks.map(lock => ({ ...lock, projectName: nameOf(store, lock.projectId) }))
    },

    lock: ({ projectId, kind, reason, seconds, renew, actor }) =>
      store.write(tx => {
        const projectName = nameOf(tx, projectId)
        deleteExpiredLocks(tx, now())
        const before = findLock(tx, { projectId, kind })
        if (before !== undefined) {
          if (!renew || before.owner !== actor.name) throw locked(before, projectName, clock.now())
          deleteLock(tx, before)
        }
        const expiresAt = new Date(clock.now() + seconds * 1000).toISOString()
        const lock: Lock = {
          projectId,
          kind,
          owner: actor.name,
          reason,
          createdAt: before?.createdAt ?? now(),
          expiresAt
        }
        insertLock(tx, lock)
        audit.within(tx, {
          action: actionOf(lock, 'lock'),
          actor,
          projectId,
          target: projectId,
          detail: before === undefined ? `until ${expiresAt}: ${reason}` : `renewed until ${expiresAt}: ${reason}`
        })
        return { ...lock, projectName }
      }),

    unlock: ({ projectId, kind, actor, mayTakeOver, takeOver }) =>
      store.write(tx => {
        const projectName = nameOf(tx, projectId)
        deleteExpiredLocks(tx, now())
        const lock = findLock(tx, { projectId, kind })
        if (lock === undefined) throw notFound('Lock', projectId ?? 'server')
        const isOwn = lock.owner === actor.name
        if (!isOwn && !(mayTakeOver && takeOver !== null)) throw otherOwner(lock, mayTakeOver)
        deleteLock(tx, lock)
        audit.within(tx, {
          action: actionOf(lock, 'unlock'),
          actor,
          projectId,
          target: projectId,
          detail: isOwn ? null : `taken over from ${lock.owner} ("${lock.reason}"): ${takeOver}`
        })
        return { ...lock, projectName }
      })
  }
}

/** Throws 409 `locked` if the project, or the server, is locked. */
export function refuseLocked(db: Reader, { id, name }: Pick<Project, 'id' | 'name'>, nowMs: number): void {
  const [lock] = locksOn(db, id, new Date(nowMs).toISOString())
  if (lock !== undefined) throw locked(lock, lock.projectId === null ? null : name, nowMs)
}

function locked(lock: Lock, projectName: string | null, nowMs: number): Refusal {
  const retryAfterSeconds = Math.max(1, Math.ceil((Date.parse(lock.expiresAt) - nowMs) / 1000))
  return new Refusal('conflict', 'locked', lockSentence(lock, projectName), { retryAfterSeconds })
}

function otherOwner({ owner, reason }: Lock, mayTakeOver: boolean): Refusal {
  const advice = mayTakeOver
    ? 'To remove it, say why in "takeOver" (svc unlock --take-over)'
    : 'Only its owner, or who has no deploy token, can remove it'
  return new Refusal('forbidden', 'other_owner', `The lock belongs to ${owner} ("${reason}"). ${advice}`)
}

/** Returns the name of a project, or null for the whole server. Refuses: 404. */
function nameOf(db: Reader, projectId: string | null): string | null {
  if (projectId === null) return null
  const project = findProject(db, projectId)
  if (project === undefined) throw notFound('Project', projectId)
  return project.name
}

function actionOf({ projectId }: Lock, verb: 'lock' | 'unlock'): string {
  return `${projectId === null ? 'server' : 'project'}.${verb}`
}
