import { notFound, Refusal } from '../base/errors.js'
import { type Actor, type AuditEvent, judged } from '../model/audit.js'
import type { DeploymentRow, FinalStatus, Decision } from '../model/deployment.js'
import { requireDeployment, findDeployment, laterRelease } from '../core/store/tables/deployments.js'
import { nameOfActor, findProject } from '../core/store/tables/projects.js'
import { StopRequest, StepFailure } from './failure.js'
import type { DeployFiles } from './files.js'
import type { Live, LiveRun } from './output/live.js'
import type { DeployNeeds } from './needs.js'
import { continueOutput } from './output/output.js'
import type { Queue, QueueEntry } from './queue.js'
import {
  auditsWithin,
  eventOf,
  moveRecord,
  refuseIfFinal,
  refuseUnlessFinal,
  sendNotice,
  notHeld,
  recordProgress,
  type Ends
} from './record.js'
import { actorText, isWaitingToBegin } from '../base/shared/api.js'
import { countOf } from '../base/text.js'
import { type AccessRole, accessRoles, includesRole } from '../model/access.js'
import { type Approval, defaultApproval, policyOf } from '../model/policy.js'
import type { Project } from '../model/project.js'
import type { Reader, Transaction } from '../core/store/database.js'
import { refuseOutside, refuseLocked } from './gateway.js'
import type { Planned } from './turn.js'

export interface CorrectionNeeds extends DeployNeeds {
  files: DeployFiles
  live: Live
  queue: Queue
  waiting: Pick<WaitingDeployments, 'takeBack'>
  ends: Pick<Ends, 'current' | 'settle' | 'unrecorded'>
}

/** Who corrects a record. `why`: the sentence of the record and its output, if it is not that somebody wants it. */
export interface MarkedBy {
  actor: Actor
  why?: string
}

/** Creates the user actions on running deployments and on finished records. */
export function createCorrection(needs: CorrectionNeeds) {
  const { store, clock, files, live, queue, waiting, ends, log } = needs

  async function cancel(deployId: string, actor: Actor): Promise<DeploymentRow> {
    const row = ends.current(requireDeployment(store, deployId))
    refuseIfFinal(row, 'cancel')
    const run = live.find(deployId)
    if (run === undefined)
      throw new Error(`Deployment ${deployId} is ${row.status}, but it is not in the list of live deployments`)
    const request = new StopRequest('cancel', `Cancelled by ${nameOfActor(store, actor.name)}`)
    const event = { action: 'deployment.cancel', actor, projectId: row.projectId, target: deployId } as const
    const isDone = ({ status }: DeploymentRow): boolean => status === 'failed'
    const drop = async (): Promise<unknown> => (queue.takeBack(deployId) ?? waiting.takeBack(deployId))?.drop(request)
    const final = await stopRun(needs, run, { event, isDone, request, drop })
    if (!isDone(final)) refuseIfFinal(final, 'cancel')
    return final
  }

  async function mark(deployId: string, status: FinalStatus, { actor, why }: MarkedBy): Promise<DeploymentRow> {
    const was = ends.current(requireDeployment(store, deployId))
    refuseUnlessFinal(was, 'mark')
    // An end that is still kept in memory is recorded first.
    await ends.settle()
    const sentence = why ?? `Marked as ${status} by ${nameOfActor(store, actor.name)}`
    const errorMessage = status === 'success' ? null : (was.errorMessage ?? sentence)
    const detail = `${was.status} → ${status}${why === undefined ? '' : `: ${why}`}`
    const event = {
      action: 'deployment.mark_status',
      actor,
      projectId: was.projectId,
      target: deployId,
      detail
    } as const
    const row = await moveRecord(needs, deployId, {
      to: status,
      cause: 'correction',
      patch: { errorMessage },
      also: tx => auditsWithin(needs)(tx, event)
    })
    if (row === undefined) throw notFound('Deployment', deployId)
    await say(deployId, `→ ${sentence} (it was ${was.status})`)
    sendNotice(needs, row, { trigger: 'manual', event: eventOf(status), errorMessage })
    return row
  }

  /** Appends a line to the output. A background script may be writing to the same output. */
  async function say(deployId: string, line: string): Promise<void> {
    try {
      const output = live.find(deployId)?.output ?? (await continueOutput({ path: files.output(deployId), clock }))
      output.say(line)
      await output.flush()
    } catch (error) {
      log(`Cannot append to the output of deployment ${deployId}`, error)
    }
  }

  return { cancel, mark }
}

