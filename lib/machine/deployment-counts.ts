import { createHistogram, type Histogram } from '../base/histogram.js'
import type { DeploymentRow, FinalStatus, StepName } from '../model/deployment.js'
import type { Metric, Sample } from './metrics-text.js'

/** Number of projects with their own series, oldest first. The others share the series "other". */
export const maxCountedProjects = 100
const other = 'other'
const secondsBounds = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800]
const statuses: readonly FinalStatus[] = ['success', 'failed']

/**
 * Counts finished deployments since the start of the server. The counts are not read from the records, because records
 * are deleted with their project and counters must never fall.
 */
export interface DeploymentCounts {
  /** Counts a finished deployment. */
  ended(row: DeploymentRow): void
  /** Returns the finished deployments since the start, by status. */
  totals(): Readonly<Record<FinalStatus, number>>
  /** Returns the metrics. Each of `projects`, oldest first, has a series even before its first deployment. */
  metrics(projects: ReadonlyArray<{ id: string; name: string }>): Metric[]
}

interface Counted {
  name: string
  ends: Record<FinalStatus, number>
}

/** Creates counters that begin at zero. */
export function createDeploymentCounts(): DeploymentCounts {
  const byProject = new Map<string, Counted>()
  const byStatus: Record<FinalStatus, Histogram> = {
    success: createHistogram(secondsBounds),
    failed: createHistogram(secondsBounds)
  }
  const bySteps = new Map<StepName, Histogram>()
  const totals: Record<FinalStatus, number> = { success: 0, failed: 0 }

  /** Returns the series of a project: its own or the shared one. */
  function countedOf(id: string, name: string): Counted {
    const known = byProject.get(id)
    if (known !== undefined) return known
    // The shared series is not counted.
    const places = maxCountedProjects + (byProject.has(other) ? 1 : 0)
    if (id !== other && byProject.size >= places) return countedOf(other, other)
    const fresh = { name, ends: { success: 0, failed: 0 } }
    byProject.set(id, fresh)
    return fresh
  }

  function observeSteps({ steps }: DeploymentRow): void {
    for (const { name, startedAt, endedAt, status } of steps) {
      if (endedAt === null || status === 'skipped') continue
      let histogram = bySteps.get(name)
      if (histogram === undefined) bySteps.set(name, (histogram = createHistogram(secondsBounds)))
      histogram.observe(secondsBetween(startedAt, endedAt))
    }
  }

  return {
    ended(row) {
      const { status, projectId, projectName, startTime, endTime } = row
      if (status !== 'success' && status !== 'failed') return
      totals[status]++
      countedOf(projectId, projectName).ends[status]++
      if (endTime !== null) byStatus[status].observe(secondsBetween(startTime, endTime))
      observeSteps(row)
    },

    totals: () => ({ ...totals }),

    metrics(projects) {
      for (const { id, name } of projects.slice(0, maxCountedProjects)) {
        const counted = countedOf(id, name)
        if (counted !== byProject.get(other)) counted.name = name
      }
      const samples = [...byProject].flatMap(([project, { name, ends }]): Sample[] =>
        statuses.map(status => ({ labels: { project, project_name: name, status }, value: ends[status] }))
      )
      return [
        {
          name: 'svc_deployments_total',
          type: 'counter',
          help: 'Finished deployments since the start, by project and status.',
          samples
        },
        {
          name: 'svc_deployment_duration_seconds',
          type: 'histogram',
          help: 'Time from the record of a deployment to its end, including the time in the queue.',
          series: statuses.map(status => ({ labels: { status }, figures: byStatus[status].figures() }))
        },
        {
          name: 'svc_deployment_step_duration_seconds',
          type: 'histogram',
          help: 'Duration of the steps of deployments.',
          series: [...bySteps].map(([step, histogram]) => ({ labels: { step }, figures: histogram.figures() }))
        }
      ]
    }
  }
}

/** Returns a duration in seconds, at least 0 because the clock may have been set back. */
function secondsBetween(from: string, to: string): number {
  return Math.max(0, (Date.parse(to) - Date.parse(from)) / 1000)
}
