import type { DeploymentRow } from './deployment.js'
import type { DiskFigures } from './machine.js'

/** The server's figures (§2.9). */
export interface ServerStatus {
  version: string
  uptime: string
  projectCount: number
  deploymentCount: number
  successCount: number
  failedCount: number
  /** Percent of the finished ones; 0 where none is. */
  successRate: number
}

/** What anybody may know (§2.10). */
export interface HealthReport {
  /** `starting`: there is no admin token yet, or what a killed server left behind is still being put right. */
  status: 'ok' | 'starting' | 'unhealthy'
  /** Seconds. */
  uptime: number
  version: string
}

export interface HealthDetail {
  version: string
  runtime: { name: string; version: string }
  uptimeSec: number
  serverTime: string
  db: { ok: boolean; latencyMs: number; path: string }
  disk: DiskFigures
  /** The data directory; the name is the wire's. */
  kiteHome: { path: string; writable: boolean; tmpWritable: boolean }
  deploy: { last5: RecentDeployment[]; successRate: number | null }
  /** Whether requests for other host names are refused; absent: an older server. */
  hostNamesChecked?: boolean
  /** Whether the secrets of all projects can be read, and if not, why and which (`project: NAME`); absent: an older server. */
  secrets?: { ok: boolean; why: string | null; unreadable: string[] }
  memoryMB: { rss: number; heapUsed: number }
}

type RecentDeployment = Pick<DeploymentRow, 'id' | 'projectId' | 'projectName' | 'status' | 'startTime' | 'duration'>
