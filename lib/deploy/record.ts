import { begunAt } from '../base/shared/api.js'
import { formatSeconds } from '../base/text.js'
import {
  type DeploymentRow,
  type DeploymentStatus,
  type DeploymentStep,
  type EventKey,
  type FinalStatus,
  isRevertPending,
  type NotificationTrigger,
  failedStep
} from '../model/deployment.js'
import type { Transaction, Reader } from '../core/store/database.js'
import {
  findDeployment,
  placeDeployment,
  setBeforeFrom,
  unplaceDeployment,
  updateDeployment,
  ageOfDeployment,
  countDeployments,
  type DeploymentAge,
  type DeploymentFilter,
  listDeployments,
  newerFirst,
  newestOfEvery
} from '../core/store/tables/deployments.js'
import { dropQueuedRelease, findQueuedRelease } from '../core/store/tables/fleet.js'
import { findProject } from '../core/store/tables/projects.js'
import { countSequence, uncountSequence } from '../core/store/tables/signing-keys.js'
import { Refusal } from '../base/errors.js'
import type { ScriptedLine } from '../model/manifest.js'
import { readScripted, sourcesOfScripted } from '../core/install/scripted-file.js'
import { summarizeManifest } from '../core/install/manifest.js'
import { type OpenExtractions, endJournal, removeJournal } from '../core/install/unpack/extract.js'
import type { DeployNeeds } from './needs.js'
import type { DeployFiles } from './files.js'
import type { LiveRun } from './output/live.js'
import { continueOutput, type Output } from './output/output.js'
import { setTimeout as sleep } from 'node:timers/promises'
import { isInScope } from '../model/access.js'
import { type AuditEvent, systemActor } from '../model/audit.js'
import { changes, type Readers } from '../model/readers.js'
import { writeChanges } from '../base/shared/audit.js'
import { oweReceipt } from '../core/store/tables/receipts.js'

/** The result of a deployment. */
export interface Outcome {
  status: FinalStatus
  cause: Cause
  /** Why it failed, or null if it succeeded. */
  errorMessage: string | null
  /** What users asked of its run (output/live.ts). What has been recorded leaves the set. */
  asked?: LiveRun['asked']
}

/** The fields of a finished deployment that is not held any more. */
export const notHeld = { heldFor: null, holdUntil: null } as const

/** Output line of a deployment that failed after its files were in place. */
export const staysSentence = 'the files of this deployment stay in place; roll back to restore earlier files'

/** Whether the files of a deployment are in its target. */
export function isExtracted(steps: readonly DeploymentStep[]): boolean {
  return steps.some(({ name, status }) => name === 'extract' && status === 'success')
}

/**
 * Updates the record of a deployment. Assigns `placed` when the steps first say that its files are in place, and
 * removes it when they were put back. Returns the updated record, or undefined if it no longer exists.
 */
export function recordProgress(
  tx: Transaction,
  deployId: string,
  patch: Partial<DeploymentRow>
): DeploymentRow | undefined {
  // Only placeDeployment assigns the number. The patch may contain an older one.
  const { placed, ...known } = patch
  if (!updateDeployment(tx, deployId, known)) return undefined
  const row = findDeployment(tx, deployId)
  if (row !== undefined && row.revertedAt !== null) {
    unplaceDeployment(tx, deployId)
    uncountSequence(tx, deployId)
  } else if (isExtracted(patch.steps ?? [])) {
    placeDeployment(tx, deployId)
    countSequence(tx, deployId)
  }
  return findDeployment(tx, deployId)
}

/**
 * Changes the status of a record together with `patch`, in one transaction. Returns undefined if it no longer exists.
 */
export function moveRecord(
  { store }: Pick<DeployNeeds, 'store'>,
  deployId: string,
  move: {
    to: DeploymentStatus
    cause: Cause
    patch?: Partial<DeploymentRow>
    /** Writes in the same transaction. */
    also?(tx: Transaction, row: DeploymentRow): void
  }
): Promise<DeploymentRow | undefined> {
  return store.write(tx => {
    const row = findDeployment(tx, deployId)
    if (row === undefined) return undefined
    assertTransition(row.status, move.to, move.cause)
    const moved = recordProgress(tx, deployId, { ...move.patch, status: move.to })
    if (row.status === 'queued' && findQueuedRelease(tx, deployId) !== undefined) dropQueuedRelease(tx, deployId)
    // On nodes nothing is extracted here. A correction by a client does not count.
    if (move.to === 'success' && move.cause === 'end') countSequence(tx, deployId)
    if (moved !== undefined) move.also?.(tx, moved)
    return moved
  })
}

/** Returns the fields that a result sets: status, error, end time and duration. */
export function endOf(row: DeploymentRow, outcome: Outcome, nowMs: number): Partial<DeploymentRow> {
  const endTime = new Date(nowMs).toISOString()
  return {
    status: outcome.status,
    errorMessage: outcome.errorMessage,
    endTime,
    duration: formatSeconds(nowMs - Date.parse(begunAt({ ...row, endTime })))
  }
}

