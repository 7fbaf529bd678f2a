import type { RolloutPolicy } from '../../../lib/model/rollout.js'

/* The form of a policy of rollouts: its texts, and the policy that they stand for. Pure. */

/** A policy of rollouts as texts. An empty text means the default. */
export interface RolloutDraft {
  canary: string
  then: string
  /** `seconds` or `approve`. */
  pause: string
  pauseSeconds: string
  maxFailures: string
  maxUnreachable: string
  onFailure: string
  order: string
}

/** The name of a text. */
export type RolloutField = keyof RolloutDraft

/** The texts of the default. */
export const noRollout: RolloutDraft = {
  canary: '',
  then: '',
  pause: '',
  pauseSeconds: '',
  maxFailures: '',
  maxUnreachable: '',
  onFailure: '',
  order: ''
}

/** Returns the texts of a policy. */
export function rolloutDraft(policy: RolloutPolicy | null | undefined): RolloutDraft {
  if (policy === null || policy === undefined) return noRollout
  const { canary, then, pause, maxFailures, maxUnreachable, onFailure, order } = policy
  return {
    canary: String(canary),
    then,
    pause: pause === 'approve' ? 'approve' : pause === 0 ? '' : 'seconds',
    pauseSeconds: pause === 'approve' || pause === 0 ? '' : String(pause),
    maxFailures: String(maxFailures),
    maxUnreachable,
    onFailure,
    order: order ?? ''
  }
}

/** Returns the policy of the texts, or null for the default. The server checks it, and adds what is absent. */
export function rolloutOfDraft(draft: RolloutDraft): Partial<RolloutPolicy> | null {
  const { canary, then, pause, pauseSeconds, maxFailures, maxUnreachable, onFailure, order } = draft
  const given = {
    ...(canary !== '' && { canary: Number(canary) }),
    ...(then !== '' && { then }),
    ...(pause === 'approve' && { pause }),
    ...(pause === 'seconds' && { pause: Number(pauseSeconds) }),
    ...(maxFailures !== '' && { maxFailures: Number(maxFailures) }),
    ...(maxUnreachable !== '' && { maxUnreachable }),
    ...(onFailure !== '' && { onFailure }),
    ...(order !== '' && { order })
  }
  // The server refuses other texts than those of the form.
  return Object.keys(given).length === 0 ? null : (given as Partial<RolloutPolicy>)
}
