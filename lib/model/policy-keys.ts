/*
 * The keys of a policy that requests and packages may set, each with the reader of its values. A key that is not in
 * this table is refused by its name, so a key has no row before something follows it.
 */

import {
  checked,
  flag,
  integer,
  line,
  list,
  maxPathLength,
  maxScriptLength,
  multiline,
  nullable,
  object,
  oneOf,
  optional,
  type Read,
  reads,
  withDefault
} from '../base/fields.js'
import { compileGlob } from '../base/glob.js'
import { invalid, Refusal } from '../base/errors.js'
import {
  approvalLimits,
  approverRoles,
  changePolicy,
  confirmLimits,
  defaultApproval,
  defaultGate,
  defaultSignatures,
  driftModes,
  exactModes,
  type Gate,
  gateFault,
  type GivenPolicy,
  maxSoakMinutes,
  type Policy,
  type PolicyChanges,
  policyOf,
  postFailureModes,
  pruneModes,
  revertScripts,
  rollbackModes,
  rollbackSignatures,
  sbomModes,
  signatureModes
} from './policy.js'
import { targetFileFault } from './manifest.js'
import { maxSignatures } from './statement.js'
import { readWindows } from './windows.js'
import type { PruneMode } from './plan.js'
import { rolloutPolicy } from './rollout-policy.js'
import { rolloutFailureModes, type RolloutPolicy } from './rollout.js'

/** A key of a policy. */
interface Key<T> {
  read: Read<NonNullable<T>>
  /** A description of the key. */
  what: string
}

const gate: Read<Gate> = reads({ $ref: '#/components/schemas/Gate' }, null, (value, field) => {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  const given: unknown = isObject ? { ...defaultGate, ...value } : value
  const fault = gateFault(given)
  if (fault !== null) throw invalidGate(field, fault)
  return given as Gate
})

/** Reads the path of a file in the target. */
const targetFile: Read<string> = Object.assign(
  checked(line({ max: maxPathLength }), given => {
    const fault = targetFileFault(given)
    return fault === null ? null : `it ${fault}`
  }),
  { example: 'maintenance.html' }
)

function invalidGate(field: string, fault: { field: string; reason: string }): Error {
  const place = fault.field === '' ? field : `${field}.${fault.field.replace(/\.(\d+)/g, '[$1]')}`
  return invalid(place, `"${place}" is not valid: ${fault.reason}`)
}

/** The highest number of a group: the one above means "no change" to the kernel. */
const maxGroup = 2 ** 32 - 2

/** Reads permissions of which the owner has at least some: svc must be able to read its files. */
function octal({ example, digits, least }: { example: string; digits: RegExp; least: number }): Read<string> {
  const read = checked(line({ min: 1, max: 4 }), text => {
    if (!digits.test(text)) return `it must be octal, such as "${example}"`
    if ((Number.parseInt(text, 8) & least) === least) return null
    return `its owner must have at least ${least.toString(8).padStart(4, '0')}`
  })
  return Object.assign(read, { example })
}

/** Reads the name of a group (groupadd(8)), or its number. The machine of the target knows whether it exists. */
const groupName: Read<string> = Object.assign(
  checked(line({ min: 1, max: 32 }), text => {
    const isNumber = /^\d+$/.test(text)
    if (isNumber ? Number(text) <= maxGroup : /^[a-z_][a-z0-9_.-]*\$?$/i.test(text)) return null
    return 'it must be the name of a group, or its number'
  }),
  { example: 'www-data' }
)

const failureScript: Read<string> = checked(multiline({ max: maxScriptLength }), text =>
  text.trim() === '' ? 'it is empty; null sets none' : null
)

const protectedGlob: Read<string> = checked(line({ min: 1, max: 1000 }), pattern => {
  try {
    compileGlob(pattern)
    return null
  } catch (error) {
    return (error as Error).message
  }
})

