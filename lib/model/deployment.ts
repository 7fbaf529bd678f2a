import type { waitReasons } from '../base/shared/api.js'
import type { Bytes, Instant } from './scalars.js'
import { claimReaders, type SignedBy, signedByReaders, type StatementClaim } from './statement.js'
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
export const triggerSources = ['cli', 'rollback', 'repair', 'promotion'] as const
/** The trigger of a deployment. */
export type TriggerSource = (typeof triggerSources)[number]

/** The cause of a notification (§6.5). */
export type NotificationTrigger = TriggerSource | 'async_post_deploy' | 'manual' | 'confirmation' | 'approval'
/** The event of a notification. */
export type EventKey = 'deploy_success' | 'deploy_failure' | 'deploy_waiting' | 'recovered'

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
  /** A script in the background stays `running` until it ends, even if the deployment has finished. */
  status: 'running' | 'success' | 'failed' | 'skipped'
  startedAt: Instant
  endedAt: Instant | null
  /** Exit code of a script. Absent for other steps. */
  exitCode?: number | null
}

/** The steps that run a script. */
export const scriptSteps = ['preDeploy', 'postDeploy', 'onFailure'] as const

/** A script that was actually run, and its source. */
export interface RanScript {
  step: (typeof scriptSteps)[number]
  /** `platform` for a script of the project, `client` for a script of the upload. */
  source: 'platform' | 'client'
  /** Null for a caller without the right to scripts. @hidden */
  script: string
  /** Whether the script runs in the background. */
  async: boolean
}

/** Why a deployment whose files are in place is not settled yet. */
export const holdReasons = ['post', 'check', 'confirm'] as const

/** A decision about a deployment that needs an approval. @schema Approval */
export interface Decision {
  decision: 'approved' | 'rejected'
  /** Who decided: `token:<name>`, `admin`, `local`. */
  name: string
  /** The named token that decided. */
  tokenId: string | null
  at: Instant
  comment: string | null
  /** SHA-256 checksum of the list of files that was approved. Null for a rejection. */
  treeSha256: string | null
}

/** Why the earlier files of a deployment were put back. */
export const revertReasons = ['check', 'confirm', 'post', 'operator', 'restart', 'error'] as const
/** Why the earlier files of a deployment were put back. */
export type RevertReason = (typeof revertReasons)[number]

