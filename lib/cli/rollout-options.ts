import { Refusal } from '../base/errors.js'
import { rolloutFailureModes, type RolloutPolicy } from '../model/rollout.js'
import { givenRolloutPolicy } from '../model/rollout-policy.js'
import type { UploadPermit } from '../model/upload-permit.js'
import { usage } from './args.js'
import { durationOption } from './common-options.js'
import type { Options, OptionTable } from './option-table.js'

/** Options of a push that set keys of the policy of rollouts, for this push only. */
export const rolloutOptions = {
  canary: { type: 'count', value: 'n', minimum: 1, help: 'number of nodes of the first wave' },
  then: { type: 'text', value: 'n|n%', help: 'size of each further wave: a number, or a percentage of all nodes' },
  pause: {
    type: 'text',
    value: 'time|approve',
    help: 'time between two waves, like 60s, or "approve": wait for an approval'
  },
  'max-failures': { type: 'count', value: 'n', help: 'number of nodes that may fail; one more halts the rollout' },
  'max-unreachable': { type: 'text', value: 'n|n%', help: 'number or percentage of nodes that may be unreachable' },
  'on-failure': {
    type: 'text',
    value: 'mode',
    choices: rolloutFailureModes,
    help: 'when too many nodes fail: halt, or put back the wave or all nodes'
  },
  order: { type: 'text', value: 'label', help: 'label by which nodes are sorted into waves; default: their names' }
} as const satisfies OptionTable

/** The values of these options. */
export type RolloutOptions = Options<typeof rolloutOptions>

/** Returns the flag of a key of the policy. */
function flagOf(key: string): string {
  return `--${key.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}`
}

/** Returns the keys that the options set; undefined: none is given. Throws a usage error. */
export function readRolloutOptions(options: RolloutOptions): Partial<RolloutPolicy> | undefined {
  const given = {
    canary: options.canary,
    then: options.then,
    pause: options.pause === undefined ? undefined : secondsOf(options.pause),
    maxFailures: options['max-failures'],
    maxUnreachable: options['max-unreachable'],
    onFailure: options['on-failure'],
    order: options.order
  }
  const keys = Object.entries(given).filter(([, value]) => value !== undefined)
  if (keys.length === 0) return undefined
  try {
    return givenRolloutPolicy(Object.fromEntries(keys), 'rollout')
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const [key = ''] = /(?<![A-Za-z])[A-Za-z]+$/.exec(error.field ?? '') ?? []
    const flag = flagOf(key)
    const fault = error.message.replace(/^.*?(?: is not valid: | is )/, '')
    throw usage(flag, `${flag} is not valid: ${fault}`)
  }
}

function secondsOf(text: string): number | 'approve' {
  return text === 'approve' ? text : Math.round(durationOption('--pause', text) / 1000)
}

/** Refuses options about waves for a project without nodes: the server would ignore them. */
export function requirePlacement(given: Partial<RolloutPolicy> | undefined, permit: UploadPermit | null): void {
  if (given === undefined || permit?.rollout) return
  const names = Object.keys(given).map(flagOf)
  const sentence = `${names.join(', ')}: the project is not placed on nodes, so there is no rollout. Nothing was deployed`
  throw new Refusal('invalid', 'project_not_placed', sentence)
}
