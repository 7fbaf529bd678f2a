import type { Activity } from '../../base/async.js'
import { type Clock, elapsedOf } from '../../base/clock.js'
import { describeRuntime } from '../../base/runtime.js'
import type { ClusterStatus, FleetHealth } from '../../model/health.js'
import { isCutOff } from '../../base/shared/api.js'
import type { Store } from '../../core/store/database.js'
import { unfinishedDeployments } from '../../core/store/tables/deployments.js'
import { readProjects } from '../../core/store/tables/projects.js'
import { countWaitingMessages } from '../../core/store/tables/server.js'
import { createHistogram, type Histogram, type HistogramFigures } from '../../base/histogram.js'
import type { DeploymentRow, FinalStatus, StepName } from '../../model/deployment.js'
import type { LoopDelayMeter } from './resources.js'

export type Metrics = ReturnType<typeof createMetrics>

export interface MetricsNeeds {
  store: Store
  clock: Clock
  version: string
  /** Start of the server on the scale of `elapsedOf`. */
  startedAtMs: number
  deployments: DeploymentCounts
  loopDelay: Pick<LoopDelayMeter, 'read'>
  /** Uploads in progress and since the start. */
  uploads(): { now: number; total: number; bytes: number }
  outputFollowers(): number
  logFollowers: Pick<Activity, 'now'>
  searches: Pick<Activity, 'now' | 'total'>
  /** Returns the finished deliveries of notifications by outcome. */
  deliveries(): Readonly<Record<string, number>>
  /** The state of the fleet; null: there are no nodes. */
  fleet?(): FleetHealth | null
  /** Returns the state of the cluster; undefined: the server is not a hub of one. */
  cluster?: (() => Promise<ClusterStatus>) | undefined
}

/**
 * Creates the metrics. Nothing is collected between requests: each value is an existing counter or is read on request.
 */
export function createMetrics(needs: MetricsNeeds) {
  return {
    /** Returns all metrics in the Prometheus text format. */
    text: async (): Promise<string> =>
      metricsText([
        ...ofServer(needs),
        ...ofDeployments(needs),
        ...ofTransfers(needs),
        ...ofFleet(needs),
        ...(await ofCluster(needs)),
        ...ofStore(needs)
      ])
  }
}

function ofServer({ clock, version, startedAtMs, loopDelay }: MetricsNeeds): Metric[] {
  const { rss, heapUsed } = process.memoryUsage()
  const { user, system } = process.cpuUsage()
  const { name, version: runtimeVersion } = describeRuntime()
  const startedAt = (clock.now() - (elapsedOf(clock) - startedAtMs)) / 1000
  const delay = loopDelay.read()
  const build = { version, runtime: name, runtime_version: runtimeVersion }
  return [
    {
      name: 'svc_build_info',
      help: 'Always 1. The labels are the version of svc and of its runtime.',
      type: 'gauge',
      samples: [{ labels: build, value: 1 }]
    },
    gauge('svc_start_time_seconds', 'Start time of the server, in seconds since 1970.', Math.round(startedAt)),
    counter('svc_process_cpu_seconds_total', 'CPU time of the server with all threads.', (user + system) / 1e6),
    gauge('svc_process_resident_memory_bytes', 'Resident memory of the server.', rss),
    gauge('svc_process_heap_used_bytes', 'Memory of JavaScript objects.', heapUsed),
    ...(delay === null
      ? []
      : [
          {
            name: 'svc_event_loop_delay_seconds',
            type: 'summary' as const,
            help: 'Delays of the event loop since the previous scrape. Measuring begins with the first scrape.',
            ...delay
          },
          gauge(
            'svc_event_loop_delay_max_seconds',
            'Maximum delay of the event loop since the previous scrape.',
            delay.max
          )
        ])
  ]
}

/** Returns the figures of the fleet. A server without nodes has no such metrics. */
function ofFleet({ fleet = () => null }: MetricsNeeds): Metric[] {
  const state = fleet()
  if (state === null) return []
  return [
    gauge('svc_nodes', 'Nodes of the fleet.', state.nodes),
    gauge('svc_nodes_connected', 'Nodes whose agent is connected.', state.connected),
    gauge(
      'svc_fleet_nodes_outdated',
      'Connected nodes whose agent has an earlier protocol. Update svc on them.',
      state.outdated
    ),
    gauge('svc_fleet_nodes_shared', 'Nodes whose identity two machines use. They get no orders.', state.shared),
    gauge('svc_rollouts_going', 'Rollouts that are going on, or wait for their next wave.', state.going),
    gauge('svc_rollouts_halted', 'Projects whose last rollout was halted.', state.halted)
  ]
}

