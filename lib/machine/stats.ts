import type { ProjectScope } from '../model/access.js'
import {
  type DeploymentRow,
  type DeploymentStep,
  type StepName,
  deploymentStatuses,
  stepNames
} from '../model/deployment.js'
import type { Heatmap, SuccessRates } from '../model/stats.js'
import type { Reader } from '../store/database.js'
import { among, choice, equalities, rowReader, text, where } from '../store/tables/table.js'
import { countDeploymentsByDay, steps } from '../store/tables/deployments.js'
import { successRate } from './status.js'

/** Durations of one step. */
export interface StepDurations {
  name: StepName
  /** Number of times the step finished. */
  count: number
  /** @number */
  medianMs: number
  /** @number */
  p95Ms: number
  /** @number */
  maxMs: number
}

/** Durations of deployments and of their steps. */
export interface Durations {
  days: number
  projectId: string | null
  /** Number of deployments that were evaluated: the newest `maxCounted` of these days. */
  deployments: number
  steps: StepDurations[]
  /** The newest deployments, oldest first. */
  recent: Array<
    Pick<DeploymentRow, 'id' | 'startTime' | 'status'> & {
      steps: Array<{
        name: StepName
        /** @number */
        ms: number
      }>
    }
  >
}

/** Which deployments to evaluate. */
export interface DurationsQuery {
  projectId?: string | undefined
  /** The projects that the caller may see. */
  scope?: ProjectScope
  days: number
}

/** Statistics over the records of deployments. */
export interface Stats {
  heatmap(days: number, scope?: ProjectScope): Heatmap
  successRates(days: number, scope?: ProjectScope): SuccessRates
  durations(query: DurationsQuery): Durations
}

const dayMs = 86_400_000
const maxCounted = 1000
const maxRecent = 50

/** Creates the statistics of the last days, including today. */
export function createStats({ store, clock }: { store: Reader; clock: { now(): number } }): Stats {
  return {
    heatmap(days, scope) {
      const cells = countByDay(store, datesUpTo(clock.now(), days), scope).map(({ date, count, failed }) => ({
        date,
        count,
        failed
      }))
      return { days, cells }
    },

    successRates(days, scope) {
      const points = countByDay(store, datesUpTo(clock.now(), days), scope).map(({ date, success, failed }) => {
        return { date, success, failed, rate: successRate(success, failed) }
      })
      return { days, points }
    },

    durations({ projectId, scope, days }) {
      const [since = ''] = datesUpTo(clock.now(), days)
      const timed = readSteps(store, since, { projectId, scope }).map(({ steps, ...row }) => ({
        ...row,
        steps: timesOf(steps)
      }))
      return {
        days,
        projectId: projectId ?? null,
        deployments: timed.length,
        steps: summarise(timed.flatMap(({ steps }) => steps)),
        recent: timed.slice(0, maxRecent).reverse()
      }
    }
  }
}

/** Returns `days` dates (UTC) up to today, oldest first. */
export function datesUpTo(nowMs: number, days: number): string[] {
  return Array.from({ length: days }, (_, index) => dateOf(nowMs - (days - 1 - index) * dayMs))
}

function dateOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10)
}

interface DayCounts {
  date: string
  count: number
  success: number
  failed: number
}

function countByDay(store: Reader, dates: string[], scope: ProjectScope): DayCounts[] {
  const found = new Map(dates.map(date => [date, { date, count: 0, success: 0, failed: 0 }]))
  for (const { date, status, deployments } of countDeploymentsByDay(store, dates[0] ?? '', scope)) {
    const day = found.get(date)
    if (day === undefined) continue // recorded while the clock was ahead
    day.count += deployments
    if (status === 'success' || status === 'failed') day[status] += deployments
  }
  return [...found.values()]
}

type StepsRow = Pick<DeploymentRow, 'id' | 'startTime' | 'status' | 'steps'>

const readStepsRow = rowReader<StepsRow>('deployments', {
  id: text,
  startTime: text,
  status: choice(deploymentStatuses),
  steps
})

/** Reads the steps of finished deployments, newest first. */
function readSteps(
  store: Reader,
  since: string,
  { projectId, scope }: Pick<DurationsQuery, 'projectId' | 'scope'>
): StepsRow[] {
  const { conditions, values } = among(equalities({ projectId }), 'projectId', scope)
  const finished = ['startTime >= ?', `status IN ('success', 'failed')`]
  const sql = `SELECT id, startTime, status, steps FROM deployments ${where([...finished, ...conditions])}
    ORDER BY orderedAt DESC, position DESC LIMIT ?`
  return store.all(sql, since, ...values, maxCounted).map(readStepsRow)
}

/** Returns the durations of the finished steps, failed ones included. */
function timesOf(steps: readonly DeploymentStep[]): Array<{ name: StepName; ms: number }> {
  return steps.flatMap(({ name, status, startedAt, endedAt }) => {
    if (status === 'skipped' || endedAt === null) return []
    return [{ name, ms: Math.max(0, Date.parse(endedAt) - Date.parse(startedAt)) }]
  })
}

function summarise(times: ReadonlyArray<{ name: StepName; ms: number }>): StepDurations[] {
  return stepNames.flatMap(name => {
    const sorted = times
      .filter(time => time.name === name)
      .map(({ ms }) => ms)
      .sort((a, b) => a - b)
    if (sorted.length === 0) return []
    const at = (share: number): number => sorted[Math.ceil(share * sorted.length) - 1] as number
    return [{ name, count: sorted.length, medianMs: at(0.5), p95Ms: at(0.95), maxMs: at(1) }]
  })
}
