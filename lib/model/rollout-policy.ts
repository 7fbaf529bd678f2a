/* Readers of the policy of rollouts: as a key of a project's policy, and as what one push sets instead. */
import { checked, integer, line, mapped, nullable, object, oneOf, optional, reads, type Read } from '../base/fields.js'
import { invalid } from '../base/errors.js'
import { fleetLimits, labelKeyFault } from './node.js'
import { defaultRolloutPolicy, rolloutFailureModes, type RolloutPolicy } from './rollout.js'

/** Longest pause between two waves, in seconds: a week. */
export const maxPauseSeconds = 7 * 24 * 60 * 60

const pause: Read<number | 'approve'> = reads(
  {
    anyOf: [
      { type: 'integer', minimum: 0, maximum: maxPauseSeconds },
      { type: 'string', enum: ['approve'] }
    ]
  },
  60,
  (value, field) => {
    if (value === 'approve') return value
    if (typeof value === 'number') return integer(0, maxPauseSeconds)(value, field)
    throw invalid(field, `"${field}" is not valid: expected a number of seconds or "approve"`)
  }
)

/** Reads a number of nodes, or a percentage of all nodes. */
function nodes(min: 0 | 1): Read<string> {
  return Object.assign(
    checked(line({ max: 10 }), given => {
      const [, digits = '', percent] = /^(\d{1,5})(%?)$/.exec(given) ?? []
      const max = percent === '%' ? 100 : fleetLimits.nodes
      if (digits !== '' && Number(digits) >= min && Number(digits) <= max) return null
      return `expected a number of nodes from ${min} to ${fleetLimits.nodes}, or a percentage such as 25%`
    }),
    { example: '25%' }
  )
}

const fields = {
  canary: optional(integer(1, fleetLimits.nodes)),
  then: optional(nodes(1)),
  pause: optional(pause),
  maxFailures: optional(integer(0, fleetLimits.nodes)),
  maxUnreachable: optional(nodes(0)),
  onFailure: optional(oneOf(rolloutFailureModes)),
  order: optional(nullable(Object.assign(checked(line({ max: 200 }), labelKeyFault), { example: 'zone' })))
}

/** Reads the keys of a rollout's policy that one push sets. Unknown keys are refused. */
export const givenRolloutPolicy: Read<Partial<RolloutPolicy>> = mapped(
  object(fields, { strict: true, example: { canary: 1, then: '25%', pause: 60 } }),
  given => Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
)

/** Reads the policy of rollouts. Absent keys get their defaults. */
export const rolloutPolicy: Read<RolloutPolicy> = mapped(givenRolloutPolicy, given => ({
  ...defaultRolloutPolicy,
  ...given
}))
