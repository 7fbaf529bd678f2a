/*
 * The plan of a deployment: what it would do to the target, and what would stop it. `POST /api/deploy/plan` answers it.
 * Nothing is changed by a plan. An upload that names its id is held to it (core/install/expected.ts).
 */

import type { Instant } from './scalars.js'
import type { DeploymentStatus, RanScript } from './deployment.js'
import type { Project } from './project.js'
import type { Policy } from './policy.js'

/** The kinds of paths of a plan. */
export const planKinds = [
  'added',
  'changed',
  'timeOnly',
  'unchanged',
  'kept',
  'pruned',
  'drifted',
  'foreign',
  'unowned',
  'protected',
  'conflicts'
] as const
/** A kind of paths of a plan. */
export type PlanKind = (typeof planKinds)[number]

/** The number of paths of each kind. */
export type PlanCounts = Record<PlanKind, number>

/** A file that a deployment put in place and that somebody has edited or removed since. @schema DriftedFile */
export interface DriftedFile {
  path: string
  /** The SHA-256 of the file that the deployment put in place. */
  owned: string
  /** The SHA-256 of the file that is there now; null if it was removed, or is no file. */
  found: string | null
  /** The modification time of the file that is there now. */
  mtime: Instant | null
  /** The size of the file that is there now, in bytes. */
  size: number | null
  /** The deployment that put the file in place. */
  since: string
  /** Whether the archive contains the path. */
  overwritten: boolean
}

/** A file that svc did not put there and that the archive does not contain. */
export interface UnownedFile {
  path: string
  /** In bytes. */
  size: number
}

/** Such a file that a glob of the policy `protect` holds back. */
export interface ProtectedFile extends UnownedFile {
  glob: string
}

/** An entry of the target that a deployment cannot replace. */
export interface PlanConflict {
  path: string
  /** The error code of the deployment. */
  code: string
  message: string
}

/** The paths of a plan by kind, at most as many as were asked for. */
export interface PlanPaths {
  added: string[]
  /** The contents, the type or the permissions differ. */
  changed: string[]
  /** Only the modification time differs. */
  timeOnly: string[]
  unchanged: string[]
  /** svc put them there, and the new archive does not contain them. They stay. */
  kept: string[]
  /** The new archive does not contain them, and they are removed. */
  pruned: string[]
  /** svc put them there, and they were edited or removed since. */
  drifted: DriftedFile[]
  /** svc did not put them there, and they would be replaced by other contents. */
  foreign: string[]
  /** Files among `pruned` that svc did not put there. Empty unless `prune` is `foreign`. */
  unowned: UnownedFile[]
  /**
   * Files that svc did not put there, and that stay because of a glob of the policy `protect`. Empty like `unowned`.
   */
  protected: ProtectedFile[]
  /** Entries of the target that are in the way. */
  conflicts: PlanConflict[]
  /** Whether some lists are incomplete. */
  truncated: boolean
}

/** Names of the checks of a plan. */
export const planCheckNames = [
  'target_writable',
  'entries_owned_by_others',
  'same_file_system',
  'space_target',
  'inodes',
  'space_home',
  'upload_limit',
  'entry_limit',
  'prune_limit',
  'edited_files',
  'before_limit',
  'group',
  'client_scripts_allowed',
  'not_locked',
  'token',
  'clock'
] as const

/** A check of a plan. */
export interface PlanCheck {
  name: (typeof planCheckNames)[number]
  ok: boolean
  /** The error code with which the deployment would fail. */
  code?: string
  message?: string
  /** The paths that the check failed for, at most ten. */
  paths?: string[]
}

/** Sizes of a plan in bytes. */
export interface PlanBytes {
  /** Size of the files that would be added or replaced. */
  changed: number
  /** Size of all files of the archive. */
  extracted: number
  /** Space that the deployment needs in the target until it has finished. */
  diskNeeded: number
  /** Free space in the target; null if unknown. */
  diskFree: number | null
}

/** A script that would run, the one of `onFailure` only after a failure. */
export interface PlannedScript extends Pick<RanScript, 'step' | 'source' | 'async'> {
  /** The SHA-256 of the script. */
  sha256: string
  /** Whether the client's own script would be ignored. */
  clientIgnored: boolean
}

