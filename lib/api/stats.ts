import { json } from '../http/core/route.js'
import type { Project } from '../model/project.js'
import type { Stats } from '../machine/stats.js'
import { queryLimit, queryText } from './query.js'
import type { Handler } from './route.js'

const maxDays = 366

/** Handlers of statistics on the deployments of the last days. */
export function statsHandlers({ stats, projects }: { stats: Stats; projects: { get(id: string): Project } }) {
  return {
    heatmap: ({ query }) => json(stats.heatmap(queryLimit(query, 'days', { fallback: 365, max: maxDays }))),

    successRate: ({ query }) => json(stats.successRates(queryLimit(query, 'days', { fallback: 30, max: maxDays }))),

    durations: ({ query }) => {
      const projectId = queryText(query, 'projectId')
      if (projectId !== undefined) projects.get(projectId)
      return json(stats.durations({ projectId, days: queryLimit(query, 'days', { fallback: 30, max: maxDays }) }))
    }
  } satisfies Record<string, Handler>
}
