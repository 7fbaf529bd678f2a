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
  drift: (typeof driftModes)[number]
  /** The checks of a deployment; null: none. */
  gate: Gate | null
  /** Whether a deployment must be confirmed; null: only if its client asks for that. */
  confirm: { seconds: number } | null
  onPostFailure: (typeof postFailureModes)[number]
  revertScript: (typeof revertScripts)[number]
  /** The script that runs after a deployment has failed or was reverted; null: none. */
  onFailureScript: string | null
  prune: (typeof pruneModes)[number]
  /** Globs of paths that are never removed by a prune. */
  protect: readonly string[]
  /** Whether the deploy token of the project may ask for a prune. */
  pruneByDeployToken: boolean
  /** Whether the deploy token of the project may replace edited files although `drift` is `refuse`. */
  forceByDeployToken: boolean
  /** What a rollback does unless it says otherwise. */
  rollback: (typeof rollbackModes)[number]
  exact: (typeof exactModes)[number]
  /** Permissions of the files that svc puts in place, in octal; null: those of the archive. */
  fileMode: string | null
  /** Permissions of the directories that svc makes, in octal; null: those of the archive. */
  directoryMode: string | null
  /** The group of the files and directories that svc writes, its name or number; null: that of the process. */
  group: string | null
  /** The file that says that the project is in maintenance, relative to the target. */
  maintenanceFile: string
  /** A file of the target whose contents the maintenance file gets; null: a page of svc. */
  maintenancePage: string | null
  /** How a release gets to the nodes of the project, if it is placed on nodes. */
  rollout: RolloutPolicy
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

/** The keys of a policy that a project sets. */
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
