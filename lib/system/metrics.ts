import type { Activity } from '../base/activity.js'
import { elapsedOf } from '../base/clock.js'
import type { Clock } from '../base/clock.js'
import { describeRuntime } from '../base/runtime.js'
import type { Store } from '../store/database.js'
import { unfinishedDeployments } from '../store/tables/deployments.js'
import { readProjects } from '../store/tables/projects.js'
import type { DeploymentCounts } from './deployment-counts.js'
import type { LoopDelayMeter } from './loop-delay.js'
import { metricsText } from './metrics-text.js'
import type { Labels, Metric } from './metrics-text.js'

export interface Metrics {
  /** Everything that is known now, in the Prometheus text format. */
  text(): string
}

export interface MetricsNeeds {
  store: Store
  clock: Clock
  version: string
  /** As `elapsedOf` counts. */
  startedAtMs: number
  deployments: DeploymentCounts
  loopDelay: Pick<LoopDelayMeter, 'read'>
  /** What other rooms do now. */
  uploads(): { now: number; total: number; bytes: number }
  outputFollowers(): number
  logFollowers: Pick<Activity, 'now'>
  searches: Pick<Activity, 'now' | 'total'>
  /** By outcome. */
  deliveries(): Readonly<Record<string, number>>
}

/** Nothing is gathered in between: each figure is a count that is kept anyway, or is read when it is asked for. */
export function createMetrics(needs: MetricsNeeds): Metrics {
  return { text: () => metricsText([...ofServer(needs), ...ofDeployments(needs), ...ofTransfers(needs), ...ofStore(needs)]) }
}

function ofServer({ clock, version, startedAtMs, loopDelay }: MetricsNeeds): Metric[] {
  const { rss, heapUsed } = process.memoryUsage()
  const { user, system } = process.cpuUsage()
  const { name, version: runtimeVersion } = describeRuntime()
  const startedAt = (clock.now() - (elapsedOf(clock) - startedAtMs)) / 1000
  const delay = loopDelay.read()
  const build = { version, runtime: name, runtime_version: runtimeVersion }
  return [
    gauge('svc_build_info', 'Always 1: the version of svc and of its runtime.', 1, build),
    gauge('svc_start_time_seconds', 'When the server started, in seconds since 1970.', Math.round(startedAt)),
    counter('svc_process_cpu_seconds_total', 'Processor time of the server, all threads.', (user + system) / 1e6),
    gauge('svc_process_resident_memory_bytes', 'Memory of the server that is in RAM.', rss),
    gauge('svc_process_heap_used_bytes', 'Memory that JavaScript objects use.', heapUsed),
    ...(delay === null ? [] : [
      {
        name: 'svc_event_loop_delay_seconds', type: 'summary' as const,
        help: 'Delays of the event loop: quantiles since the scrape before. Measured from the first scrape on.', ...delay
      },
      gauge('svc_event_loop_delay_max_seconds', 'Largest delay of the event loop since the scrape before.', delay.max)
    ])
  ]
}

function ofDeployments({ store, deployments }: MetricsNeeds): Metric[] {
  const unfinished = unfinishedDeployments(store)
  const projects = readProjects(store, ['id', 'name'])
  const counted = (status: string): number => unfinished.filter(row => row.status === status).length
  return [
    gauge('svc_projects', 'Projects.', projects.length),
    gauge('svc_deployments_queued', 'Deployments that wait for their turn.', counted('queued')),
    gauge('svc_deployments_running', 'Deployments that run.', counted('running')),
    ...deployments.metrics(projects)
  ]
}

function ofTransfers({ uploads, outputFollowers, logFollowers, searches, deliveries }: MetricsNeeds): Metric[] {
  const { now, total, bytes } = uploads()
  return [
    gauge('svc_uploads_in_flight', 'Archives that are being received.', now),
    counter('svc_uploads_total', 'Archives that began to be received.', total),
    counter('svc_upload_bytes_total', 'Bytes of archives that were received.', bytes),
    {
      name: 'svc_followers', type: 'gauge', help: 'Streams that are open, by what they follow.',
      samples: [
        { labels: { of: 'deployment' }, value: outputFollowers() },
        { labels: { of: 'log' }, value: logFollowers.now }
      ]
    },
    gauge('svc_log_searches_in_flight', 'Searches in log files that run or wait.', searches.now),
    counter('svc_log_searches_total', 'Searches in log files that were begun.', searches.total),
    {
      name: 'svc_notification_deliveries_total', type: 'counter', help: 'Notifications after their last attempt, by outcome.',
      samples: Object.entries(deliveries()).map(([outcome, value]) => ({ labels: { outcome }, value }))
    }
  ]
}

function ofStore({ store }: MetricsNeeds): Metric[] {
  return [
    gauge('svc_store_healthy', '1 if the last write of the database became durable, else 0.', store.state().ok ? 1 : 0),
    counter('svc_store_commits_total', 'Transactions that are durable, since the database was created.', store.sequence()),
    {
      name: 'svc_store_sync_duration_seconds', type: 'histogram', help: 'Time to write and sync a line of the redo log, which may hold several transactions.',
      series: [{ figures: store.syncs() }]
    }
  ]
}

function gauge(name: string, help: string, value: number, labels: Labels = {}): Metric {
  return { name, help, type: 'gauge', samples: [{ labels, value }] }
}

function counter(name: string, help: string, value: number): Metric {
  return { name, help, type: 'counter', samples: [{ value }] }
}
