import type { Baseline, PlanBytes, PlanCheck, PlanCounts, PlanLive, PlanPaths } from './plan.js'
import type { rollbackModes } from './policy.js'

/** What a rollback does. */
export type RollbackMode = (typeof rollbackModes)[number]

/** What a rollback would do. Nothing is changed. */
export interface RollbackPlan {
  success: true
  mode: RollbackMode
  /** The deployment after which the target was in the state to return to; null: before the first one. */
  to: PlanLive | null
  /** Number of deployments that are undone. */
  over: number
  /** Whether the comparison ended early: counts and lists are incomplete. */
  partial: boolean
  baseline: Baseline
  /** `added`, `changed` and `timeOnly` are brought back, `pruned` are removed, `drifted` were edited since. */
  counts: PlanCounts
  paths: PlanPaths
  bytes: PlanBytes
  checks: PlanCheck[]
  /** Why the rollback would be refused; null: it would not. */
  problem: { code: string; message: string } | null
  /** What cannot be restored exactly. */
  loses: Array<{ path: string; what: string[] }>
}

/** How far a project can go back exactly. */
export interface ExactWindow {
  /** The deployment that an undo would undo; null: it cannot be undone exactly. */
  undo: { deployId: string; message: string | null } | null
  /** The oldest deployment whose state can be restored, and the number of deployments since. */
  exactBackTo: { deployId: string; steps: number } | null
}
