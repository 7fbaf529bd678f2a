/* The results of a verification: what svc put into a target, compared with the target. */
import type { Instant } from './scalars.js'
import type { Baseline } from './plan.js'
import type { ExactWindow } from './rollback-plan.js'

/** How an entry differs from what svc put there. `changed`: other contents; `mode`: only other permission bits, or another group. */
export const findingStates = ['changed', 'missing', 'other_type', 'mode'] as const
/** How an entry differs from what svc put there. */
export type FindingState = (typeof findingStates)[number]

/** The totals of a verification. */
export interface VerifyTotals {
  files: number
  ok: number
  changed: number
  missing: number
  otherType: number
  mode: number
  /** Whether a deployment was in progress, or changed the target meanwhile: the findings may be its files. */
  isOutdated: boolean
}

/** A line of the answer to `GET /api/projects/:id/verify`. */
export type VerifyEvent =
  | { event: 'start'; files: number; baseline: Baseline }
  | { event: 'progress'; done: number; files: number }
  /** `since` is the deployment that put the entry there. */
  | { event: 'finding'; path: string; state: FindingState; since: string }
  /** A regular file, with the SHA-256 that svc put there. */
  | { event: 'file'; path: string; sha256: string }
  | ({ event: 'end' } & VerifyTotals)

/** What svc owns in the target of a project: the answer to `GET /api/projects/:id/tree`. @schema TreeSummary */
export interface TreeSummary extends ExactWindow {
  success: true
  /** What the server knows of the files that svc put into the target. */
  baseline: Baseline
  /** Number of files and symbolic links. */
  files: number
  bytes: number
  /** The last deployment whose files are in the target. */
  liveId: string | null
  /** The SHA-256 of the tree of these files. */
  treeSha256: string | null
  /** The last verification of these files. Null after a deployment or a restart. */
  verified: { at: Instant; differing: number } | null
  /** The last search for edited files. Null after a deployment or a restart. */
  drift: { at: Instant; count: number } | null
}
