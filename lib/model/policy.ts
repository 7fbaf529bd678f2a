/*
 * The policy of a project: how its deployments treat the files in the target, and when a deployment is a success. Every
 * key has a default, which is the behaviour of the specification: a deployment replaces files, and nothing is
 * checked afterwards. Only the keys that a project sets are stored, as JSON, so that a new key needs no new column.
 */

import type { Readers } from './readers.js'
import { defaultRolloutPolicy, rolloutPolicyReaders, type RolloutPolicy } from './rollout.js'

/** What a deployment does about files that svc put there and that somebody has edited since. */
export const driftModes = ['off', 'warn', 'refuse'] as const
/** What happens if the post-deploy script fails: its files stay, or the earlier files are put back. */
export const postFailureModes = ['keep', 'revert'] as const
/** What runs after the earlier files are back: the post-deploy script again, or nothing. */
export const revertScripts = ['post', 'none'] as const

/** Whether a deployment removes the files of earlier ones that it does not contain. */
export const pruneModes = ['off', 'managed'] as const
/** What a rollback does: it puts the files of an archive over the others, or restores an earlier state exactly. */
export const rollbackModes = ['overlay', 'exact'] as const
/** Whether a deployment may replace contents that cannot be kept for a way back. */
export const exactModes = ['best', 'required'] as const

/** The policy of a project. */
export interface Policy {
  /** What a deployment does about files that were edited in the target. Default: `warn`. */
  drift: (typeof driftModes)[number]
  /** The checks after the files are in place. Default: none. */
  gate: Gate | null
  /** A deployment must be confirmed within this time, or the earlier files are put back. Default: never. */
  confirm: {
    /** @minimum 10 @maximum 86400 */
    seconds: number
  } | null
  /** Whether a failed post-deploy script puts the earlier files back. Default: `keep`. */
  onPostFailure: (typeof postFailureModes)[number]
  /** What runs after the earlier files are back. Default: `post`, the post-deploy script. */
  revertScript: (typeof revertScripts)[number]
  /** The script that runs after a deployment has failed or was reverted. Default: none. @maxLength 100000 */
  onFailureScript: string | null
  /** Whether a deployment removes files of earlier deployments that it does not contain. Default: `off`. */
  prune: (typeof pruneModes)[number]
  /** Globs of paths that are never removed. Default: none. @minLength 1 @maxLength 1000 */
  protect: readonly string[]
  /** Whether the deploy token of the project, or a deployer, may ask for a prune. Default: false. */
  pruneByDeployToken: boolean
  /**
   * Whether the deploy token of the project, or a deployer, may replace edited files if `drift` is `refuse`. Default:
   * false.
   */
  forceByDeployToken: boolean
  /** What a rollback does unless it says otherwise. Default: `overlay`, it puts files over the others. */
  rollback: (typeof rollbackModes)[number]
  /** Whether a deployment is refused if it cannot keep what it replaces. Default: `best`, it is not. */
  exact: (typeof exactModes)[number]
  /**
   * Permissions of files, in octal; executable files of the archive get x for each r. Default: those of the archive.
   * @minLength 1
   * @maxLength 4
   */
  fileMode: string | null
  /** Permissions of directories that svc makes, in octal. Default: those of the archive. @minLength 1 @maxLength 4 */
  directoryMode: string | null
  /**
   * Group of the files and directories that svc writes, its name or number. Default: that of the user that writes.
   * @minLength 1
   * @maxLength 32
   */
  group: string | null
  /** The file that `svc maintenance on` places in the target. Default: `.maintenance`. @maxLength 4096 */
  maintenanceFile: string
  /** A file of the target whose contents the maintenance file gets. Default: a page of svc. @maxLength 4096 */
  maintenancePage: string | null
  /** How a release gets to the nodes of the project. Default: one node first, then a quarter of all in each wave. */
  rollout: RolloutPolicy
}

/** One check after the files are in place. @schema Check */
export type Check =
  | {
      http: string
      /** Accepted status codes. */
      status?: string
      /** Text that the body must contain in its first 64 KiB. */
      contains?: string
      /** Request headers. */
      header?: Record<string, string>
    }
  | { tcp: string }
  | {
      /** A script that must end with exit code 0. */
      command: string
      /** Seconds. @number */
      timeout?: number
    }
  | { pm2: 'online' }
  | {
      /** Id of a log source of the project. */
      log: string
      /** Regular expression that no new line may match. */
      none: string
      /** Seconds. @number */
      for: number
    }

