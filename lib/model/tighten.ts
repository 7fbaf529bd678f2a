/*
 * What a request may say about the policy of its project. A request of somebody below operator makes a policy only
 * stricter: a pipeline does not decide about its own release. Each key of a policy has its rule here.
 */
import { Refusal } from '../base/errors.js'
import type { PruneMode } from './plan.js'
import { policyOf, type Policy, type PolicyChanges } from './policy.js'
import { rolloutFailureModes, type RolloutPolicy } from './rollout.js'

/** What a request says instead of a policy. An absent field says nothing. */
export interface PolicyWish {
  /** Whether files are removed that the deployment does not contain. */
  prune?: PruneMode | undefined
  /** Whether edited files are replaced although `drift` is `refuse`. */
  force?: boolean | undefined
  /** Whether a file that svc did not place there gives way to the maintenance file, or an edited one is removed. */
  forceMaintenance?: boolean | undefined
  /** The time in which the deployment must be confirmed. */
  confirmSeconds?: number | null | undefined
  /** Whether the post-deploy script runs in the background, so that its failure reverts nothing. */
  postDeployAsync?: boolean | undefined
  rollout?: Partial<RolloutPolicy> | undefined
}

/** Why a wish is looser than the policy: what was asked for, and the key that says otherwise. */
interface Looser {
  what: string
  key: string
}

interface Given {
  policy: Policy
  wish: PolicyWish
  /** The keys that the project sets. */
  sets: PolicyChanges
}

/** Roles whose requests may say what they want. */
const deciding: readonly string[] = ['operator', 'admin', 'local']

/** The rules by key of the policy. Null: no request says anything about it. */
const rules: { [Key in keyof Required<Policy>]: ((given: Given) => Looser | null) | null } = {
  drift: ({ policy, wish }) => {
    const isForced = wish.force === true || (wish.forceMaintenance === true && policy.drift === 'refuse')
    if (!isForced || policy.forceByDeployToken) return null
    return { what: 'replace edited files', key: 'forceByDeployToken' }
  },
  gate: null,
  confirm: ({ policy, wish: { confirmSeconds } }) => {
    if (policy.confirm === null || confirmSeconds == null || confirmSeconds <= policy.confirm.seconds) return null
    return { what: `wait ${confirmSeconds} s to be confirmed`, key: 'confirm' }
  },
  onPostFailure: ({ policy, wish }) => {
    if (policy.onPostFailure !== 'revert' || wish.postDeployAsync !== true) return null
    return { what: 'run the post-deploy script in the background', key: 'onPostFailure' }
  },
  revertScript: null,
  onFailureScript: null,
  fileMode: null,
  directoryMode: null,
  group: null,
  maintenanceFile: null,
  maintenancePage: null,
  prune: ({ policy, wish: { prune } }) => {
    const isMore = prune === 'force' || prune === 'foreign' || (prune === 'managed' && policy.prune === 'off')
    return isMore && !policy.pruneByDeployToken ? { what: 'remove files', key: 'pruneByDeployToken' } : null
  },
  protect: null,
  pruneByDeployToken: null,
  forceByDeployToken: null,
  rollback: null,
  exact: null,
  rollout: ({ policy, wish, sets }) => {
    // A project that sets no policy of rollouts leaves it to its pushes.
    if (sets.rollout === undefined || wish.rollout === undefined) return null
    const asked: RolloutPolicy = { ...policy.rollout, ...wish.rollout }
    const looser = rolloutKeys.find(key => !keeps[key](policy.rollout, asked))
    if (looser === undefined) return null
    return { what: `roll out with "${looser}": ${JSON.stringify(asked[looser])}`, key: `rollout.${looser}` }
  }
}

/** Whether what was asked for is at least as strict as the policy, by key of the policy of rollouts. */
const keeps: { [Key in keyof Required<RolloutPolicy>]: (policy: RolloutPolicy, asked: RolloutPolicy) => boolean } = {
  canary: (policy, asked) => asked.canary <= policy.canary,
  then: (policy, asked) => isAtMost(asked.then, policy.then),
  pause: (policy, asked) => asked.pause === 'approve' || (policy.pause !== 'approve' && asked.pause >= policy.pause),
  maxFailures: (policy, asked) => asked.maxFailures <= policy.maxFailures,
  maxUnreachable: (policy, asked) => isAtMost(asked.maxUnreachable, policy.maxUnreachable),
  // Each mode puts back what the one before it does, and more.
  onFailure: (policy, asked) =>
    rolloutFailureModes.indexOf(asked.onFailure) >= rolloutFailureModes.indexOf(policy.onFailure),
  // Another order makes other nodes the first ones. It is neither stricter nor looser.
  order: (policy, asked) => policy.order === null || asked.order === policy.order
}

const rolloutKeys = Object.keys(keeps) as Array<keyof RolloutPolicy>

/**
 * Whether one number of nodes, or percentage, is certainly at most another one, however many nodes there are. A wave has at
 * least one node, and a percentage is rounded: only the ends can be compared across the two forms.
 */
function isAtMost(asked: string, limit: string): boolean {
  const [ofAsked, ofLimit] = [asked, limit].map(text => ({
    value: Number.parseInt(text, 10),
    isShare: /%$/.test(text)
  }))
  if (ofAsked === undefined || ofLimit === undefined) return false
  if (ofAsked.isShare === ofLimit.isShare) return ofAsked.value <= ofLimit.value
  if (ofAsked.isShare) return ofAsked.value === 0
  return ofAsked.value <= Math.min(1, ofLimit.value) || limit === '100%'
}

/**
 * Checks what a request says about the policy of its project. `role` is that of its caller. Refuses: 403
 * `deploy_token_may_not`, naming the key.
 */
export function tighten(
  project: { policy: PolicyChanges },
  wish: PolicyWish,
  { role, token }: { role: string; token?: { name: string } | undefined }
): void {
  if (deciding.includes(role)) return
  const given = { policy: policyOf(project), wish, sets: project.policy }
  for (const rule of Object.values(rules)) {
    const looser = rule?.(given) ?? null
    if (looser === null) continue
    const { what, key } = looser
    const ofAll = role === 'global' ? 'The global deploy token' : 'The deploy token of the project'
    const who = token === undefined ? ofAll : `The token "${token.name}"`
    const advice = key.endsWith('ByDeployToken')
      ? `Set "${key}" in the policy of the project`
      : `The policy "${key}" of the project is stricter`
    throw new Refusal('forbidden', 'deploy_token_may_not', `${who} may not ${what}. ${advice}`, { field: key })
  }
}
