/* What a simulated history of a fleet reports, and what its hub has on its disk. */
import type { Machine } from '../../lib/fleet/machine.js'
import type { Rollout, RolloutNode } from '../../lib/model/rollout.js'

/** The result of a history. An empty list of what was broken is good. */
export interface SimulationReport {
  rollouts: number
  /** Number of rollouts that ended in each state; `replaced`: the next one began before all nodes had answered. */
  ends: Record<string, number>
  messages: number
  lost: number
  doubled: number
  partitions: number
  crashes: number
  hubCrashes: number
  /** What users did: resumes, reverts, drained, placed and removed nodes. */
  actions: number
  restores: number
  clockSteps: number
  missingDisks: number
  copies: number
  /** Nodes that were set back to snapshots. */
  setBacks: number
  broken: readonly string[]
  /** Virtual hours. */
  hours: number
}

/** Counts of rare faults. */
export const noFaults = () => ({ restores: 0, clockSteps: 0, missingDisks: 0, copies: 0, setBacks: 0 })

/** What the hub has on its disk. */
export interface Backup {
  rollout: Rollout
  rows: RolloutNode[]
  /** The number of the rollout in its project. */
  rank: number
}

/** Returns the rows of a rollout. */
export function rowsOf({ rollout, nodes }: Machine): Omit<Backup, 'rank'> {
  return { rollout: structuredClone(rollout), rows: [...nodes].map(row => ({ ...row })) }
}
