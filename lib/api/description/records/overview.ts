/* Schemas of the overviews and the statistics of deployments. */
import type { Durations } from '../../../machine/stats.js'
import { changeTopics, type ChangeVersions } from '../../../model/changes.js'
import { stepNames, triggerSources } from '../../../model/deployment.js'
import type {
  BrokenProject,
  DayCounts,
  DeploymentBrief,
  Overview,
  PinnedProject,
  ProjectOverview,
  RecentDays
} from '../../../model/overview.js'
import type { Heatmap, SuccessRates } from '../../../model/stats.js'
import {
  boolean,
  constant,
  described,
  instant,
  integer,
  list,
  nullable,
  nullableInstant,
  number,
  oneOf,
  optional,
  record,
  text
} from '../schema.js'
import { deployId, env, nullableText, projectId, statuses } from './common.js'
import { deployment, provenance } from './deployments.js'
import { healthReport, serverStatus } from './machine.js'
import { project } from './projects.js'

const dayCounts = record<DayCounts>({ date: text('2030-01-02'), success: integer(5), failed: integer(0) })

const pinned = record<PinnedProject>({
  id: projectId,
  name: text('Shop'),
  env,
  status: oneOf(['idle', 'running', 'success', 'failed'], 'success'),
  lastDeployAt: nullableInstant
})

const brief = record<DeploymentBrief>({
  id: deployId,
  triggerSource: oneOf(triggerSources),
  startTime: instant,
  endTime: nullableInstant,
  message: nullable(text('New prices')),
  status: oneOf(statuses, 'failed'),
  hasArtifact: boolean(true),
  errorMessage: nullableText,
  provenance: nullable(provenance),
  backgroundFailed: optional(constant(true))
})

const broken = record<BrokenProject>({
  projectId,
  projectName: text('Shop'),
  projectEnv: env,
  since: described('Start of the first failure since the last success', instant),
  failed: described('The deployment that failed last', brief),
  lastGood: described('The newest successful deployment, or null', nullable(brief)),
  isLastGoodLive: described('Whether the files of `lastGood` are still in the target', boolean(false)),
  goingId: described('A queued or running deployment of the project, or null', nullable(deployId, null))
})

/** The overview of a project. */
export const projectOverview = record<ProjectOverview>({
  live: nullable(deployment as never),
  liveSource: nullable(deployment as never, null),
  broken: described('The current failure of the project, or null', nullable(broken, null)),
  deployments: list(deployment) as never,
  deploymentCount: integer(12)
})

/** The overview of the server. */
export const overview = record<Overview>({
  broken: record<Overview['broken']>({ total: integer(0), items: list(broken) }),
  status: serverStatus,
  health: healthReport,
  runningCount: integer(0),
  queuedCount: integer(0),
  deployments: list(deployment) as never,
  pinned: described('The pinned projects', list(pinned)),
  newestProject: described('The newest project. Null as soon as anything has been deployed', nullable(project, null)),
  days: nullable(record<RecentDays>({ today: text('2030-01-02'), items: list(dayCounts) }))
})

/** The number of deployments per day. */
export const heatmap = record<Heatmap>({
  days: integer(365),
  cells: list(record<Heatmap['cells'][number]>({ date: text('2030-01-02'), count: integer(5), failed: integer(0) }))
})

/** The success rate per day. */
export const successRates = record<SuccessRates>({
  days: integer(30),
  points: list(
    record<SuccessRates['points'][number]>({
      date: text('2030-01-02'),
      success: integer(5),
      failed: integer(0),
      rate: nullable(number(100))
    })
  )
})

const stepMs = record<Durations['recent'][number]['steps'][number]>({
  name: oneOf(stepNames, 'extract'),
  ms: number(120)
})

/** The durations of deployment steps. */
export const durations = record<Durations>({
  days: integer(30),
  projectId: nullable(projectId, null),
  deployments: integer(12),
  steps: list(
    record<Durations['steps'][number]>({
      name: oneOf(stepNames, 'extract'),
      count: integer(12),
      medianMs: number(120),
      p95Ms: number(300),
      maxMs: number(350)
    })
  ),
  recent: list(
    record<Durations['recent'][number]>({
      id: deployId,
      startTime: instant,
      status: oneOf(statuses, 'success'),
      steps: list(stepMs)
    })
  )
})

const version = text('12.7')

/** The versions of the lists. */
export const changeVersions = record<ChangeVersions>(
  Object.fromEntries(Object.keys(changeTopics).map(topic => [topic, version])) as never
)
