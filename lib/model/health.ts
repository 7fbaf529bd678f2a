import type { Instant } from './scalars.js'
import type { ClusterHealth, ClusterStatus } from './cluster.js'
import type { DeploymentRow } from './deployment.js'
import type { DiskFigures } from './machine.js'

/** Statistics of the server (§2.9). @schema ServerStatus */
export interface ServerStatus {
  version: string
  uptime: string
  projectCount: number
  deploymentCount: number
  successCount: number
  failedCount: number
  /** Percentage of the finished deployments. 0 if none has finished. @number */
  successRate: number
  /** Whether the server can run the work of a project as another user (`runAs`). */
  switchesUsers: boolean
}

/** The public health report (§2.10). @schema Health */
export interface HealthReport {
  /**
   * `starting` until the server has an admin token and has recovered from an interrupted run. `cut_off`: this hub
   * cannot follow its cluster; it still answers reads.
   */
  status: 'ok' | 'starting' | 'unhealthy' | 'cut_off'
  /** Seconds since the start of the server. @number */
  uptime: number
  version: string
  /** The role of this hub. Absent if the server is not a hub of a cluster. */
  cluster?: ClusterHealth
}

/** The detailed health report, for administrators. */
export interface HealthDetail {
  version: string
  runtime: { name: string; version: string }
  /** @number */
  uptimeSec: number
  serverTime: Instant
  db: {
    ok: boolean
    /** @number */
    latencyMs: number
    path: string
  }
  disk: DiskFigures
  /** The data directory. The API prescribes the name. */
  kiteHome: { path: string; writable: boolean; tmpWritable: boolean }
  /** `successRate`: the share of the finished ones, 0 to 1; null if none has finished. */
  deploy: {
    last5: RecentDeployment[]
    /** Share of the finished ones, 0 to 1. Null if none has finished. @number */
    successRate: number | null
  }
  /** Whether requests for other host names are refused. Absent in older servers. */
  hostNamesChecked?: boolean
  /**
   * Whether the secrets of all projects can be read, and if not, the reason and the unreadable ones (`project: NAME`, `second factor of NAME`).
   * Absent in older servers.
   */
  secrets?: { ok: boolean; why: string | null; unreadable: string[] }
  /** Whether the Merkle tree of the audit log is undamaged, and if not, since when and why. Absent in older servers. */
  audit?: {
    ok: boolean
    /** When the tree of the audit log was found damaged. */
    brokenSince: Instant | null
    why: string | null
  }
  /** Deployments whose earlier files could not be put back yet. */
  revertsPending?: string[]
  /** Targets in which a deployment was interrupted, and which could not be finished or put back yet. */
  unfinishedTargets?: UnfinishedTarget[]
  /** Certificates in use that expire within 14 days or have expired. */
  certificates?: ExpiringCertificate[]
  /** Messages that notification targets have not accepted yet. */
  notifications?: { waiting: number; oldestAt: Instant | null }
  /** The nodes of the fleet, and the rollouts of its projects. Absent if the server has no nodes. */
  fleet?: FleetHealth
  /** The cluster, as this hub sees it. Absent if the server is not a hub of one. */
  cluster?: ClusterStatus
  memoryMB: {
    /** @number */
    rss: number
    /** @number */
    heapUsed: number
  }
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
  expiresAt: Instant
  /** What to do, as a sentence. */
  cure: string
}

/** The state of a fleet. */
export interface FleetHealth {
  nodes: number
  /** Nodes whose agent is connected. */
  connected: number
  /** Connected nodes whose agent has an earlier protocol. Update svc on them. */
  outdated: number
  /** Nodes whose identity two machines use. They get no orders. */
  shared: number
  /** Rollouts that are going on, or wait for their next wave. */
  going: number
  /** Projects whose last rollout was halted. */
  halted: number
}

type RecentDeployment = Pick<DeploymentRow, 'id' | 'projectId' | 'projectName' | 'status' | 'startTime' | 'duration'>
