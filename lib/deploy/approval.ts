/*
 * Deployments that others must approve (policy `approval`). One approves a list of files and not an id: an approval repeats its
 * digest, and the deployment begins only with these files. What goes back, or repairs, needs no approval.
 */
import { actorText, isWaitingToBegin } from '../base/shared/api.js'
import { notFound, Refusal } from '../base/errors.js'
import { countOf } from '../base/text.js'
import { type AccessRole, accessRoles, includesRole } from '../model/access.js'
import type { Actor } from '../model/audit.js'
import type { Decision, DeploymentRow } from '../model/deployment.js'
import { type Approval, defaultApproval, policyOf } from '../model/policy.js'
import type { Project } from '../model/project.js'
import type { Reader, Transaction } from '../core/store/database.js'
import { findDeployment, laterRelease } from '../core/store/tables/deployments.js'
import { findProject, nameOfActor } from '../core/store/tables/projects.js'
import type { Ends } from './ends.js'
import { StepFailure, StopRequest } from './failure.js'
import { refuseOutside } from './gateway.js'
import { refuseLocked } from './locks.js'
import type { DeployNeeds } from './needs.js'
import type { Live } from './output/live.js'
import { notHeld, recordProgress } from './record.js'
import type { WaitingDeployments } from './waiting.js'

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

export interface ApprovalNeeds extends Pick<DeployNeeds, 'store' | 'clock' | 'audit' | 'auditWithin'> {
  live: Live
  ends: Pick<Ends, 'current'>
  waiting: WaitingDeployments
}

/** User decisions about deployments that need an approval. */
export type Approvals = ReturnType<typeof createApprovals>

/** Creates the decisions. */
export function createApprovals({ store, clock, live, ends, waiting, ...needs }: ApprovalNeeds) {
  const { auditWithin = (_, event) => needs.audit(event) } = needs

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