/** Returns the figures of a hub. Only the leader says how far the others are, so that each is counted once. */
async function ofCluster({ cluster }: MetricsNeeds): Promise<Metric[]> {
  if (cluster === undefined) return []
  const state = await cluster()
  const { role, staleSeconds, sequence, reason } = state
  const hubs = role === 'leader' ? state.hubs : []
  const seen = hubs.filter(({ seenAt }) => seenAt !== null)
  return [
    gauge('svc_cluster_is_leader', '1 if this hub leads the cluster, else 0.', role === 'leader' ? 1 : 0),
    gauge('svc_cluster_is_cut_off', '1 if this hub cannot follow the cluster, else 0.', isCutOff(state) ? 1 : 0),
    {
      name: 'svc_cluster_problem',
      type: 'gauge',
      help: '1 while this hub cannot follow or lead, with the reason. Absent if it can.',
      samples: reason === null ? [] : [{ labels: { reason }, value: 1 }]
    },
    gauge('svc_cluster_stale_seconds', 'How old a read of this hub may be.', staleSeconds),
    gauge('svc_cluster_applied_sequence', 'Number of the last write of the cluster that this hub has.', sequence),
    {
      name: 'svc_cluster_hub_behind_writes',
      type: 'gauge',
      help: 'Writes that the leader had and a hub had not, when the hub was last seen. Only the leader has this metric.',
      samples: hubs.map(({ name, behind }) => ({ labels: { hub: name }, value: behind }))
    },
    {
      name: 'svc_cluster_hub_seen_timestamp_seconds',
      type: 'gauge',
      help: 'When a hub was last seen, by its own clock, in seconds since 1970. Only the leader has this metric.',
      samples: seen.map(({ name, seenAt }) => ({ labels: { hub: name }, value: Date.parse(seenAt as string) / 1000 }))
    }
  ]
}

function ofDeployments({ store, deployments }: MetricsNeeds): Metric[] {
  const unfinished = unfinishedDeployments(store)
  const projects = readProjects(store, ['id', 'name'])
  const counted = (status: string): number => unfinished.filter(row => row.status === status).length
  return [
    gauge('svc_projects', 'Projects.', projects.length),
    gauge('svc_deployments_queued', 'Queued deployments.', counted('queued')),
    gauge('svc_deployments_running', 'Running deployments.', counted('running')),
    ...deployments.metrics(projects)
  ]
}

function ofTransfers({ store, uploads, outputFollowers, logFollowers, searches, deliveries }: MetricsNeeds): Metric[] {
  const { now, total, bytes } = uploads()
  return [
    gauge('svc_uploads_in_flight', 'Uploads in progress.', now),
    counter('svc_uploads_total', 'Uploads that were started.', total),
    counter('svc_upload_bytes_total', 'Received bytes of archives.', bytes),
    {
      name: 'svc_followers',
      type: 'gauge',
      help: 'Open streams by kind.',
      samples: [
        { labels: { of: 'deployment' }, value: outputFollowers() },
        { labels: { of: 'log' }, value: logFollowers.now }
      ]
    },
    gauge('svc_log_searches_in_flight', 'Searches in log files that are running or queued.', searches.now),
    gauge(
      'svc_notifications_waiting',
      'Notifications that wait for their targets.',
      countWaitingMessages(store).waiting
    ),
    counter('svc_log_searches_total', 'Searches in log files that were started.', searches.total),
    {
      name: 'svc_notification_deliveries_total',
      type: 'counter',
      help: 'Notifications after their last attempt, by outcome.',
      samples: Object.entries(deliveries()).map(([outcome, value]) => ({ labels: { outcome }, value }))
    }
  ]
}

function ofStore({ store }: MetricsNeeds): Metric[] {
  return [
    gauge('svc_store_healthy', '1 if the last write of the database is durable, else 0.', store.state().ok ? 1 : 0),
    counter('svc_store_commits_total', 'Durable transactions since the database was created.', store.sequence()),
    {
      name: 'svc_store_sync_duration_seconds',
      type: 'histogram',
      help: 'Time to write and sync a line of the redo log, which may contain several transactions.',
      series: [{ figures: store.syncs() }]
    }
  ]
}

