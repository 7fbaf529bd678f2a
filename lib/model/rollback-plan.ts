/* What a rollback or an undo would do. Nothing is changed by such a plan. */
import type { Baseline, PlanBytes, PlanCheck, PlanCounts, PlanLive, PlanPaths } from './plan.js'
import type { Policy } from './policy.js'

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