/** What a user asks of a run that it stops. `isDone`: whether its end is what the user wanted. */
interface Asked {
  event: AuditEvent
  isDone(end: DeploymentRow): boolean
  request: StopRequest
  /** Ends a run that has not begun. */
  drop?(): Promise<unknown>
}

/**
 * Stops a run for a user. Resolves with its final record. The user's audit entry is in the transaction of that record, or
 * follows it if it came too late.
 */
async function stopRun(
  { audit, ends }: Pick<DeployNeeds, 'audit'> & { ends: Pick<Ends, 'unrecorded'> },
  run: LiveRun,
  { event, isDone, request, drop }: Asked
): Promise<DeploymentRow> {
  event.actor.checkAgain?.(true)
  const actor = judged(event.actor)
  const entryOf = (end: DeploymentRow): AuditEvent => ({ ...event, actor, ok: isDone(end) })
  run.asked.add(entryOf)
  run.stop(request)
  await drop?.()
  const end = await run.finished
  if (ends.unrecorded(run.deployId) === null && run.asked.delete(entryOf)) audit(entryOf(end))
  return end
}

export interface ConfirmationNeeds extends Pick<DeployNeeds, 'store' | 'audit' | 'auditWithin'> {
  live: Live
  ends: Pick<Ends, 'current' | 'unrecorded'>
}

/** User decisions about deployments whose earlier files can still be put back. */
export type Confirmation = ReturnType<typeof createConfirmation>

/** Creates the user decisions about held deployments. */
export function createConfirmation({ store, audit, auditWithin, live, ends }: ConfirmationNeeds) {
  function requireHeld(row: DeploymentRow, doing: string): LiveRun {
    const run = live.find(row.id)
    if (run !== undefined && !run.isOver && run.isHeld) return run
    throw row.revertReason !== null ? tooLate(row, doing) : notWaiting(row, doing)
  }

  /** The record says first that a deployment waits to be confirmed: after a moment, or a restart, it does. */
  async function onceWaiting(deployId: string): Promise<DeploymentRow> {
    for (;;) {
      const row = ends.current(requireDeployment(store, deployId))
      const run = live.find(deployId)
      const isToWait = row.heldFor === 'confirm' && row.revertReason === null
      if (!isToWait || run === undefined || run.isOver || run.window !== null) return row
      await run.woken(run.wakes)
    }
  }

  return {
    /**
     * Confirms a deployment that waits for it. Resolves with its final record. Audited. Refuses: 404, 409 `not_waiting`,
     * `too_late`.
     */
    async confirm(deployId: string, actor: Actor): Promise<DeploymentRow> {
      const row = await onceWaiting(deployId)
      const run = requireHeld(row, 'confirm')
      if (run.window === null) throw notWaiting(row, 'confirm')
      const event = { action: 'deployment.confirm', actor, projectId: row.projectId, target: deployId } as const
      const record = (): Promise<void> => store.write(tx => auditsWithin({ audit, auditWithin })(tx, event))
      if (!(await run.window.confirm(record))) throw tooLate(row, 'confirm')
      const final = await run.finished
      if (final.status !== 'success') throw tooLate(final, 'confirm')
      return final
    },

    /**
     * Puts the earlier files of a held deployment back. Resolves with its final record. Audited. Refuses: 404, 409
     * `not_waiting`, `too_late`.
     */
    async revert(deployId: string, actor: Actor): Promise<DeploymentRow> {
      const row = ends.current(requireDeployment(store, deployId))
      const run = requireHeld(row, 'revert')
      const request = new StopRequest('cancel', `Reverted by ${nameOfActor(store, actor.name)}`)
      const event = { action: 'deployment.revert', actor, projectId: row.projectId, target: deployId } as const
      const isDone = ({ revertedAt }: DeploymentRow): boolean => revertedAt !== null
      const final = await stopRun({ audit, ends }, run, { event, isDone, request })
      if (final.status === 'success') throw tooLate(final, 'revert')
      return final
    },

    /** Returns when the window of a deployment ends that waits to be confirmed, or null. */
    confirmUntil: (deployId: string): string | null => live.find(deployId)?.window?.until ?? null
  }
}

function notWaiting(row: DeploymentRow, doing: string): Refusal {
  const { id, status } = row
  const why = doing === 'confirm' ? 'it does not wait for a confirmation' : whyNotReverted(row)
  return new Refusal('conflict', 'not_waiting', `Cannot ${doing} deployment ${id} (${status}): ${why}`)
}

function whyNotReverted({ status, placed }: DeploymentRow): string {
  if (status === 'queued') return 'it has not begun. Cancel it instead'
  if (status === 'running') return 'it waits for no check and no confirmation. Cancel it instead'
  if (status === 'failed' && placed === null) return 'it has left no files in place'
  return 'the earlier files are not kept any more. Roll back instead'
}