/** Sends the notification of a result or of a later correction (§6.5). Never throws. */
export function sendNotice(
  { store, notify, log }: Pick<DeployNeeds, 'store' | 'notify' | 'log'>,
  deployment: DeploymentRow,
  { trigger, event, errorMessage }: { trigger: NotificationTrigger; event: EventKey; errorMessage: string | null }
): void {
  try {
    const project = findProject(store, deployment.projectId)
    if (project !== undefined) notify({ trigger, event, deployment, project, errorMessage })
  } catch (error) {
    log(`Cannot send the notification of deployment ${deployment.id}`, error)
  }
}

/** Returns the event of a final status. */
export function eventOf(status: FinalStatus): EventKey {
  return status === 'success' ? 'deploy_success' : 'deploy_failure'
}

/** Why a deployment changes its status (§3, decisions 4). */
export type Cause = 'turn' | 'end' | 'cancel' | 'stop' | 'restart' | 'correction'

interface Transition {
  from: DeploymentStatus
  to: DeploymentStatus
  causes: readonly Cause[]
}

/** All allowed transitions. Any other is a bug. */
const transitions: readonly Transition[] = [
  { from: 'queued', to: 'running', causes: ['turn'] },
  { from: 'queued', to: 'failed', causes: ['end', 'cancel', 'stop', 'restart'] },
  { from: 'running', to: 'success', causes: ['end'] },
  { from: 'running', to: 'failed', causes: ['end', 'cancel', 'stop', 'restart'] },
  { from: 'success', to: 'success', causes: ['correction'] },
  { from: 'success', to: 'failed', causes: ['correction'] },
  { from: 'failed', to: 'success', causes: ['correction'] },
  { from: 'failed', to: 'failed', causes: ['correction'] }
]

/** Throws unless a deployment with status `from` may change to `to` because of `cause`. */
export function assertTransition(from: DeploymentStatus, to: DeploymentStatus, cause: Cause): void {
  const isAllowed = transitions.some(row => row.from === from && row.to === to && row.causes.includes(cause))
  if (!isAllowed) throw new Error(`A deployment that is "${from}" cannot become "${to}" (${cause})`)
}

/** Whether a deployment with this status has finished. */
export function isFinal(status: DeploymentStatus): status is FinalStatus {
  return status === 'success' || status === 'failed'
}

/** Throws the 409 for a deployment that has not finished. `doing` is the refused action, like "roll back to". */
export function refuseUnlessFinal(row: DeploymentRow, doing: string): void {
  if (isFinal(row.status)) return
  const advice = 'Wait until it has finished, or cancel it first'
  const sentence = `Cannot ${doing} deployment ${row.id}: it is ${row.status}. ${advice}`
  throw new Refusal('conflict', 'not_finished', sentence)
}

/** Throws the 409 for a deployment that has already finished. `doing` is the refused action, like "cancel". */
export function refuseIfFinal(row: DeploymentRow, doing: string): void {
  if (!isFinal(row.status)) return
  const sentence = `Cannot ${doing} deployment ${row.id}: it has already finished (${row.status})`
  throw new Refusal('conflict', 'already_finished', sentence)
}

type PlacementNeeds = Pick<DeployNeeds, 'store' | 'clock' | 'log'> & {
  files: DeployFiles
  /** Returns the output of a deployment that is still writing to it. */
  outputOf?(deployId: string): Output | undefined
}

/**
 * Returns the record's fields for a deployment whose journal says that its files are in place, and where the contents are
 * that it replaced (`Placement.beforeFrom`).
 */
export async function placedPatch(
  { files, log }: Pick<PlacementNeeds, 'files' | 'log'>,
  row: DeploymentRow,
  nowMs: number
): Promise<{ patch: Pick<DeploymentRow, 'steps' | 'fileCount'>; beforeFrom: readonly string[] | null }> {
  const endedAt = new Date(nowMs).toISOString()
  const steps = row.steps.map((step): DeploymentStep => {
    return step.name === 'extract' ? { ...step, status: 'success', endedAt: step.endedAt ?? endedAt } : step
  })
  const summary = await summarizeManifest(files.manifest(row.id)).catch((error: unknown) => {
    log(`Cannot read the file list of deployment ${row.id}`, error)
    return null
  })
  const fileCount = row.fileCount ?? summary?.fileCount ?? null
  const beforeFrom = summary && [
    ...new Set([...summary.beforeFrom, ...(await sourcesOfScripts(files.scripted(row.id)))])
  ]
  return { patch: { steps, fileCount }, beforeFrom }
}

/** Returns the same for what its scripts changed, which only the process that was killed had in its memory. */
async function sourcesOfScripts(path: string): Promise<string[]> {
  const lines: ScriptedLine[] = []
  for await (const line of readScripted(path)) lines.push(line)
  return sourcesOfScripted(lines)
}

/**
 * Records that the files of a deployment are in place, if its journal says so but that could not be recorded before.
 * The status does not change. Does nothing if the record no longer exists or already says so.
 */
