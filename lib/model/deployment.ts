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

/** Whether the post-deploy script failed in the background, which leaves the deployment what it is (§3). */
export function failedInBackground({ steps, scripts }: Pick<DeploymentRow, 'steps' | 'scripts'>): boolean {
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
  steps: DeploymentStep[]
  scripts: RanScript[]
}

/** The record as the API answers it (§2.2). */
export interface Deployment extends DeploymentRow {
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
