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

/** Sums over several histories. */
export function createSums() {
  const ends: Record<string, number> = {}
  const users = { rollouts: 0, messages: 0, lost: 0, doubled: 0, partitions: 0, crashes: 0, hubCrashes: 0, actions: 0 }
  const sums = { ...users, ...noFaults() }
  return {
    ends,
    sums,
    add(report: SimulationReport): void {
      for (const [end, count] of Object.entries(report.ends)) ends[end] = (ends[end] ?? 0) + count
      for (const key of Object.keys(sums) as Array<keyof typeof sums>) sums[key] += report[key]
    }
  }
}

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
