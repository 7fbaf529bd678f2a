/*
 * Results of deployments, even while the database is not writable. A result that cannot be recorded is kept in memory,
 * where it takes precedence over the record. It is written as soon as a write succeeds. If the server is killed before
 * that, the result is lost, and the next start derives it from the files on disk (recovery.ts).
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '../base/errors.js'
import { type DeploymentRow, failedStep, isRevertPending } from '../model/deployment.js'
import { findProject } from '../core/store/tables/projects.js'
import { endJournal, removeJournal } from '../core/install/unpack/extract.js'
import { isInScope } from '../model/access.js'
import { type AuditEvent, systemActor } from '../model/audit.js'
import { changes } from '../model/changes.js'
import type { Readers } from '../model/readers.js'
import { writeChanges } from '../base/shared/audit-changes.js'
import type { Reader, Transaction } from '../core/store/database.js'
import {
  ageOfDeployment,
  countDeployments,
  type DeploymentAge,
  type DeploymentFilter,
  findDeployment,
  listDeployments,
  newerFirst,
  newestOfEvery
} from '../core/store/tables/deployments.js'
import { oweReceipt } from '../core/store/tables/receipts.js'
import type { DeployNeeds } from './needs.js'
import type { Output } from './output/output.js'
import { moveRecord, type Outcome } from './record.js'

/** Records the results of deployments. */
export type Ends = ReturnType<typeof createEnds>

interface Kept {
  end: DeploymentRow
  outcome: Outcome
  reason: string
}

export type EndsNeeds = Pick<
  DeployNeeds,
  'store' | 'home' | 'log' | 'ended' | 'auditWithin' | 'endRetriesMs' | 'receipts'
>

/** What the entry of a result says. */
type Ended = Pick<DeploymentRow, 'status' | 'revertReason'> & { step: string | null; commit: string | null }

const endReaders: Readers<Ended> = {
  fields: { status: 'everybody', step: 'everybody', revertReason: 'everybody', commit: 'everybody' }
}

/** Returns the audit entry of a result. */
function endEvent(row: DeploymentRow): AuditEvent {
  const { id, projectId, status, revertReason, provenance } = row
  const step = status === 'failed' ? (failedStep(row.steps)?.name ?? null) : null
  const ended = { status, step, revertReason, commit: provenance?.commit ?? null }
  const detail = writeChanges('', changes<Ended>(null, ended, endReaders))
  return { action: 'deployment.end', actor: systemActor, projectId, target: id, detail, ok: status === 'success' }
}

/**
 * Waits between attempts. A full disk may have space again soon, and a result should be recorded before it is reported.
 */
const defaultRetriesMs = [100, 1_000, 5_000, 15_000]
/** Time between attempts to write what is kept. */
const keptRetryMs = 15_000

/** Creates the recorder of results. */
export function createEnds({
  store,
  home,
  log,
  ended = () => {},
  auditWithin = () => {},
  endRetriesMs = defaultRetriesMs,
  receipts
}: EndsNeeds) {
  const kept = new Map<string, Kept>()
  const incomplete = new Set<Output>()
  let settling: Promise<void> | null = null
  let timer: NodeJS.Timeout | undefined

  async function write(end: DeploymentRow, { status, cause }: Outcome): Promise<DeploymentRow> {
    const also = (tx: Transaction, row: DeploymentRow): void => {
      auditWithin(tx, endEvent(row))
      if (receipts !== undefined) oweReceipt(tx, row)
    }
    const row = (await moveRecord({ store }, end.id, { to: status, cause, patch: end, also })) ?? end
    ended(row)
    const target = findProject(store, row.projectId)?.deployPath
    // If the journal cannot be removed, the next start finds that the record is already complete.
    if (row.revertedAt !== null) await removeJournal(home, row.id).catch(() => {})
    else if (row.placed !== null && target !== undefined && !isRevertPending(row))
      await endJournal(home, { deployId: row.id, target }).catch(() => {})
    return row
  }

  async function record(end: DeploymentRow, outcome: Outcome): Promise<DeploymentRow> {
    for (const waitMs of [...(outcome.cause === 'restart' ? [] : endRetriesMs), null]) {
      try {
        return await write(end, outcome)
      } catch (error) {
        log(`Cannot record the result of deployment ${end.id} (${outcome.status})`, error)
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
        log(`Cannot record the result of deployment ${id} (${outcome.status})`, error)
      })
      kept.delete(id)
    }
    if (incomplete.size > 0) retryLater()
  }

  function settle(): Promise<void> {
    return (settling ??= writeKept().finally(() => (settling = null)))
  }

  return {
    /**
     * Records a result. Resolves with the record once it is written, or kept in memory after a few attempts. At a start,
     * which must not wait, it is kept after the first attempt. Never rejects.
     */
    record,
    /** Writes the kept results in order. Throws the error of the first write that fails. */
    settle,
    /** Returns the record, with its result if that is still kept in memory. */
    current: (row: DeploymentRow): DeploymentRow => kept.get(row.id)?.end ?? row,
    /** Returns the results that are kept in memory. */
    kept: (): DeploymentRow[] => [...kept.values()].map(({ end }) => end),

    /** Returns why the result of a deployment is not recorded yet, as a sentence, or null if none is kept. */
    unrecorded(deployId: string): string | null {
      const reason = kept.get(deployId)?.reason
      return reason === undefined
        ? null
        : `the result of this deployment is not recorded yet: ${reason}; svc keeps trying`
    },

    /** Registers an output that is not completely written. Its missing lines are written as soon as possible. */
    complete(output: Output): void {
      incomplete.add(output)
      retryLater()
    }
  }
}

