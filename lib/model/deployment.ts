import type { Provenance } from './provenance.js'
import type { Readers } from './readers.js'
import type { RolloutAhead } from './rollout.js'

/** The statuses of a deployment (§3; decided: `queued` and `running` while it is unfinished). */
export const deploymentStatuses = ['queued', 'running', 'success', 'failed'] as const
/** The status of a deployment. */
export type DeploymentStatus = (typeof deploymentStatuses)[number]
/** The status of a finished deployment. */
export type FinalStatus = 'success' | 'failed'

/** The possible triggers of a deployment, as its record names them (§2.2). */
export const triggerSources = ['cli', 'rollback', 'repair'] as const
/** The trigger of a deployment. */
export type TriggerSource = (typeof triggerSources)[number]

/** The cause of a notification (§6.5). */
export type NotificationTrigger = 'cli' | 'rollback' | 'repair' | 'async_post_deploy' | 'manual'
/** The event of a notification. */
export type EventKey = 'deploy_success' | 'deploy_failure'

/**
 * The steps of a deployment, in the order of §3. `check`, `confirm`, `revert` and `onFailure` occur only where they are needed;
 * `rollout` takes the place of all others between `store` and `cleanup` if the project is on nodes.
 */
export const stepNames = [
  'store',
  'rollout',
  'target',
  'preDeploy',
  'extract',
  'postDeploy',
  'check',
  'confirm',
  'revert',
  'onFailure',
  'cleanup'
] as const
/** The name of a step. */
export type StepName = (typeof stepNames)[number]

/** A step of a deployment, with its times and result. */
export interface DeploymentStep {
  name: StepName
  /** A script in the background is `running` until it ends, even if the deployment has finished. */
  status: 'running' | 'success' | 'failed' | 'skipped'
  startedAt: string
  endedAt: string | null
  /** The exit code of a script; absent for other steps. */
  exitCode?: number | null
}

/** The steps that run a script. */
export const scriptSteps = ['preDeploy', 'postDeploy', 'onFailure'] as const

/** A script that was actually run, and its source. */
export interface RanScript {
  step: (typeof scriptSteps)[number]
  source: 'platform' | 'client'
  script: string
  async: boolean
}

/** Why a deployment whose files are in place is not settled yet. */
export const holdReasons = ['post', 'check', 'confirm'] as const
/** Why the earlier files of a deployment were put back. */
export const revertReasons = ['check', 'confirm', 'post', 'operator', 'restart', 'error'] as const
/** Why the earlier files of a deployment were put back. */
export type RevertReason = (typeof revertReasons)[number]

/** The result of one check of a deployment. */
export interface CheckResult {
  /** What was checked, as in the policy of the project. */
  check: string
  ok: boolean
  /** Number of attempts. */
  attempts: number
  /** The last answer: a status code, an error. */
  message: string
  endedAt: string
}

/** The process group of a running script, recorded so that svc recognises it after being killed. */
export interface ScriptProcess {
  deployId: string
  step: RanScript['step']
  /** The id of the group, and of its leader. */
  pid: number
  /** The start time of its leader, in clock ticks since boot. */
  startedAt: string
  /** The kernel's id of that boot. */
  bootId: string
  /**
   * The file system's identity of the data directory. A copy of the directory, or one restored from a backup, has
   * another identity, so its records do not refer to any process.
   */
  home: string
}

/**
 * Returns the record with its archive, and whether its post-deploy script failed in the background. Such a failure does
 * not change the status of the deployment (§3).
 */
export function listedDeployment(row: DeploymentRow): ListedDeployment {
  const listed = {
    ...row,
    artifactPath: row.hasArtifact ? `deployments/${row.id}.zip` : null,
    artifactSize: row.hasArtifact ? row.archiveBytes : null
  }
  return failedInBackground(row) ? { ...listed, backgroundFailed: true } : listed
}

function failedInBackground({ steps, scripts }: DeploymentRow): boolean {
  const isAsync = scripts.some(script => script.step === 'postDeploy' && script.async)
  return isAsync && steps.some(step => step.name === 'postDeploy' && step.status === 'failed')
}

/** A deployment record as it is stored, without its output, which is a separate file. Values not yet known are null. */
export interface DeploymentRow {
  id: string
  projectId: string
  projectName: string
  status: DeploymentStatus
  triggerSource: TriggerSource
  startTime: string
  endTime: string | null
  /** Seconds with the suffix `s`. */
  duration: string | null
  rollbackOf: string | null
  /** Whether it restored an earlier state of the target exactly: its archive then has only what differed from it. */
  exact: boolean
  /** The deployment whose changes it undid; null if it is no undo. */
  undoOf: string | null
  message: string | null
  env: string
  hasArtifact: boolean
  archiveBytes: number | null
  archiveSha256: string | null
  fileCount: number | null
  errorMessage: string | null
  /** Who started it, as in the audit log: `token:<name>`, `project:<id>`, `admin`; null for one of an earlier version. */
  actor: string | null
  /** The id of the named token that started it; null: another kind of token. */
  tokenId: string | null
  /** The observed address: the right-most one that no trusted proxy wrote. */
  actorIp: string | null
  /** The address that the client, or a proxy, claims (the first of X-Forwarded-For); null if it equals `actorIp`. */
  claimedIp: string | null
  /** The id that the client gave its request (`X-Svc-Trace-Id`); null: it gave none. */
  traceId: string | null
  /**
   * The number of this deployment among the changes of the project's target; null if it never changed the target. A
   * failed deployment whose files stayed in place has a number, too. The files of the deployment with the highest
   * number are in the target.
   */
  placed: number | null
  /**
   * The origin of its files as the client claims it; null if the client sent none. A rollback has that of its source.
   */
  provenance: Provenance | null
  /** The tree of its archive (shared/tree-text.ts); null for a deployment of an earlier version. */
  treeSha256: string | null
  /** Present while the files are in place and the deployment may still be reverted. */
  heldFor: (typeof holdReasons)[number] | null
  /** When the earlier files are put back unless the deployment is settled before. */
  holdUntil: string | null
  /** The time in which the deployment must be confirmed; null if it need not be. */
  confirmSeconds: number | null
  /** When the earlier files were put back. */
  revertedAt: string | null
  /** Why they were, or are to be, put back. It is recorded before that begins. */
  revertReason: RevertReason | null
  checks: CheckResult[]
  steps: DeploymentStep[]
  scripts: RanScript[]
}

