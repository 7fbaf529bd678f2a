import { actorText, type WaitingFor } from '../base/shared/api.js'
import type { Instant } from './scalars.js'
import type { Approval } from './policy.js'

/*
 * Locks refuse deployments for a limited time. A lock always expires, so that a forgotten one cannot block a project
 * forever, and a deployment holds no lock (the queue orders deployments), so that a failed one leaves none behind.
 */

/** The kinds of locks. A project, and the server, has at most one of each. */
export const lockKinds = ['lock'] as const
/** The kind of a lock. */
export type LockKind = (typeof lockKinds)[number]

/** A lock of a project or of the whole server. */
export interface Lock {
  /** The locked project. Null means that the whole server is locked. */
  projectId: string | null
  kind: LockKind
  /** The caller that placed the lock, as in the audit log. */
  owner: string
  reason: string
  createdAt: Instant
  expiresAt: Instant
}

/** A lock in a list. @schema Lock */
export interface ListedLock extends Lock {
  /** Null if the whole server is locked. */
  projectName: string | null
}

/** Returns the owner of a lock or a maintenance as texts name it. A deploy token owns only what concerns its project. */
export function ownerWords(owner: string, projectName: string | null): string {
  return actorText(owner, () => projectName ?? undefined)
}

/** Returns the sentence that says who has locked what, why and until when. */
export function lockSentence({ owner, reason, expiresAt }: Lock, projectName: string | null): string {
  const what = projectName === null ? 'The server' : `Project ${projectName}`
  return `${what} is locked by ${ownerWords(owner, projectName)} until ${minuteOf(expiresAt)}: "${reason}"`
}

/** `2026-11-23T18:00:12.345Z` → `2026-11-23 18:00 UTC`. */
function minuteOf(instant: string): string {
  return `${instant.slice(0, 16).replace('T', ' ')} UTC`
}

/*
 * The maintenance of a project: one file in its target, which the web server looks for (docs/maintenance.md). It does
 * not refuse deployments, and it has no expiry, because nothing would tell the web server.
 */

/** The maintenance of a project, as the API shows it. @schema Maintenance */
export interface Maintenance {
  /** When it began, as ISO text. */
  since: Instant
  /** The caller that began it, as in the audit log. */
  by: string
  reason: string | null
}

/** The stored maintenance of a project, with what is needed to recognize its file. */
export interface MaintenanceRow extends Maintenance {
  projectId: string
  /** The file, relative to the target. */
  path: string
  /** The contents that svc gave it. */
  sha256: string
}

/** A maintenance in a list of locks. @schema ListedMaintenance */
export interface ListedMaintenance extends Omit<ListedLock, 'projectId' | 'kind' | 'owner' | 'reason' | 'expiresAt'> {
  projectId: string
  kind: 'maintenance'
  /** The caller that began it, as in the audit log. */
  owner: string
  reason: string | null
  /** A maintenance does not expire. */
  expiresAt: null
}

/** The kinds of `GET /api/locks`. */
export const listedLockKinds = ['lock', 'maintenance', 'all'] as const

/** Returns the maintenance as the API shows it. */
export function shownMaintenance({ since, by, reason }: MaintenanceRow): Maintenance {
  return { since, by, reason }
}

/** A deployment or a rollout that waits for somebody's decision. @schema Waiting */
export interface Waiting {
  /**
   * `confirmation` of a deployment, `approval` of a deployment or of the next wave of a rollout, its time (`schedule`), or the
   * end of a `halted` rollout.
   */
  for: WaitingFor
  projectId: string
  projectName: string
  /** The deployment, also of a rollout. */
  deployId: string
  /** The rollout that waits; null: the deployment does. */
  rolloutId: string | null
  since: Instant
  /** When it ends without a decision; null: it does not. */
  until: Instant | null
  /** The named token that started the deployment. */
  tokenId: string | null
  /** The rules of its approval; null: it does not wait for one. */
  approval: Pick<Approval, 'roles' | 'notPusher'> | null
}

/** What lists of projects show beside their status. @schema Marks */
export interface Marks {
  /** What waits for somebody, the longest wait first. */
  waiting: Waiting[]
  /** The locks in force, and the projects in maintenance. */
  locks: Array<ListedLock | ListedMaintenance>
  /** The projects whose last post-deploy script failed in the background. */
  failedInBackground: string[]
  /** The projects on nodes. */
  placed: PlacedProject[]
}

/** A project on nodes, in short. */
export interface PlacedProject {
  projectId: string
  /** The first node by name. */
  first: string
  /** The number of nodes. */
  nodes: number
}