/** The result of one check of a deployment. */
export interface CheckResult {
  /** What was checked. */
  check: string
  ok: boolean
  /** Number of attempts. */
  attempts: number
  /** The last answer. */
  message: string
  endedAt: Instant
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
  /** `cli` for an upload, `rollback` for a rollback or an undo, `promotion` for a release of another project. */
  triggerSource: TriggerSource
  startTime: Instant
  endTime: Instant | null
  /** Seconds with the suffix `s`. Null until the deployment has finished. */
  duration: string | null
  /** The deployment whose archive was deployed again. Null for an upload. */
  rollbackOf: string | null
  /** Whether it restored an earlier state of the target exactly. */
  exact: boolean
  /** The deployment whose changes it undid. Otherwise null. */
  undoOf: string | null
  /** The deployment of another project whose archive was deployed. Otherwise null. */
  promotedFrom: string | null
  /** Why it may begin outside of the windows of the project. Null: no reason was given. */
  override: string | null
  /** A note on the deployment. */
  message: string | null
  env: string
  /** Whether the archive still exists, so that a rollback is possible. */
  hasArtifact: boolean
  /** Size of the archive in bytes. */
  archiveBytes: Bytes | null
  /** SHA-256 checksum of the archive in hexadecimal. */
  archiveSha256: string | null
  /** Number of bytes that the client sent, if it sent only what had changed. Otherwise null. */
  uploadedBytes: Bytes | null
  /** The deployment whose archive contains the rest. Null if the whole archive was sent. */
  reusedFrom: string | null
  /** Number of files that the deployment installed. */
  fileCount: number | null
  /** Why the deployment failed, or who corrected its status. Otherwise null. */
  errorMessage: string | null
  /** Who started it: `token:<name>`, `project:<id>`, `admin`. Null for a deployment of an earlier version. */
  actor: string | null
  /** The named token that started it. */
  tokenId: string | null
  /** The client address that the server saw. */
  actorIp: string | null
  /** The client address in X-Forwarded-For. Null if it is the same as `actorIp`. */
  claimedIp: string | null
  /** The `X-Svc-Trace-Id` of the request. Null if it had none. */
  traceId: string | null
  /** Sequence number of the change to the target. The highest of a project is live. Null if nothing changed. */
  placed: number | null
  /** The origin of the files as the client reported it. The server does not verify it. */
  provenance: Provenance | null
  /** SHA-256 checksum of the list of files in the archive: the same for the same release. Null if it is unknown. */
  treeSha256: string | null
  /** The keys that signed the release, verified by the server. */
  signedBy: SignedBy[]
  /** What the statement of the release says. The client claims it. Null if there is no statement. */
  statement: StatementClaim | null
  /**
   * `approval` or `schedule`: what it waits for before it begins. Otherwise why it may still be reverted although its files are
   * in place. Null: neither.
   */
  heldFor: (typeof holdReasons)[number] | (typeof waitReasons)[number] | null
  /**
   * When it begins (`schedule`), when it fails without an approval, or when the earlier files are put back unless the
   * deployment is settled before.
   */
  holdUntil: Instant | null
  /** The time at which it was to begin. Null: at once. */
  startAt: Instant | null
  /** Who approved or rejected it. */
  approvals: Decision[]
  /** The time in which the deployment must be confirmed. Null if it need not be. */
  confirmSeconds: number | null
  /** When the earlier files were put back. */
  revertedAt: Instant | null
  /** Why the earlier files were put back. */
  revertReason: RevertReason | null
  /** The results of the checks after the files were in place. */
  checks: CheckResult[]
  steps: DeploymentStep[]
  /** The scripts that ran. */
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

/** A record without its output, as lists show it. @schema ListedDeployment */
export interface ListedDeployment extends DeploymentRow {
  /** The archive below the data directory. Null if it is not kept. */
  artifactPath?: string | null
  /** Size of the kept archive in bytes. Null if it is not kept. */
  artifactSize?: Bytes | null
  /** Present if the post-deploy script failed in the background. */
  backgroundFailed?: true
  /** The URL of the commit, if the setting commit_url or the repository provides it. */
  commitUrl?: string
  /** The rollout that a queued deployment waits for, in a single record. */
  rolloutAhead?: RolloutAhead
}

/** A record as the API returns it (§2.2). */
export interface Deployment extends ListedDeployment {
  output: string
  /** Present if the beginning of `output` was cut off. */
  outputTruncated?: boolean
  /** Present if the file of the output is lost. `output` says so. */
  outputLost?: true
}

/** A deployment in an answer. Lists may omit `output`. @schema Deployment */
export type DeploymentAnswer = Omit<Deployment, 'output'> & {
  /** The end of the output. */
  output?: string
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
    promotedFrom: 'everybody',
    override: 'everybody',
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
    signedBy: signedByReaders,
    statement: claimReaders,
    uploadedBytes: 'everybody',
    reusedFrom: 'everybody',
    heldFor: 'everybody',
    holdUntil: 'everybody',
    startAt: 'everybody',
    approvals: {
      items: {
        fields: {
          decision: 'everybody',
          name: 'everybody',
          tokenId: 'everybody',
          at: 'everybody',
          comment: 'everybody',
          treeSha256: 'everybody'
        }
      }
    },
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
    outputTruncated: 'everybody',
    outputLost: 'everybody'
  }
}

/** The error of a deployment that the end of a process interrupted, for each state that it can have had. */
export const restarted = {
  server: {
    queued: 'The server was restarted before the deployment started',
    // The deployment may have finished: perhaps only the record of its result was lost.
    running: 'The server was restarted before the result of the deployment was recorded',
    unrolled: 'The server was restarted before the rollout began: no node has changed. Push again'
  },
  hub: {
    queued: 'The hub that led stopped before the deployment started',
    running: 'The hub that led stopped before the result of the deployment was recorded',
    unrolled: 'The hub that led stopped before the rollout began: no node has changed. Push again'
  }
}

/** Returns what the end of a process of this machine interrupted; null: the deployment ended for another reason. */
export function interruptedWhile({ errorMessage }: Pick<DeploymentRow, 'errorMessage'>): 'queued' | 'running' | null {
  const { queued, running } = restarted.server
  if (errorMessage === queued) return 'queued'
  return errorMessage === running ? 'running' : null
}
