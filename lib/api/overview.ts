import { json } from '../http/route.js'
import { listedDeployment, type DeploymentRow, type DeploymentStatus } from '../model/deployment.js'
import type { ServerStatus } from '../model/health.js'
import type { Overview, RecentDays } from '../model/overview.js'
import type { Project } from '../model/project.js'
import type { Health } from '../system/health.js'
import type { Stats } from '../system/stats.js'
import { queryLimit } from './fields.js'
import type { Handler } from './route.js'

export interface OverviewNeeds {
  status(): ServerStatus
  health: Pick<Health, 'report'>
  stats: Pick<Stats, 'successRates'>
  deployments: {
    list(query: { limit: number }): DeploymentRow[]
    count(query: { status: DeploymentStatus }): number
  }
  projects: {
    /** Newest first. */
    pinned(): Project[]
    newest(): Project | undefined
  }
}

const maxDays = 366
const shownDeployments = 8

/** What the panel's first page shows: one request in the place of six. */
export function overviewHandlers({ status, health, stats, deployments, projects }: OverviewNeeds) {
  return {
    read: async ({ query }) => {
      const last = deployments.list({ limit: shownDeployments })
      const overview: Overview = {
        status: status(),
        health: await health.report(),
        runningCount: deployments.count({ status: 'running' }),
        queuedCount: deployments.count({ status: 'queued' }),
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
