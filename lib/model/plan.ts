/*
 * The plan of a deployment: what it would do to the target, and what would stop it. `POST /api/deploy/plan` answers it.
 * Nothing is changed by a plan. An upload that names its id is held to it (install/expected.ts).
 */
import type { Instant } from './scalars.js'
import type { DeploymentStatus, RanScript } from './deployment.js'
import type { Project } from './project.js'

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
