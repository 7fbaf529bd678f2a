import type { ListedDeployment } from './deployment.js'
import type { HealthReport, ServerStatus } from './health.js'
import type { Project } from './project.js'

/** What the panel's first page shows, in one answer: it is asked for again every few seconds. */
export interface Overview {
  status: ServerStatus
  health: HealthReport
  runningCount: number
  queuedCount: number
  /** The last ones, newest first. */
  deployments: ListedDeployment[]
  pinned: PinnedProject[]
  /** Only while nothing has been deployed: the project that the first deployment goes to. */
  newestProject: Project | null
  /** Only where the query `days` asks for them. */
  days: RecentDays | null
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
