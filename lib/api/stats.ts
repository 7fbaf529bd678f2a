import { notFound } from '../base/errors.js'
import { json } from '../http/core/route.js'
import type { Project } from '../model/project.js'
import type { Stats } from '../machine/history.js'
import { queryLimit, queryText } from './query.js'
import type { Handler } from './route.js'
import { checkProject } from './scope.js'

const maxDays = 366

/** Handlers of statistics on the deployments of the last days. */
export function statsHandlers({ stats, projects }: { stats: Stats; projects: { get(id: string): Project } }) {
  return {
    heatmap: ({ query, actor }) =>
      json(stats.heatmap(queryLimit(query, 'days', { fallback: 365, max: maxDays }), actor.projects)),

    successRate: ({ query, actor }) =>
      json(stats.successRates(queryLimit(query, 'days', { fallback: 30, max: maxDays }), actor.projects)),

    durations: ({ query, actor }) => {
      const projectId = queryText(query, 'projectId')
      if (projectId !== undefined) {
        checkProject(actor, projectId, () => notFound('Project', projectId))
        projects.get(projectId)
      }
      const days = queryLimit(query, 'days', { fallback: 30, max: maxDays })
      return json(stats.durations({ projectId, scope: actor.projects, days }))
    }
  } satisfies Record<string, Handler>
}