/** Whether the earlier files of a deployment are to be put back, and that has not succeeded yet. */
export function isRevertPending(row: Pick<DeploymentRow, 'revertReason' | 'revertedAt'>): boolean {
  return row.revertReason !== null && row.revertedAt === null
}

/** Returns the step at which a deployment failed. The failure of the on-failure script is not one of the deployment. */
export function failedStep<T extends Pick<DeploymentStep, 'name' | 'status'>>(steps: readonly T[]): T | undefined {
  return steps.findLast(({ name, status }) => status === 'failed' && name !== 'onFailure')
}

/** A record without its output, as lists show it. */
export interface ListedDeployment extends DeploymentRow {
  /** The archive below the data directory; null: it is not kept. Absent in older servers. */
  artifactPath?: string | null
  /** The size of the archive in bytes; null: it is not kept. Absent in older servers. */
  artifactSize?: number | null
  /** Present if the post-deploy script failed in the background. */
  backgroundFailed?: true
  /** The address of the commit's page, if it is known (setting `commit_url`). */
  commitUrl?: string
  /** The rollout that it waits for, in a single record. */
  rolloutAhead?: RolloutAhead
}

/** A record as the API returns it (§2.2). */
export interface Deployment extends ListedDeployment {
  output: string
  /** Present if the beginning of `output` was cut off. */
  outputTruncated?: boolean
}

/** One line of a deployment's output: its time, and its text without the newline. */
export interface OutputLine {
  at: string
  text: string
}

/** Maximum length of a deployment's message in characters. */
export const maxMessageLength = 500

const withCommand = /^(The check )?command ".*"(?=$| failed: )/s
/**
 * The texts of a check that runs a command, as earlier versions wrote them: with the command. Callers without
 * the right to scripts read them without it.
 */
export const withoutCommand = { without: (text: string) => text.replace(withCommand, '$1command') }

/** Who reads the fields of a deployment. */
export const deploymentReaders: Readers<Deployment> = {
  fields: {
    id: 'everybody',
    projectId: 'everybody',
    projectName: 'everybody',
    status: 'everybody',
    triggerSource: 'everybody',
    startTime: 'everybody',
    endTime: 'everybody',
    duration: 'everybody',
    rollbackOf: 'everybody',
    exact: 'everybody',
    undoOf: 'everybody',
    message: 'everybody',
    env: 'everybody',
    hasArtifact: 'everybody',
    archiveBytes: 'everybody',
    archiveSha256: 'everybody',
    fileCount: 'everybody',
    errorMessage: withoutCommand,
    actor: 'everybody',
    tokenId: 'everybody',
    actorIp: 'everybody',
    claimedIp: 'everybody',
    traceId: 'everybody',
    placed: 'everybody',
    provenance: {
      fields: {
        source: 'everybody',
        commit: 'everybody',
        branch: 'everybody',
        tag: 'everybody',
        author: 'everybody',
        subject: 'everybody',
        dirty: 'everybody',
        repository: 'everybody',
        ci: { fields: { system: 'everybody', run: 'everybody', url: 'everybody', actor: 'everybody' } },
        by: 'everybody'
      }
    },
    treeSha256: 'everybody',
    heldFor: 'everybody',
    holdUntil: 'everybody',
    confirmSeconds: 'everybody',
    revertedAt: 'everybody',
    revertReason: 'everybody',
    checks: {
      items: {
        fields: {
          check: withoutCommand,
          ok: 'everybody',
          attempts: 'everybody',
          message: 'everybody',
          endedAt: 'everybody'
        }
      }
    },
    steps: {
      items: {
        fields: {
          name: 'everybody',
          status: 'everybody',
          startedAt: 'everybody',
          endedAt: 'everybody',
          exitCode: 'everybody'
        }
      }
    },
    scripts: { items: { fields: { step: 'everybody', source: 'everybody', script: 'scripts', async: 'everybody' } } },
    artifactPath: 'everybody',
    artifactSize: 'everybody',
    backgroundFailed: 'everybody',
    commitUrl: 'everybody',
    rolloutAhead: { fields: { id: 'everybody', state: 'everybody', since: 'everybody', until: 'everybody' } },
    output: 'everybody',
    outputTruncated: 'everybody'
  }
}
