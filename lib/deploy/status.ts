import { Refusal } from '../base/refusal.js'
import type { DeploymentRow, DeploymentStatus, FinalStatus } from '../model/deployment.js'

/** What moves a deployment from one state to the next (§3, decisions 4). */
export type Cause = 'turn' | 'end' | 'cancel' | 'stop' | 'restart' | 'correction'

interface Transition {
  from: DeploymentStatus
  to: DeploymentStatus
  causes: readonly Cause[]
}

/** What may follow what; anything else is a bug of ours. */
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

/** Throws unless a deployment that is `from` may become `to` because of `cause`. */
export function assertTransition(from: DeploymentStatus, to: DeploymentStatus, cause: Cause): void {
  const isAllowed = transitions.some(row => row.from === from && row.to === to && row.causes.includes(cause))
  if (!isAllowed) throw new Error(`A deployment that is "${from}" cannot become "${to}" (${cause})`)
}

export function isFinal(status: DeploymentStatus): status is FinalStatus {
  return status === 'success' || status === 'failed'
}

/** Throws the 409 for a deployment that is still going on; `doing` completes "cannot be …". */
export function refuseUnlessFinal(row: DeploymentRow, doing: string): void {
  if (isFinal(row.status)) return
  const sentence = `Deployment ${row.id} cannot be ${doing}: it is ${row.status}; wait for its end, or cancel it first`
  throw new Refusal('conflict', 'not_finished', sentence)
}

/** Throws the 409 for a deployment that has its end already. */
export function refuseIfFinal(row: DeploymentRow, doing: string): void {
  if (!isFinal(row.status)) return
  const sentence = `Deployment ${row.id} cannot be ${doing}: it has finished already (${row.status})`
  throw new Refusal('conflict', 'already_finished', sentence)
}
