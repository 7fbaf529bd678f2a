/*
 * Locks refuse deployments for a limited time. A lock always expires, so that a forgotten one cannot block a project
 * forever, and a deployment holds no lock (the queue orders deployments), so that a failed one leaves none behind.
 */
import type { Instant } from './scalars.js'

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

/** Returns the sentence that says who has locked what, why and until when. */
export function lockSentence({ owner, reason, expiresAt }: Lock, projectName: string | null): string {
  const what = projectName === null ? 'The server' : `Project ${projectName}`
  return `${what} is locked by ${owner} until ${minuteOf(expiresAt)}: "${reason}"`
}

/** `2026-11-23T18:00:12.345Z` → `2026-11-23 18:00 UTC`. */
function minuteOf(instant: string): string {
  return `${instant.slice(0, 16).replace('T', ' ')} UTC`
}
