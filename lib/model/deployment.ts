import type { Provenance } from './provenance.js'

/** States of a deployment (§3; decided: `queued` and `running` while it goes on). */
export type DeploymentStatus = 'queued' | 'running' | 'success' | 'failed'
export type FinalStatus = 'success' | 'failed'

/** What a record says started it (§2.2). */
export type TriggerSource = 'cli' | 'rollback'

/** What a notification says caused it (§6.5). */
export type NotificationTrigger = 'cli' | 'rollback' | 'async_post_deploy' | 'manual'
export type EventKey = 'deploy_success' | 'deploy_failure'

/** The steps of one upload, in the order of §3. */
export const stepNames = ['store', 'target', 'preDeploy', 'extract', 'postDeploy', 'cleanup'] as const
export type StepName = (typeof stepNames)[number]

export interface DeploymentStep {
  name: StepName
  /** A script in the background is `running` until it ends, also when the deployment is final. */
  status: 'running' | 'success' | 'failed' | 'skipped'
  startedAt: string
  endedAt: string | null
  /** Of a script; absent elsewhere. */
  exitCode?: number | null
}

/** A script that really ran, and where it came from. */
export interface RanScript {
  step: 'preDeploy' | 'postDeploy'
  source: 'platform' | 'client'
  script: string
  async: boolean
}

/** The process group of a script that runs, so that it is known again if svc is killed. */
export interface ScriptProcess {
  deployId: string
  step: RanScript['step']
  /** The number of the group, and of its leader. */
  pid: number
  /** When its leader started, in clock ticks since boot. */
  startedAt: string
  /** The kernel's own name of that boot. */
  bootId: string
  /** What the file system calls the data directory: a copy of it, or one restored from a backup, knows no processes. */
  home: string
}

/** The record, and whether the post-deploy script failed in the background, which leaves the deployment what it is (§3). */
export function listedDeployment(row: DeploymentRow): ListedDeployment {
  return failedInBackground(row) ? { ...row, backgroundFailed: true } : row
}

function failedInBackground({ steps, scripts }: DeploymentRow): boolean {
  const isAsync = scripts.some(script => script.step === 'postDeploy' && script.async)
  return isAsync && steps.some(step => step.name === 'postDeploy' && step.status === 'failed')
}

/** A deployment record as it is stored: all but the output, which is a file of its own. Unknown yet: null. */
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
  message: string | null
  env: string
  hasArtifact: boolean
  archiveBytes: number | null
  archiveSha256: string | null
  fileCount: number | null
  errorMessage: string | null
  /** The address that was seen: the right-most one that no trusted proxy wrote. */
  actorIp: string | null
  /** The address that the client, or a proxy, claims (the first of X-Forwarded-For); null where it is the same. */
  claimedIp: string | null
  /**
   * The how-manieth change of the project's target it was; null: it never changed it. A failed deployment whose files stayed
   * in place has one, too. The highest of a project is what is in its target.
   */
  placed: number | null
  /** Where its files come from, as the client claims; null if the client did not say. A rollback has that of its source. */
  provenance: Provenance | null
  steps: DeploymentStep[]
  scripts: RanScript[]
}

/** The record without its output, as lists show it. */
export interface ListedDeployment extends DeploymentRow {
  /** Only where the post-deploy script failed in the background. */
  backgroundFailed?: true
  /** The page of its commit, if the address is known (setting `commit_url`). */
  commitUrl?: string
}

/** The record as the API answers it (§2.2). */
export interface Deployment extends ListedDeployment {
  output: string
  /** Only where the head of `output` was cut. */
  outputTruncated?: boolean
}

/** One line of a deployment's output: when it came, and the bare text without a newline. */
export interface OutputLine {
  at: string
  text: string
}

export const maxMessageLength = 500
