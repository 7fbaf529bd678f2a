import { Refusal } from '../base/errors.js'
import type { DeploymentRow, DeploymentStatus, FinalStatus } from '../model/deployment.js'

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