function tooLate({ id, status, revertReason }: DeploymentRow, doing: string): Refusal {
  const state = revertReason === null ? `it is already ${status}` : 'the earlier files are being put back, or are back'
  return new Refusal('conflict', 'too_late', `Cannot ${doing} deployment ${id}: ${state}`)
}

/*
 * Deployments that others must approve (policy `approval`). One approves a list of files and not an id: an approval repeats its
 * digest, and the deployment begins only with these files. What goes back, or repairs, needs no approval.
 */

type Policied = Pick<Project, 'name' | 'policy'>

/** Returns the number of approvals of a deployment. */
function approvalsOf({ approvals }: Pick<DeploymentRow, 'approvals'>): number {
  return approvals.filter(({ decision }) => decision === 'approved').length
}

/** Throws if a deployment begins without the approvals that its project needs now. */
export function requireApprovals(project: Policied, row: DeploymentRow): void {
  const { approval } = policyOf(project)
  if (approval === null || approvalsOf(row) >= approval.count) return
  const what = `${countOf(approval.count, 'approval')}, and deployment ${row.id} has ${approvalsOf(row)}`
  throw new StepFailure(`Project ${project.name} needs ${what}. Push again`)
}

/** Refuses (409 `superseded`) a deployment that has waited if a later release of its project is in place. */
export function refuseSuperseded(db: Reader, row: DeploymentRow): void {
  const later = laterRelease(db, row)
  if (later === undefined) return
  const sentence = `Deployment ${row.id} is older than ${later.id}, which was put in place meanwhile. Push again`
  throw new Refusal('conflict', 'superseded', sentence)
}

/** What somebody decides. */
export interface DecisionRequest {
  actor: Actor
  comment?: string | null | undefined
}

interface ApprovalNeeds extends Pick<DeployNeeds, 'store' | 'clock' | 'audit' | 'auditWithin'> {
  live: Live
  ends: Pick<Ends, 'current'>
  waiting: WaitingDeployments
}

export function createApprovals({ store, clock, live, ends, waiting, ...needs }: ApprovalNeeds) {
  const auditWithin = auditsWithin(needs)

  /** Records a decision. Refuses what `approve` refuses. */
  async function decide(
    deployId: string,
    decision: Decision['decision'],
    { actor, comment = null, treeSha256 = null }: DecisionRequest & { treeSha256?: string | null }
  ): Promise<{ row: DeploymentRow; needed: number }> {
    waiting.pause(deployId)
    try {
      return await store.write(tx => {
        const row = findDeployment(tx, deployId)
        const project = row && findProject(tx, row.projectId)
        if (row === undefined || project === undefined) throw notFound('Deployment', deployId)
        const policy = policyOf(project).approval ?? defaultApproval
        refuseDecision(ends.current(row), { policy, actor, decision })
        if (decision === 'approved' && treeSha256 !== row.treeSha256) throw otherTree(row)
        const given = { decision, name: actor.name, tokenId: actor.token?.id ?? null, comment, treeSha256 }
        const approvals = [...row.approvals, { ...given, at: new Date(clock.now()).toISOString() }]
        const isEnough = decision === 'approved' && approvalsOf({ approvals }) >= policy.count
        if (isEnough) refuseBeginning(tx, row, project)
        const action = decision === 'approved' ? 'deployment.approve' : 'deployment.reject'
        const detail = [treeSha256 === null ? [] : `tree ${treeSha256}`, comment ?? []].flat().join(': ')
        auditWithin(tx, { action, actor, projectId: project.id, target: deployId, detail: detail || null })
        const patch = { approvals, ...(isEnough ? nextWait(row) : {}) }
        return { row: recordProgress(tx, deployId, patch) ?? row, needed: policy.count }
      })
    } finally {
      waiting.resume(deployId)
    }
  }

  /** Refuses the last approval while the deployment could not begin. It waits on. */
  function refuseBeginning(tx: Transaction, row: DeploymentRow, project: Project): void {
    refuseSuperseded(tx, row)
    if (row.startAt !== null) return
    refuseLocked(tx, project, clock.now())
    refuseOutside(project, row.override, clock.now())
  }

  function say(row: DeploymentRow, line: string): void {
    const { name, comment } = row.approvals.at(-1) as Decision
    const words = comment === null ? '' : `: ${comment}`
    live.find(row.id)?.output.say(`→ ${line} by ${nameOfActor(store, name)}${words}`)
  }

  return {
    /**
     * Approves a deployment. It begins if that is enough. Refuses: 404, 403 `not_an_approver`, `own_push`, 409 `not_waiting`,
     * `already_decided`, `tree_differs`; the last approval also `superseded`, `locked` and `outside_window`.
     */
    async approve(deployId: string, request: DecisionRequest & { treeSha256: string }): Promise<DeploymentRow> {
      const { row, needed } = await decide(deployId, 'approved', request)
      say(row, `approved (${approvalsOf(row)} of ${needed})`)
      const { approvals, heldFor, holdUntil } = row
      waiting.changed(deployId, { approvals, heldFor, holdUntil })
      return row
    },

    /** Rejects a deployment, which fails. Resolves with its final record. Refuses as `approve`. */
    async reject(deployId: string, request: DecisionRequest): Promise<DeploymentRow> {
      const { row } = await decide(deployId, 'rejected', request)
      const words = request.comment ? `: ${request.comment}` : ''
      const stop = new StopRequest('cancel', `Rejected by ${nameOfActor(store, request.actor.name)}${words}`)
      const run = live.find(deployId)
      run?.stop(stop)
      const waiter = waiting.takeBack(deployId)
      if (waiter !== undefined) {
        waiter.planned.row.approvals = row.approvals
        await waiter.drop(stop)
      }
      return (await run?.finished) ?? row
    }
  }
}