/**
 * Whether the store refuses every write for now. Any other error would repeat forever and block the results after it.
 * The result of a hub that is not the leader any more is not kept: the next leader decides about the deployment.
 */
function isPassing(error: unknown): boolean {
  return error instanceof Refusal && error.kind === 'unavailable' && error.code !== 'not_leader'
}

/** Filter and page of a list of deployments. */
export type ListQuery = DeploymentFilter & { limit: number; before?: string | undefined }

/** Lists of deployments that include results which are not recorded yet. */
export type ListedDeployments = ReturnType<typeof createListed>

/** Creates the lists. `ends` contains the results that are not recorded yet. */
export function createListed(db: Reader, ends: Pick<Ends, 'current' | 'kept'>) {
  /** Returns the kept results that still have a record, with that record. */
  function kept(): Array<{ was: DeploymentRow; end: DeploymentRow }> {
    return ends.kept().flatMap(end => {
      const was = findDeployment(db, end.id)
      return was === undefined ? [] : [{ was, end }]
    })
  }

  return {
    find(deployId: string): DeploymentRow | undefined {
      const row = findDeployment(db, deployId)
      return row === undefined ? undefined : ends.current(row)
    },

    /** See `listDeployments` of the store. */
    list({ before, ...query }: ListQuery): DeploymentRow[] {
      const rows = listDeployments(db, { ...query, ...(before !== undefined && { before }) })
      const ageOf = (id: string): DeploymentAge => ageOfDeployment(db, id) ?? { orderedAt: '', position: 0 }
      const end = before === undefined ? null : ageOf(before)
      const added = kept()
        .map(({ end }) => end)
        .filter(row => {
          return (
            query.status !== undefined &&
            !query.newest &&
            isMatch(row, query) &&
            (end === null || newerFirst(ageOf(row.id), end) > 0)
          )
        })
      if (added.length === 0) return rows.map(ends.current).filter(row => isMatch(row, query))
      const all = [...rows.map(ends.current).filter(row => isMatch(row, query)), ...added]
      return all
        .map(row => ({ row, age: ageOf(row.id) }))
        .sort((a, b) => newerFirst(a.age, b.age))
        .slice(0, query.limit)
        .map(({ row }) => row)
    },

    /** See `newestOfEvery` of the store. */
    newestOfEvery: (wanted: Parameters<typeof newestOfEvery>[1]): string[] => newestOfEvery(db, wanted),

    /** See `countDeployments` of the store. */
    count(filter: DeploymentFilter): number {
      const counted = (row: DeploymentRow): number => Number(isMatch(row, filter))
      return kept().reduce((total, { was, end }) => total + counted(end) - counted(was), countDeployments(db, filter))
    }
  }
}

function isMatch(
  row: DeploymentRow,
  { projectId, projects, status, branch, commit, traceId }: DeploymentFilter
): boolean {
  const { provenance } = row
  return (
    (projectId === undefined || row.projectId === projectId) &&
    isInScope(projects, row.projectId) &&
    (status === undefined || row.status === status) &&
    (traceId === undefined || row.traceId === traceId) &&
    (branch === undefined || provenance?.branch === branch) &&
    (commit === undefined || provenance?.commit?.startsWith(commit) === true)
  )
}