/** The checks of a deployment, and how often they are repeated. Times are in seconds. @schema Gate */
export interface Gate {
  /** All must pass. */
  after: Check[]
  /** Seconds between two attempts. @number */
  interval: number
  /** Seconds that one attempt may take. @number */
  timeout: number
  /** Seconds after which the deployment fails. @number */
  deadline: number
  /** Number of attempts in a row that must pass. */
  successes: number
  /** Seconds for which the checks must continue to pass. @number */
  stableFor: number
  /** Whether a failed check puts the earlier files back. */
  onFailure: 'revert' | 'keep'
}

/** The policy of a project that sets nothing: the behaviour of the specification. */
export const defaultPolicy: Policy = {
  drift: 'warn',
  gate: null,
  confirm: null,
  onPostFailure: 'keep',
  revertScript: 'post',
  onFailureScript: null,
  prune: 'off',
  protect: [],
  pruneByDeployToken: false,
  forceByDeployToken: false,
  rollback: 'overlay',
  exact: 'best',
  fileMode: null,
  directoryMode: null,
  group: null,
  maintenanceFile: '.maintenance',
  maintenancePage: null,
  rollout: defaultRolloutPolicy
}

/** The keys of a policy that a project sets. @schema Policy */
export type PolicyChanges = Partial<Policy>

/** Who reads the keys of a policy. */
export const policyReaders: Readers<Policy> = {
  fields: {
    drift: 'everybody',
    gate: {
      fields: {
        after: {
          items: {
            fields: {
              http: 'everybody',
              status: 'everybody',
              contains: 'everybody',
              header: { values: 'nobody' },
              tcp: 'everybody',
              command: 'scripts',
              timeout: 'everybody',
              pm2: 'everybody',
              log: 'everybody',
              none: 'everybody',
              for: 'everybody'
            }
          }
        },
        interval: 'everybody',
        timeout: 'everybody',
        deadline: 'everybody',
        successes: 'everybody',
        stableFor: 'everybody',
        onFailure: 'everybody'
      }
    },
    confirm: { fields: { seconds: 'everybody' } },
    onPostFailure: 'everybody',
    revertScript: 'everybody',
    onFailureScript: 'scripts',
    prune: 'everybody',
    protect: { items: 'everybody' },
    pruneByDeployToken: 'everybody',
    forceByDeployToken: 'everybody',
    rollback: 'everybody',
    exact: 'everybody',
    fileMode: 'everybody',
    directoryMode: 'everybody',
    group: 'everybody',
    maintenanceFile: 'everybody',
    maintenancePage: 'everybody',
    rollout: rolloutPolicyReaders
  }
}
/** The keys of a policy in a request; null restores the default. */
export type GivenPolicy = { [Key in keyof Policy]?: Policy[Key] | null | undefined }

/** Returns the whole policy of a project. */
export function policyOf(project: { policy: PolicyChanges }): Policy {
  return { ...defaultPolicy, ...project.policy }
}

/**
 * Returns the keys that a project sets after a change. A key that is set to its default is not kept, unless it says more
 * than an absent one.
 */
export function changePolicy(before: PolicyChanges, given: GivenPolicy): PolicyChanges {
  const asked = Object.entries({ ...before, ...withoutAbsent(given) })
  const isSet = ([key, value]: [string, unknown]): boolean =>
    value !== null &&
    value !== undefined &&
    (tellingDefaults.has(key) || JSON.stringify(value) !== JSON.stringify(defaults.get(key)))
  return Object.fromEntries(asked.filter(isSet))
}

function withoutAbsent(given: GivenPolicy): GivenPolicy {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

/** Keys that bind pushes once they are set, if only to the default (tighten.ts). */
const tellingDefaults: ReadonlySet<string> = new Set<keyof Policy>(['rollout'])

const defaults: ReadonlyMap<string, unknown> = new Map(Object.entries(defaultPolicy))
