import type { ClusterHealth, ClusterStatus } from './cluster.js'
import type { DeploymentRow } from './deployment.js'
import type { DiskFigures } from './machine.js'

/** Statistics of the server (§2.9). */
export interface ServerStatus {
  version: string
  uptime: string
  projectCount: number
  deploymentCount: number
  successCount: number
  failedCount: number
  /** Percentage of the finished deployments; 0 if there are none. */
  successRate: number
  /** Whether the server can give each project a user of its own (`runAs`). */
  switchesUsers: boolean
}

/** The public health report (§2.10). */
export interface HealthReport {
  /**
   * `starting`: there is no admin token yet, or recovery after a kill is still in progress. `cut_off`: this hub is well, but
   * cannot follow its cluster.
   */
  status: 'ok' | 'starting' | 'unhealthy' | 'cut_off'
  /** Time since the start, in seconds. */
  uptime: number
  version: string
  /** The role of this hub. Absent if the server is not a hub of a cluster. */
  cluster?: ClusterHealth
}

/** The detailed health report, for administrators. */
export interface HealthDetail {
  version: string
  runtime: { name: string; version: string }
  uptimeSec: number
  serverTime: string
  db: { ok: boolean; latencyMs: number; path: string }
  disk: DiskFigures
  /** The data directory. The API prescribes the name. */
  kiteHome: { path: string; writable: boolean; tmpWritable: boolean }
  /** `successRate`: the share of the finished ones, 0 to 1; null if none has finished. */
  deploy: { last5: RecentDeployment[]; successRate: number | null }
  /** Whether requests for other host names are refused. Absent in older servers. */
  hostNamesChecked?: boolean
  /**
   * Whether the secrets of all projects can be read, and if not, the reason and the unreadable ones (`project: NAME`, `second factor of NAME`).
   * Absent in older servers.
   */
  secrets?: { ok: boolean; why: string | null; unreadable: string[] }
  /** Whether the Merkle tree of the audit log is undamaged, and if not, since when and why. Absent in older servers. */
  audit?: { ok: boolean; brokenSince: string | null; why: string | null }
  /** Deployments whose earlier files could not be put back yet. Absent in older servers. */
  revertsPending?: string[]
  /**
   * Targets in which a deployment was interrupted, and which could not be finished or put back yet: their disk is missing, or
   * another directory is at the path. Absent in older servers.
   */
  unfinishedTargets?: UnfinishedTarget[]
  /** Certificates in use that expire within 14 days or have expired. Absent in older servers. */
  certificates?: ExpiringCertificate[]
  /** Messages that notification targets have not accepted yet. Absent in older servers. */
  notifications?: { waiting: number; oldestAt: string | null }
  /** The nodes of the fleet, and the rollouts of its projects. Absent if the server has no nodes. */
  fleet?: FleetHealth
  /** The cluster, as this hub sees it. Absent if the server is not a hub of one. */
  cluster?: ClusterStatus
  memoryMB: { rss: number; heapUsed: number }
}

/** A target with an undo journal that nobody works with. */
export interface UnfinishedTarget {
  deployId: string
  /** Null if the journal does not say. */
  target: string | null
}

/** A certificate that expires soon or has expired; of a file with several, the first. */
export interface ExpiringCertificate {
  /** What it is, as the first words of a sentence. */
  name: string
  expiresAt: string
  /** What to do, as a sentence. */
  cure: string
}

/** The state of a fleet. */
export interface FleetHealth {
  nodes: number
  /** Nodes whose agent is connected. */
  connected: number
  /** Connected nodes whose agent has an earlier protocol: update them. */
  outdated: number
  /** Nodes whose identity two machines use: they get no orders. */
  shared: number
  /** Rollouts that are going on, or wait for their next wave. */
  going: number
  /** Projects whose last rollout was halted. */
  halted: number
}

type RecentDeployment = Pick<DeploymentRow, 'id' | 'projectId' | 'projectName' | 'status' | 'startTime' | 'duration'>
