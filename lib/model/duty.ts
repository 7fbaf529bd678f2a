/* What a node knows about the rollouts of a project, and has done for them. `fleet/duty.ts` has the rules. */
import type { OrderAction } from './rollout.js'

/** An order as it reaches a node. */
export interface NodeOrder {
  /** The history of the hub's database that numbers belong to; empty: of before histories had names. */
  epoch: string
  rolloutId: string
  /** The number of the rollout in its project. */
  number: number
  attempt: number
  action: OrderAction
}

/** What a node knows about the newest rollout of a project, and has done for it. */
export interface DutyState extends NodeOrder {
  hasPrepared: boolean
  /** What became of the release here. `none`: the earlier files are in place, and nothing was tried. */
  outcome: 'none' | 'refused' | 'begun' | 'good' | 'failed' | 'stuck' | 'reverting' | 'reverted'
  /** The order that `outcome` is the result of. */
  doneAttempt: number
  error: string | null
}

/** What an agent keeps about the newest rollout of a project. */
export interface Duty {
  projectId: string
  /** The node for which the hub gave the order: an agent may be enrolled again, also by another hub. */
  nodeId: string
  /** Whether the project is not placed here any more: only the last order is kept, so that none before it is obeyed. */
  isRemoved: boolean
  state: DutyState
  /** The state before the work began that `state.outcome` is about; null: no work has begun. */
  before: DutyState | null
  /** The release, as the order says. */
  release: {
    /** The deployment of the hub. */
    deployId: string
    treeSha256: string
    archiveSha256: string
    archiveBytes: number
  }
  /** The deployment of the node that puts the release in place; null: there is none yet. */
  swapId: string | null
  /** The deployment of the node that undoes `swapId`; null: there is none yet. */
  undoId: string | null
  /** What the last work ended with, for the hub. */
  failedStep: string | null
  output: string | null
  tookMs: number | null
}
