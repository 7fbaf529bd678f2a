import type { Instant } from './scalars.js'
import type { ListedDeployment } from './deployment.js'
import type { HealthReport, ServerStatus } from './health.js'
import type { Project, ShownProject } from './project.js'

/** The contents of the panel's first page, in one answer: the panel requests it every few seconds. */
export interface Overview {
  status: ServerStatus
  health: HealthReport
  runningCount: number
  queuedCount: number
  broken: BrokenProjects
  /** The latest deployments, newest first. */
  deployments: ListedDeployment[]
  /** The pinned projects. */
  pinned: PinnedProject[]
  /** The newest project. Null as soon as anything has been deployed. */
  newestProject: ShownProject | null
  /** Null unless the query `days` asks for them. */
  days: RecentDays | null
}

/** The projects whose newest finished deployment failed, also in the background. */
export interface BrokenProjects {
  total: number
  /** The projects that have been broken for the longest first; not all of them if there are many. */
  items: BrokenProject[]
}

/** A project whose newest finished deployment failed. */
export interface BrokenProject {
  projectId: string
  projectName: string
  projectEnv: string
  /** Start of the first failure since the last success. */
  since: Instant
  /** The deployment that failed last. */
  failed: DeploymentBrief
  /** The newest successful deployment, or null. */
  lastGood: DeploymentBrief | null
  /** Whether the files of `lastGood` are still in the target. */
  isLastGoodLive: boolean
  /** A queued or running deployment of the project, or null. */
  goingId: string | null
}

/** The fields of a deployment that one line about it needs. */
export type DeploymentBrief = Pick<
  ListedDeployment,
  | 'id'
  | 'status'
  | 'triggerSource'
  | 'message'
  | 'provenance'
  | 'startTime'
  | 'endTime'
  | 'errorMessage'
  | 'hasArtifact'
  | 'backgroundFailed'
>

/** The contents of a project's page in the panel, except for the project itself, in one answer. */
export interface ProjectOverview {
  /** The deployment whose files are in the target; null if none is known. */
  live: ListedDeployment | null
  /**
   * If `live` is a rollback, the deployment whose archive it deployed, unless that has been removed; null otherwise.
   */
  liveSource: ListedDeployment | null
  /** The current failure of the project, or null. */
  broken: BrokenProject | null
  /** The latest deployments, newest first. */
  deployments: ListedDeployment[]
  deploymentCount: number
}

/** The results of the deployments of the last days. Days on which none finished are omitted. */
export interface RecentDays {
  /** The current date of the server (UTC): `2026-11-21`. */
  today: string
  items: DayCounts[]
}

/** The number of deployments of a day, by result. */
export interface DayCounts {
  date: string
  success: number
  failed: number
}

/** The fields of a pinned project that the panel shows. */
export type PinnedProject = Pick<Project, 'id' | 'name' | 'env' | 'status' | 'lastDeployAt'>
