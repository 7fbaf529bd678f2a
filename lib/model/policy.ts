/*
 * The policy of a project: how its deployments treat the files in the target, and when a deployment is a success. Every
 * key has a default, which is the behaviour of the specification: nothing is deleted, a rollback overlays, nothing is
 * checked afterwards. Only the keys that a project sets are stored, as JSON, so that a new key needs no new column.
 */

/** What a deployment does about files that svc put there and that somebody has edited since. */
export const driftModes = ['off', 'warn', 'refuse'] as const
/** Whether files are removed that svc put there and that the new archive does not contain. */
export const pruneModes = ['off', 'managed'] as const
/** How a rollback treats files that its archive does not contain. */
export const rollbackModes = ['overlay', 'exact'] as const
/** What happens if not everything that a deployment replaces can be kept for an exact rollback. */
export const exactModes = ['best', 'required'] as const

/** The policy of a project. */
export interface Policy {
  drift: (typeof driftModes)[number]
  /** Whether the project's own token may override the drift guard. */
  forceByDeployToken: boolean
  prune: (typeof pruneModes)[number]
  /** Whether the project's own token may ask for a prune that the policy does not order. */
  pruneByDeployToken: boolean
  /** Globs of paths that a prune never removes. */
  protect: string[]
  rollback: (typeof rollbackModes)[number]
  exact: (typeof exactModes)[number]
  /** The checks of a deployment; null: none. */
  gate: Gate | null
  /** Whether a deployment must be confirmed; null: only if its client asks for that. */
  confirm: { seconds: number } | null
  /** What happens if the post-deploy script fails. */
  onPostFailure: 'keep' | 'revert'
  /** What runs after the earlier files are back: the post-deploy script again, or nothing. */
  revertScript: 'post' | 'none'
  /** The file that a maintenance puts into the target. */
  maintenanceFile: string
  /** The contents of that file. Empty: the page of svc. */
  maintenancePage: string
}

/** One check after the files are in place. */
export type Check =
  | { http: string; status?: string; contains?: string; header?: Record<string, string> }
  | { tcp: string }
  | { command: string; timeout?: number }
  | { pm2: 'online' }
  | { log: string; none: string; for: number }

/** The checks of a deployment, and how often they are repeated. Times are in seconds. */
export interface Gate {
  after: Check[]
  /** Time between two attempts. */
  interval: number
  /** Time limit of one attempt. */
  timeout: number
  /** Time after which the deployment fails unless all checks have passed. */
  deadline: number
  /** Number of attempts in a row in which all checks must pass. */
  successes: number
  /** Time for which the checks must continue to pass after that. */
  stableFor: number
  onFailure: 'revert' | 'keep'
}

/** The policy of a project that sets nothing: the behaviour of the specification. */
export const defaultPolicy: Policy = {
  drift: 'warn',
  forceByDeployToken: false,
  prune: 'off',
  pruneByDeployToken: false,
  protect: [],
  rollback: 'overlay',
  exact: 'best',
  gate: null,
  confirm: null,
  onPostFailure: 'keep',
  revertScript: 'post',
  maintenanceFile: '.maintenance',
  maintenancePage: ''
}

/** The keys of a policy that a project sets. */
export type PolicyChanges = Partial<Policy>
/** The keys of a policy in a request; null restores the default. */
export type GivenPolicy = { [Key in keyof Policy]?: Policy[Key] | null | undefined }

/** Returns the whole policy of a project. */
export function policyOf(project: { policy: PolicyChanges }): Policy {
  return { ...defaultPolicy, ...project.policy }
}

/** Returns the keys that a project sets after a change. A key that is set to its default is not kept. */
export function changePolicy(before: PolicyChanges, given: GivenPolicy): PolicyChanges {
  const asked = Object.entries({ ...before, ...withoutAbsent(given) })
  const isSet = ([key, value]: [string, unknown]): boolean =>
    value !== null && value !== undefined && JSON.stringify(value) !== JSON.stringify(defaults.get(key))
  return Object.fromEntries(asked.filter(isSet))
}

function withoutAbsent(given: GivenPolicy): GivenPolicy {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

const defaults: ReadonlyMap<string, unknown> = new Map(Object.entries(defaultPolicy))
