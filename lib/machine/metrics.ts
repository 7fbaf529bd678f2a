import type { Activity } from '../base/async.js'
import { elapsedOf, type Clock } from '../base/clock.js'
import { describeRuntime } from '../base/runtime.js'
import type { ClusterStatus } from '../model/cluster.js'
import type { FleetHealth } from '../model/health.js'
import { isCutOff } from '../shared/cut-off.js'
import type { Store } from '../store/database.js'
import { unfinishedDeployments } from '../store/tables/deployments.js'
import { readProjects } from '../store/tables/projects.js'
import type { DeploymentCounts } from './deployment-counts.js'
import type { LoopDelayMeter } from './loop-delay.js'
import { metricsText, type Metric } from './metrics-text.js'
import { countWaitingMessages } from '../store/tables/server.js'

/** The metrics of the server. */
export interface Metrics {
  /** Returns all metrics in the Prometheus text format. */
  text(): Promise<string>
}

/** What `createMetrics` reads. */
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
export function createMetrics(needs: MetricsNeeds): Metrics {
  return {
    text: async () =>
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