/** What the server knows of the files in a target: from its records, not yet, or nothing. */
export type Baseline = 'owned' | 'building' | 'none'

/**
 * Whether a deployment removes owned files that it does not contain; `force` does so however many they are, and
 * `foreign` also removes what svc did not put there.
 */
export const pruneWishes = ['off', 'managed', 'force', 'foreign'] as const
/** Whether a deployment removes owned files that it does not contain. */
export type PruneMode = (typeof pruneWishes)[number]

/** The answer to a request for a plan. @schema Plan */
export interface PlanAnswer {
  success: true
  project: Pick<Project, 'id' | 'name' | 'env'>
  /** Names the plan in an upload. Null if the comparison is incomplete. */
  planId: string | null
  /** Time until which the server keeps the plan. */
  expiresAt: Instant | null
  /** Whether the comparison took too long: counts and lists are incomplete. */
  partial: boolean
  /** The SHA-256 of the tree. */
  treeSha256: string
  /** What the server knows of the files that svc put into the target. */
  baseline: Baseline
  /** The deployment whose files are in the target. */
  live: PlanLive | null
  counts: PlanCounts
  bytes: PlanBytes
  paths: PlanPaths
  checks: PlanCheck[]
  /**
   * Whether files of svc that the archive does not contain are removed: `force` does so however many they are, and
   * `foreign` also removes what svc did not put there.
   */
  prune: PruneMode
  /** The scripts that would run, `onFailure` only after a failure. */
  scripts: PlannedScript[]
  queue: {
    /** The deployment of the project that is running. */
    running: string | null
    /** Number of queued deployments of the project. */
    waiting: number
    /** What the queue waits for, and what to do, if that waits itself; null: it ends by itself. */
    ahead: string | null
  }
  limits: { maxUploadBytes: number; maxExtractedBytes: number }
}

/** The deployment whose files are in the target. */
export interface PlanLive {
  deployId: string
  status: DeploymentStatus
  message: string | null
  treeSha256: string | null
  at: Instant
}

/** The files in a target that were edited or removed since svc put them there. @schema DriftReport */
export interface DriftReport {
  success: true
  /** What the server knows of the files that svc put into the target. */
  baseline: Baseline
  /** Whether the comparison ended early: the list is incomplete. */
  partial: boolean
  /** Why the target cannot be read; null if it can. */
  problem: string | null
  /** Number of edited and removed files. */
  count: number
  /** At most 10,000. */
  files: Array<Omit<DriftedFile, 'overwritten'>>
}

/** Returns whether a plan would change anything in the target. */
export function changesAnything({ added, changed, timeOnly, pruned }: PlanCounts): boolean {
  return added + changed + timeOnly + pruned > 0
}

/* What a rollback or an undo would do. Nothing is changed by such a plan. */

/**
 * The plan of a rollback or an undo. In exact mode, `added`, `changed` and `timeOnly` are brought back, `pruned` is
 * removed, and `drifted` was edited on the server: it stays unless the request forces it back.
 * @schema RollbackPlan
 */
export interface RollbackPlan {
  success: true
  mode: Policy['rollback']
  /** The deployment whose files would be in the target; null: the state before the first one. */
  to: PlanLive | null
  /** Number of deployments that would be undone; 0 for an overlay. */
  over: number
  /** Whether the comparison ended early: counts and lists are incomplete. */
  partial: boolean
  baseline: Baseline
  counts: PlanCounts
  /** `added`, `changed` and `timeOnly` are brought back, `pruned` are removed. */
  paths: PlanPaths
  bytes: PlanBytes
  checks: PlanCheck[]
  /** Why the rollback would be refused; null if it would not. */
  problem: { code: string; message: string } | null
}

/** How far a project can go back exactly. */
export interface ExactWindow {
  /** The deployment that an undo would take back. */
  undo: { deployId: string; message: string | null } | null
  /**
   * The oldest state that can be restored exactly, after this deployment (null: before the first one), and the number
   * of steps to it.
   */
  exactBackTo: { deployId: string | null; steps: number } | null
}

/* The results of a verification: what svc put into a target, compared with the target. */

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