/** Returns what an approved deployment waits for. */
function nextWait({ startAt }: DeploymentRow): Pick<DeploymentRow, 'heldFor' | 'holdUntil'> {
  return startAt === null ? notHeld : { heldFor: 'schedule', holdUntil: startAt }
}

function refuseDecision(
  row: DeploymentRow,
  { policy, actor, decision }: { policy: Approval; actor: Actor; decision: Decision['decision'] }
): void {
  const { id, approvals } = row
  const cannot = `Cannot ${decision === 'approved' ? 'approve' : 'reject'} deployment ${id}`
  const isOpen = isWaitingToBegin(row) && row.heldFor === 'approval'
  const last = approvals.at(-1)
  if (!isOpen && last !== undefined)
    throw decided(cannot, `it was ${last.decision} by ${actorText(last.name)} at ${last.at}`)
  if (!isOpen)
    throw new Refusal('conflict', 'not_waiting', `${cannot}: it does not wait for an approval (${row.status})`)
  // The state comes first, for everybody who can deploy.
  const role = accessRoles.find(role => role === actor.role) ?? (actor.role === 'local' ? 'admin' : null)
  if (role === null || !policy.roles.some(wanted => includesRole(role, wanted as AccessRole)))
    throw new Refusal('forbidden', 'not_an_approver', `${cannot}: that needs the role ${policy.roles.join(' or ')}`)
  const own = { name: row.actor, tokenId: row.tokenId }
  if (decision === 'approved' && policy.notPusher && isSamePerson(own, actor)) {
    const sentence = `${cannot}: you have started it. Somebody else must approve it; "svc cancel ${id}" cancels it`
    throw new Refusal('forbidden', 'own_push', sentence)
  }
  if (approvals.some(given => isSamePerson(given, actor))) throw decided(cannot, 'you have approved it')
}

/** Whether a token of a record is that of an actor. Callers without a named token are told apart by their names. */
function isSamePerson({ name, tokenId }: { name: string | null; tokenId: string | null }, actor: Actor): boolean {
  return tokenId === null ? name === actor.name : tokenId === actor.token?.id
}

function decided(cannot: string, why: string): Refusal {
  return new Refusal('conflict', 'already_decided', `${cannot}: ${why}`)
}

function otherTree({ id, treeSha256 }: DeploymentRow): Refusal {
  const sentence = `Cannot approve deployment ${id}: its files are those of tree ${treeSha256}. Look at it again`
  return new Refusal('conflict', 'tree_differs', sentence, { field: 'treeSha256' })
}

/*
 * Deployments that wait before they begin: until somebody has approved them, or until their time. They are in no queue, so
 * others of their project go ahead, and they are judged again when they begin (run.ts). Their records say what they wait
 * for and until when, and a start takes them up again (recovery.ts).
 */

/** A deployment that waits. */
interface Waiter extends Pick<QueueEntry, 'drop'> {
  planned: Pick<Planned, 'row' | 'live'>
  /** Adds the deployment to the queue. */
  begin(): void
}

