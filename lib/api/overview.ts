import { json } from '../http/route.js'
import { listedDeployment, type DeploymentRow, type DeploymentStatus } from '../model/deployment.js'
import type { ServerStatus } from '../model/health.js'
import type { Overview, ProjectOverview, RecentDays } from '../model/overview.js'
import type { Project } from '../model/project.js'
import type { Broken } from '../system/broken.js'
import type { Health } from '../system/health.js'
import type { Stats } from '../system/stats.js'
import { queryLimit } from './fields.js'
import type { Handler } from './route.js'

export interface OverviewNeeds {
  status(): ServerStatus
  health: Pick<Health, 'report'>
  stats: Pick<Stats, 'successRates'>
  broken: Broken
  deployments: {
    find(deployId: string): DeploymentRow | undefined
    list(query: { projectId?: string; limit: number }): DeploymentRow[]
    count(query: { projectId?: string; status?: DeploymentStatus }): number
    /** The one whose files are in the project's target. */
    live(projectId: string): DeploymentRow | undefined
  }
  projects: {
    /** Refuses an id that is unknown. */
    get(id: string): Project
    /** Newest first. */
    pinned(): Project[]
    newest(): Project | undefined
  }
}

const maxDays = 366
const shownDeployments = 8
const shownBroken = 20
const shownOfProject = 20
/** Roll-backs of roll-backs that are followed to the upload. */
const maxRollbacks = 100

/** What the panel's first page and that of a project show: one request in the place of several. */
export function overviewHandlers({ status, health, stats, broken, deployments, projects }: OverviewNeeds) {
  /** The upload whose archive a roll-back deployed. */
  function sourceOf(row: DeploymentRow | undefined): DeploymentRow | null {
    if (row === undefined || row.rollbackOf === null) return null
    let at: DeploymentRow | undefined = row
    for (let i = 0; i < maxRollbacks && at !== undefined && at.rollbackOf !== null; i++) at = deployments.find(at.rollbackOf)
    return at === undefined || at.rollbackOf !== null ? null : at
  }

  return {
    /** `GET /api/projects/:id/overview`: what is live, what is broken, and the last deployments (model/overview.ts). */
    readProject: ({ params }) => {
      const { id: projectId } = projects.get(params['id'] as string)
      const live = deployments.live(projectId)
      const source = sourceOf(live)
      const overview: ProjectOverview = {
        live: live === undefined ? null : listedDeployment(live),
        liveSource: source === null ? null : listedDeployment(source),
        broken: broken.of(projectId),
        deployments: deployments.list({ projectId, limit: shownOfProject }).map(listedDeployment),
        deploymentCount: deployments.count({ projectId })
      }
      return json(overview)
    },

    /** `GET /api/overview?days=`: the whole server (model/overview.ts). */
    read: async ({ query }) => {
      const last = deployments.list({ limit: shownDeployments })
      const overview: Overview = {
        status: status(),
        health: await health.report(),
        runningCount: deployments.count({ status: 'running' }),
        queuedCount: deployments.count({ status: 'queued' }),
        broken: broken.list(shownBroken),
        deployments: last.map(listedDeployment),
        pinned: projects.pinned().map(({ id, name, env, status, lastDeployAt }) => {
          return { id, name, env, status, lastDeployAt }
        }),
        newestProject: last.length > 0 ? null : (projects.newest() ?? null),
        days: query.has('days') ? recentDays(stats, queryLimit(query, 'days', { fallback: maxDays, max: maxDays })) : null
      }
      return json(overview)
    }
  } satisfies Record<string, Handler>
}

function recentDays(stats: Pick<Stats, 'successRates'>, days: number): RecentDays {
  const { points } = stats.successRates(days)
  const items = points.map(({ date, success, failed }) => ({ date, success, failed }))
  return { today: points.at(-1)?.date ?? '', items: items.filter(({ success, failed }) => success + failed > 0) }
}