/** The keys, in the order of forms and documents. */
export const policyKeys = {
  drift: {
    read: oneOf(driftModes),
    what: 'What a deployment does about files that were edited in the target. Default: `warn`'
  },
  gate: { read: gate, what: 'The checks after the files are in place. Default: none' },
  confirm: {
    read: object(
      { seconds: integer(confirmLimits.min, confirmLimits.max) },
      { strict: true, example: { seconds: 90 } }
    ),
    what: 'A deployment must be confirmed within this time, or the earlier files are put back. Default: never'
  },
  onPostFailure: {
    read: oneOf(postFailureModes),
    what: 'Whether a failed post-deploy script puts the earlier files back. Default: `keep`'
  },
  revertScript: {
    read: oneOf(revertScripts),
    what: 'What runs after the earlier files are back. Default: `post`, the post-deploy script'
  },
  onFailureScript: {
    read: failureScript,
    what: 'The script that runs after a deployment has failed or was reverted. Default: none'
  },
  fileMode: {
    read: octal({ example: '0644', digits: /^0?[0-7]{3}$/, least: 0o400 }),
    what: 'Permissions of files, in octal; executable files of the archive get x for each r. Default: those of the archive'
  },
  directoryMode: {
    read: octal({ example: '0755', digits: /^[02]?[0-7]{3}$/, least: 0o700 }),
    what: 'Permissions of directories that svc makes, in octal. Default: those of the archive'
  },
  group: {
    read: groupName,
    what: 'Group of the files and directories that svc writes, its name or number. Default: that of the user that writes'
  },
  maintenanceFile: {
    read: targetFile,
    what: 'The file that `svc maintenance on` places in the target. Default: `.maintenance`'
  },
  maintenancePage: {
    read: targetFile,
    what: 'A file of the target whose contents the maintenance file gets. Default: a page of svc'
  },
  prune: {
    read: oneOf(pruneModes),
    what: 'Whether a deployment removes files of earlier deployments that it does not contain. Default: `off`'
  },
  protect: {
    read: list(protectedGlob, { max: 100 }),
    what: 'Globs of paths that are never removed. Default: none'
  },
  pruneByDeployToken: {
    read: flag,
    what: 'Whether the deploy token of the project, or a deployer, may ask for a prune. Default: false'
  },
  forceByDeployToken: {
    read: flag,
    what: 'Whether the deploy token of the project, or a deployer, may replace edited files if `drift` is `refuse`. Default: false'
  },
  rollback: {
    read: oneOf(rollbackModes),
    what: 'What a rollback does unless it says otherwise. Default: `overlay`, it puts files over the others'
  },
  exact: {
    read: oneOf(exactModes),
    what: 'Whether a deployment is refused if it cannot keep what it replaces. Default: `best`, it is not'
  },
  rollout: {
    read: rolloutPolicy,
    what: 'How a release gets to the nodes of the project. Default: one node first, then a quarter of all in each wave'
  },
  windows: {
    read: readWindows,
    what: 'When deployments may begin. Those that go back always may. Default: at any time'
  },
  promoteFrom: {
    read: object(
      { projectId: line({ min: 1, max: 100 }), soakMinutes: withDefault(integer(0, maxSoakMinutes), 0) },
      { strict: true, example: { projectId: 'proj_abcdefghijklmnop', soakMinutes: 30 } }
    ),
    what: 'The only project from which releases come, after they have been live there for a time. Default: from anywhere'
  },
  approval: {
    read: object(
      {
        count: withDefault(integer(1, approvalLimits.count), defaultApproval.count),
        roles: withDefault(list(oneOf(approverRoles), { min: 1, max: approverRoles.length }), defaultApproval.roles),
        notPusher: withDefault(flag, defaultApproval.notPusher),
        hours: withDefault(integer(1, approvalLimits.hours), defaultApproval.hours)
      },
      { strict: true, example: { count: 1, roles: ['operator'] } }
    ),
    what: 'Who must approve a release before it begins. Those that go back need nobody. Default: nobody'
  },
  signatures: {
    read: object(
      {
        require: withDefault(oneOf(signatureModes), defaultSignatures.require),
        threshold: withDefault(integer(1, maxSignatures), defaultSignatures.threshold),
        keys: nullable(list(line({ min: 1, max: 100 }), { min: 1, max: 100 })),
        sbom: withDefault(oneOf(sbomModes), defaultSignatures.sbom),
        rollbackBySignature: withDefault(oneOf(rollbackSignatures), defaultSignatures.rollbackBySignature)
      },
      { strict: true, example: { require: 'refuse', threshold: 1 } }
    ),
    what: 'Who must have signed a release. Default: nobody'
  }
} satisfies { [Name in keyof Policy]?: Key<Policy[Name]> }

const readers = Object.fromEntries(
  Object.entries(policyKeys).map(([name, { read }]) => [name, optional(nullable<unknown>(read))])
)

/** Reads the keys of a policy that a request sets. Null restores the default of a key. Unknown keys are refused. */
export const givenPolicy: Read<GivenPolicy> = object(readers, { strict: true, example: { drift: 'refuse' } })

/** Reads the keys of a policy that a package sets. An absent policy sets none. */
export const storedPolicy: Read<PolicyChanges> = Object.assign(
  (value: unknown, field: string) =>
    value === undefined || value === null ? {} : changePolicy({}, givenPolicy(value, field)),
  { schema: givenPolicy.schema, example: {}, isOptional: true }
)

/*
 * What a request may say about the policy of its project. A request of somebody below operator makes a policy only
 * stricter: a pipeline does not decide about its own release. Each key of a policy has its rule here.
 */

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
  /** Why it begins outside of the windows. */
  override?: string | null | undefined
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
  },
  windows: ({ policy, wish: { override } }) => {
    if (policy.windows === null || override == null) return null
    return { what: 'deploy outside of the windows', key: 'windows' }
  },
  promoteFrom: null,
  approval: null,
  signatures: null
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