/** The longest time between two looks at the clock, which may be set. */
const lookEveryMs = 60_000
/** How late a deployment may still begin by itself: a server that was stopped for longer has missed its time. */
const maxLateMs = 60 * 60_000
/** Time between two attempts to record that a deployment begins. */
const retryMs = 15_000
/** Maximum number of deployments of a project that wait. Each has an archive on disk. */
export const maxWaiting = 100

/** The deployments of a server that wait before they begin. */
export type WaitingDeployments = ReturnType<typeof createWaiting>

/** Creates an empty list. */
export function createWaiting({ store, clock, log }: Pick<DeployNeeds, 'store' | 'clock' | 'log'>) {
  const waiters = new Map<string, Waiter & { timer?: NodeJS.Timeout }>()

  function arm(id: string, ms?: number): void {
    const waiter = waiters.get(id)
    if (waiter === undefined) return
    clearTimeout(waiter.timer)
    const leftMs = Math.max(0, Date.parse(waiter.planned.row.holdUntil ?? '') - clock.now())
    waiter.timer = setTimeout(() => void due(id), ms ?? Math.min(leftMs, lookEveryMs)).unref()
  }

  function takeBack(id: string): Waiter | undefined {
    const waiter = waiters.get(id)
    clearTimeout(waiter?.timer)
    waiters.delete(id)
    return waiter
  }

  async function due(id: string): Promise<void> {
    const row = waiters.get(id)?.planned.row
    if (row?.holdUntil == null) return
    const lateMs = clock.now() - Date.parse(row.holdUntil)
    if (lateMs < 0) return arm(id)
    const at = minuteWords(row.holdUntil)
    if (row.heldFor === 'approval') return end(id, `Nobody approved the deployment before ${at}`)
    if (lateMs > maxLateMs)
      return end(id, `The server did not run at ${at}, when the deployment was to begin. Push again`)
    try {
      await store.write(tx => recordProgress(tx, id, notHeld))
    } catch (error) {
      log(`Cannot begin deployment ${id} yet`, error)
      return arm(id, retryMs)
    }
    changed(id, notHeld)
  }

  async function end(id: string, sentence: string): Promise<void> {
    const waiter = takeBack(id)
    const request = new StopRequest('cancel', sentence)
    waiter?.planned.live.stop(request)
    await waiter?.drop(request)
  }

  function changed(id: string, patch: Partial<DeploymentRow>): void {
    const waiter = waiters.get(id)
    if (waiter === undefined) return
    const { row, live } = waiter.planned
    Object.assign(row, patch)
    if (isWaitingToBegin(row)) {
      for (const line of linesOfWait(row, null)) live.output.say(line)
      arm(id)
    } else takeBack(id)?.begin()
  }

  return {
    /** Adds a deployment whose record says that it waits. */
    add(waiter: Waiter): void {
      waiters.set(waiter.planned.row.id, waiter)
      arm(waiter.planned.row.id)
    },
    has: (id: string): boolean => waiters.has(id),
    /** Returns the number of deployments of a project. */
    count: (projectId: string): number =>
      [...waiters.values()].filter(({ planned }) => planned.row.projectId === projectId).length,
    /** Takes over what was recorded: the deployment begins, or waits for something else. */
    changed,
    /** Lets no time end the wait of a deployment until `resume` is called: somebody decides about it. */
    pause: (id: string): void => clearTimeout(waiters.get(id)?.timer),
    resume: (id: string): void => arm(id),
    /** Removes a deployment and returns it; undefined: it does not wait. */
    takeBack,
    /** Leaves all to the next start: their records stay as they are. */
    leave(): void {
      for (const id of [...waiters.keys()]) {
        const planned = takeBack(id)?.planned
        planned?.live.end(planned.row)
      }
    }
  }
}

/** Returns what the output says about a deployment that waits. `approval`: what it needs; null: the lines said it before. */
export function linesOfWait(
  { id, heldFor, holdUntil }: Pick<DeploymentRow, 'id' | 'heldFor' | 'holdUntil'>,
  approval: Approval | null
): string[] {
  if (holdUntil === null) return []
  const at = minuteWords(holdUntil)
  if (heldFor === 'schedule') return [`→ begins at ${at}; "svc cancel ${id}" cancels it`]
  if (heldFor !== 'approval' || approval === null) return []
  const by = `${approval.notPusher ? 'somebody else' : 'somebody'} with the role ${approval.roles.join(' or ')}`
  const what = `${countOf(approval.count, 'approval')} by ${by}`
  return [`→ waits for ${what} until ${at}, and fails then: svc approve ${id}`]
}

/** Returns a moment in words: `2026-12-20 09:00 UTC`. */
function minuteWords(at: string): string {
  return `${at.slice(0, 16).replace('T', ' ')} UTC`
}
