import type { DeploymentRow } from './deployment.js'
import type { HealthReport, ServerStatus } from './health.js'
import type { Project } from './project.js'
import type { SuccessRates } from './stats.js'

/** What the panel's first page shows, in one answer: it is asked for again every few seconds. */
export interface Overview {
  status: ServerStatus
  health: HealthReport
  runningCount: number
  queuedCount: number
  /** The last ones, newest first. */
  deployments: DeploymentRow[]
  pinned: PinnedProject[]
  /** Only while nothing has been deployed: the project that the first deployment goes to. */
  newestProject: Project | null
  /** Only where `days` asks for them. */
  rates: SuccessRates | null
}

export type PinnedProject = Pick<Project, 'id' | 'name' | 'env' | 'status' | 'lastDeployAt'>