function gauge(name: string, help: string, value: number): Metric {
  return { name, help, type: 'gauge', samples: [{ value }] }
}

function counter(name: string, help: string, value: number): Metric {
  return { name, help, type: 'counter', samples: [{ value }] }
}

/*
 * The Prometheus text format, version 0.0.4: for each metric a HELP line, a TYPE line, and one line for each sample.
 */

/** The content type of the format. */
export const metricsContentType = 'text/plain; version=0.0.4; charset=utf-8'

/** Labels of a sample, by name. */
export type Labels = Readonly<Record<string, string>>

/** One value of a metric. */
export interface Sample {
  labels?: Labels
  value: number
}

/** A metric with its samples. Names follow Prometheus: base units, `_total` for counters. */
export type Metric = { name: string; help: string } & (
  | { type: 'counter' | 'gauge'; samples: readonly Sample[] }
  | { type: 'histogram'; series: ReadonlyArray<{ labels?: Labels; figures: HistogramFigures }> }
  | { type: 'summary'; quantiles: ReadonlyArray<{ quantile: number; value: number }>; sum: number; count: number }
)

/** Returns the metrics as text, without those that have no samples. */
export function metricsText(metrics: readonly Metric[]): string {
  return metrics.map(textOf).join('')
}

function textOf(metric: Metric): string {
  const lines = samplesOf(metric)
  if (lines.length === 0) return ''
  const { name, help, type } = metric
  return [`# HELP ${name} ${escapeHelp(help)}`, `# TYPE ${name} ${type}`, ...lines, ''].join('\n')
}

function samplesOf(metric: Metric): string[] {
  const { name } = metric
  switch (metric.type) {
    case 'counter':
    case 'gauge':
      return metric.samples.map(({ labels = {}, value }) => line(name, labels, value))
    case 'histogram':
      return metric.series.flatMap(({ labels = {}, figures: { buckets, sum, count } }) => [
        ...buckets.map(({ atMost, count }) => line(`${name}_bucket`, { ...labels, le: numberText(atMost) }, count)),
        line(`${name}_bucket`, { ...labels, le: '+Inf' }, count),
        line(`${name}_sum`, labels, sum),
        line(`${name}_count`, labels, count)
      ])
    case 'summary':
      return [
        ...metric.quantiles.map(({ quantile, value }) => line(name, { quantile: numberText(quantile) }, value)),
        line(`${name}_sum`, {}, metric.sum),
        line(`${name}_count`, {}, metric.count)
      ]
  }
}

function line(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`)
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${numberText(value)}`
}

function numberText(value: number): string {
  if (value === Infinity) return '+Inf'
  return value === -Infinity ? '-Inf' : String(value)
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '"': '\\"', '\n': '\\n' }

function escapeLabel(text: string): string {
  return text.replace(/[\\"\n]/g, found => escapes[found] as string)
}

function escapeHelp(text: string): string {
  return text.replace(/[\\\n]/g, found => escapes[found] as string)
}

/** Number of projects with their own series, oldest first. The others share the series "other". */
export const maxCountedProjects = 100
const other = 'other'
const secondsBounds = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800]
const statuses: readonly FinalStatus[] = ['success', 'failed']

/**
 * Counts finished deployments since the start of the server. The counts are not read from the records, because records
 * are deleted with their project and counters must never fall.
 */
export type DeploymentCounts = ReturnType<typeof createDeploymentCounts>

interface Counted {
  name: string
  ends: Record<FinalStatus, number>
}

/** Creates counters that begin at zero. */
export function createDeploymentCounts() {
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
    /** Counts a finished deployment. */
    ended(row: DeploymentRow): void {
      const { status, projectId, projectName, startTime, endTime } = row
      if (status !== 'success' && status !== 'failed') return
      totals[status]++
      countedOf(projectId, projectName).ends[status]++
      if (endTime !== null) byStatus[status].observe(secondsBetween(startTime, endTime))
      observeSteps(row)
    },

    /** Returns the finished deployments since the start, by status. */
    totals: (): Readonly<Record<FinalStatus, number>> => ({ ...totals }),

    /** Returns the metrics. Each of `projects`, oldest first, has a series even before its first deployment. */
    metrics(projects: ReadonlyArray<{ id: string; name: string }>): Metric[] {
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