export async function recordComplete(needs: PlacementNeeds, deployId: string): Promise<void> {
  const { store, clock, files, log, outputOf = () => undefined } = needs
  const row = findDeployment(store, deployId)
  if (row === undefined || row.placed !== null || isExtracted(row.steps)) return
  const { patch, beforeFrom } = await placedPatch(needs, row, clock.now())
  await store.write(tx => {
    if (beforeFrom !== null) setBeforeFrom(tx, deployId, beforeFrom)
    return recordProgress(tx, deployId, patch)
  })
  if (!isFinal(row.status)) return
  try {
    const output = outputOf(deployId) ?? (await continueOutput({ path: files.output(deployId), clock }))
    output.say('→ the files of this deployment are in place after all; roll back to restore earlier files')
    await output.flush()
  } catch (error) {
    log(`Cannot append to the output of deployment ${deployId}`, error)
  }
}

/**
 * Returns what becomes of deployments whose undo journal says that their files are in place, but not that they are
 * settled. A running deployment is left to its own run. A finished one is settled if its record says that its files are
 * in place. Every other one is put back.
 */
export function createOpenDeployments(
  needs: Pick<DeployNeeds, 'store' | 'clock' | 'log'> & { files: DeployFiles }
): OpenExtractions {
  const { store, clock, files, log } = needs

  async function say(deployId: string): Promise<void> {
    try {
      const output = await continueOutput({ path: files.output(deployId), clock })
      output.say('→ the earlier files are back after all')
      await output.flush()
    } catch (error) {
      log(`Cannot append to the output of deployment ${deployId}`, error)
    }
  }

  return {
    decide(deployId) {
      const row = findDeployment(store, deployId)
      if (row === undefined) return 'revert'
      if (!isFinal(row.status)) return 'leave'
      return row.placed !== null && !isRevertPending(row) ? 'settle' : 'revert'
    },
    async onReverted(deployId) {
      const row = findDeployment(store, deployId)
      if (row === undefined || row.revertedAt !== null) return
      await store.write(tx => recordProgress(tx, deployId, revertedPatch(row, clock.now())))
      await say(deployId)
    }
  }
}

/** Returns the fields that say that the earlier files of a deployment are back. */
export function revertedPatch(row: Pick<DeploymentRow, 'revertReason'>, nowMs: number): Partial<DeploymentRow> {
  const revertedAt = new Date(nowMs).toISOString()
  return { revertedAt, revertReason: row.revertReason ?? 'restart', heldFor: null, holdUntil: null }
}

/*
 * Results of deployments, even while the database is not writable. A result that cannot be recorded is kept in memory,
 * where it takes precedence over the record. It is written as soon as a write succeeds. If the server is killed before
 * that, the result is lost, and the next start derives it from the files on disk (recovery.ts).
 */

/** Records the results of deployments. */
export type Ends = ReturnType<typeof createEnds>

interface Kept {
  end: DeploymentRow
  outcome: Outcome
  reason: string
}

type EndsNeeds = Pick<
  DeployNeeds,
  'store' | 'home' | 'log' | 'ended' | 'audit' | 'auditWithin' | 'endRetriesMs' | 'receipts'
>

/** What the entry of a result says. */
type Ended = Pick<DeploymentRow, 'status' | 'revertReason'> & { step: string | null; commit: string | null }

const endReaders: Readers<Ended> = {
  fields: { status: 'everybody', step: 'everybody', revertReason: 'everybody', commit: 'everybody' }
}

/**
 * Returns what adds the entry of a change to its transaction, if the actor still has the right to it: nobody sees a change
 * before its entry, and neither is stored without the other. Without such an audit log the entry is written beside it.
 */
export function auditsWithin({
  audit,
  auditWithin
}: Pick<DeployNeeds, 'audit' | 'auditWithin'>): NonNullable<DeployNeeds['auditWithin']> {
  return (
    auditWithin ??
    ((_, event) => {
      event.actor.checkAgain?.(true)
      audit(event)
    })
  )
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
  audit,
  auditWithin,
  endRetriesMs = defaultRetriesMs,
  receipts
}: EndsNeeds) {
  const auditAsked = auditsWithin({ audit, auditWithin })
  const kept = new Map<string, Kept>()
  const incomplete = new Set<Output>()
  let settling: Promise<void> | null = null
  let timer: NodeJS.Timeout | undefined

  async function write(end: DeploymentRow, { status, cause, asked }: Outcome): Promise<DeploymentRow> {
    const wishes = [...(asked ?? [])]
    const also = (tx: Transaction, row: DeploymentRow): void => {
      for (const entryOf of wishes) auditAsked(tx, entryOf(row))
      auditWithin?.(tx, endEvent(row))
      if (receipts !== undefined) oweReceipt(tx, row)
    }
    const row = (await moveRecord({ store }, end.id, { to: status, cause, patch: end, also })) ?? end
    for (const entryOf of wishes) asked?.delete(entryOf)
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
type ListQuery = DeploymentFilter & { limit: number; before?: string | undefined }

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
    newestOfEvery: (wanted: Parameters<typeof newestOfEvery>[1]): Iterable<string[]> => newestOfEvery(db, wanted),

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
