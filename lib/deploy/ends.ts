/*
 * The ends of deployments, also while the database cannot be written: an end that cannot be recorded is kept in memory,
 * where it counts as the record, and is written as soon as a write succeeds. A server that is killed before that has lost
 * it; its next start says what the disk shows (recovery.ts).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '../base/refusal.js'
import type { DeploymentRow } from '../model/deployment.js'
import { findProject } from '../store/tables/projects.js'
import { endJournal } from './extract.js'
import type { DeployNeeds } from './needs.js'
import type { Output } from './output.js'
import { moveRecord, type Outcome } from './record.js'

export interface Ends {
  /**
   * Records an end; resolves with the record when that is done, or kept: after a few attempts, or, at a start, which waits
   * for nothing, at once. Never rejects.
   */
  record(end: DeploymentRow, outcome: Outcome): Promise<DeploymentRow>
  /** A record as it is in truth: its end, if that is kept. */
  current(row: DeploymentRow): DeploymentRow
  /** The ends that are kept. */
  kept(): DeploymentRow[]
  /** Why the end of a deployment is not recorded yet, as a sentence; null: nothing is kept of it. */
  unrecorded(deployId: string): string | null
  /** Writes what is kept, in order. Throws what the first write that failed was refused with. */
  settle(): Promise<void>
  /** An output that could not be written whole: what is missing is written as soon as it can be. */
  complete(output: Output): void
}

interface Kept {
  end: DeploymentRow
  outcome: Outcome
  reason: string
}

export type EndsNeeds = Pick<DeployNeeds, 'store' | 'home' | 'log' | 'ended' | 'endRetriesMs'>

/** A full disk may have room again a moment later, and an end that is recorded before it is told is worth the wait. */
const defaultRetriesMs = [100, 1_000, 5_000, 15_000]
/** How often what is kept is tried to be written. */
const keptRetryMs = 15_000

export function createEnds({ store, home, log, ended = () => {}, endRetriesMs = defaultRetriesMs }: EndsNeeds): Ends {
  const kept = new Map<string, Kept>()
  const incomplete = new Set<Output>()
  let settling: Promise<void> | null = null
  let timer: NodeJS.Timeout | undefined

  async function write(end: DeploymentRow, { status, cause }: Outcome): Promise<DeploymentRow> {
    const row = (await moveRecord({ store }, end.id, { to: status, cause, patch: end })) ?? end
    ended(row)
    const target = findProject(store, row.projectId)?.deployPath
    // If it stays, a start finds out what the record says already.
    if (row.placed !== null && target !== undefined) await endJournal(home, { deployId: row.id, target }).catch(() => {})
    return row
  }

  async function record(end: DeploymentRow, outcome: Outcome): Promise<DeploymentRow> {
    for (const waitMs of [...(outcome.cause === 'restart' ? [] : endRetriesMs), null]) {
      try {
        return await write(end, outcome)
      } catch (error) {
        log(`The end of deployment ${end.id} (${outcome.status}) could not be recorded`, error)
        if (!isPassing(error)) return end
        if (waitMs === null) kept.set(end.id, { end, outcome, reason: (error as Refusal).message })
        else await sleep(waitMs)
      }
    }
    retryLater()
    return end
  }

  function retryLater(): void {
    timer ??= setTimeout(() => {
      timer = undefined
      void settle().catch(() => retryLater())
    }, keptRetryMs).unref()
  }

  async function writeKept(): Promise<void> {
    for (const output of incomplete) {
      await output.flush().catch(() => {})
      if (output.unwritten === null) incomplete.delete(output)
    }
    for (const [id, { end, outcome }] of kept) {
      await write(end, outcome).catch(error => {
        if (isPassing(error)) throw error
        log(`The end of deployment ${id} (${outcome.status}) could not be recorded`, error)
      })
      kept.delete(id)
    }
    if (incomplete.size > 0) retryLater()
  }

  function settle(): Promise<void> {
    return (settling ??= writeKept().finally(() => (settling = null)))
  }

  return {
    record,
    settle,
    current: row => kept.get(row.id)?.end ?? row,
    kept: () => [...kept.values()].map(({ end }) => end),
    unrecorded(deployId) {
      const reason = kept.get(deployId)?.reason
      return reason === undefined ? null : `the end of this deployment is not recorded yet: ${reason}; svc goes on trying`
    },
    complete(output) {
      incomplete.add(output)
      retryLater()
    }
  }
}

/** The store refuses every write for now; anything else would be met each time, and hold up what comes after it. */
function isPassing(error: unknown): boolean {
  return error instanceof Refusal && error.kind === 'unavailable'
}
