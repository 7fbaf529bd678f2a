import type { ListedDeployment } from './deployment.js'
import type { HealthReport, ServerStatus } from './health.js'
import type { Project } from './project.js'

/** What the panel's first page shows, in one answer: it is asked for again every few seconds. */
export interface Overview {
  status: ServerStatus
  health: HealthReport
  runningCount: number
  queuedCount: number
  broken: BrokenProjects
  /** The last ones, newest first. */
  deployments: ListedDeployment[]
  pinned: PinnedProject[]
  /** Only while nothing has been deployed: the project that the first deployment goes to. */
  newestProject: Project | null
  /** Only where the query `days` asks for them. */
  days: RecentDays | null
}

/** The projects whose newest finished deployment failed, also in the background, and that no later one has mended. */
export interface BrokenProjects {
  total: number
  /** Those that have been broken for the longest first; not all of them if there are many. */
  items: BrokenProject[]
}

export interface BrokenProject {
  projectId: string
  projectName: string
  projectEnv: string
  /** When the first failure began after which no deployment succeeded. */
  since: string
  /** The deployment that failed last. */
  failed: DeploymentBrief
  /** The newest deployment that succeeded; null: none. */
  lastGood: DeploymentBrief | null
  /** Whether the files of `lastGood` are still in the target: there is nothing to go back to. */
  isLastGoodLive: boolean
  /** A deployment of the project that is queued or running; null: none. */
  goingId: string | null
}

/** What a line about a deployment needs. */
export type DeploymentBrief = Pick<
  ListedDeployment,
  'id' | 'status' | 'triggerSource' | 'message' | 'provenance' | 'startTime' | 'endTime' | 'errorMessage' | 'hasArtifact' | 'backgroundFailed'
>

/** What the panel's page of a project shows beside the project itself, in one answer. */
export interface ProjectOverview {
  /** The deployment whose files are in the target; null: none is known. */
  live: ListedDeployment | null
  /** If `live` is a rollback: the upload whose archive it deployed, unless that has been removed; else null. */
  liveSource: ListedDeployment | null
  broken: BrokenProject | null
  /** The last ones, newest first. */
  deployments: ListedDeployment[]
  deploymentCount: number
}

/** How the deployments of the last days ended; days on which none did are left out. */
export interface RecentDays {
  /** Of the server (UTC): `2026-11-21`. */
  today: string
  items: DayCounts[]
}

export interface DayCounts {
  date: string
  success: number
  failed: number
}

export type PinnedProject = Pick<Project, 'id' | 'name' | 'env' | 'status' | 'lastDeployAt'>
