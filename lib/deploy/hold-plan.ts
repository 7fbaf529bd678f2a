import type { DeploymentRow } from '../model/deployment.js'
import type { Gate, Policy } from '../model/policy.js'

/** How long, and why, a deployment can be put back after its files are in place. */
export interface HoldPlan {
  /** The checks that must pass; null: none. */
  gate: Gate | null
  /** The time in which it must be confirmed; null: it need not be. */
  confirmSeconds: number | null
  /** Whether a failed post-deploy script puts the earlier files back. */
  revertsOnPostFailure: boolean
  /** Whether the post-deploy script runs again after the earlier files are back. */
  runsRevertScript: boolean
}

/** The plan of a deployment that was held by a policy that has been removed since. */
export const bareHold: HoldPlan = {
  gate: null,
  confirmSeconds: null,
  revertsOnPostFailure: true,
  runsRevertScript: true
}

/** Returns the plan of a deployment, or null if it is settled as soon as its files are in place. */
export function holdPlanOf(policy: Policy, confirmSeconds: number | null): HoldPlan | null {
  const gate = policy.gate !== null && policy.gate.after.length > 0 ? policy.gate : null
  const seconds = confirmSeconds ?? policy.confirm?.seconds ?? null
  const revertsOnPostFailure = policy.onPostFailure === 'revert'
  if (gate === null && seconds === null && !revertsOnPostFailure) return null
  return { gate, confirmSeconds: seconds, revertsOnPostFailure, runsRevertScript: policy.revertScript === 'post' }
}

/** The steps in which a deployment is held. */
export type HoldPhase = NonNullable<DeploymentRow['heldFor']>

/** Time that an extraction may take before its deployment is put back by a start that finds it. */
const extractionMs = 60 * 60_000
/** Time for everything between the steps. */
const marginMs = 60_000

/**
 * Returns an upper bound of the time until a deployment is settled, from the beginning of a phase on. The phase `post`
 * includes the extraction.
 */
export function longestMs({ gate, confirmSeconds }: HoldPlan, phase: HoldPhase, scriptTimeoutMs: number): number {
  const windowMs = (confirmSeconds ?? 0) * 1000
  if (phase === 'confirm') return windowMs
  const gateMs = gate === null ? 0 : (gate.deadline + gate.stableFor + gate.timeout) * 1000
  const checkMs = gateMs + windowMs + marginMs
  return phase === 'check' ? checkMs : extractionMs + scriptTimeoutMs + checkMs
}
