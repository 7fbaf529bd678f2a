import { constants, promises as fs } from 'node:fs'
import { platform } from 'node:process'
import { type Clock, instantOf } from '../../base/clock.js'
import { describeRuntime } from '../../base/runtime.js'
import type {
  BrokenProject,
  BrokenProjects,
  ClusterStatus,
  DeploymentBrief,
  ExpiringCertificate,
  FleetHealth,
  HealthDetail,
  UnfinishedTarget
} from '../../model/health.js'
import type { DiskFigures } from '../../model/machine.js'
import type { Reader, Store } from '../../core/store/database.js'
import { environmentRank } from '../../base/shared/api.js'
import { isInPlace, isPlaced } from '../../core/store/tables/fleet.js'
import {
  goingDeploymentId,
  listDeployments,
  liveDeployment,
  pendingReverts
} from '../../core/store/tables/deployments.js'
import { countWaitingMessages } from '../../core/store/tables/server.js'
import type { ProjectScope } from '../../model/access.js'
import { type DeploymentRow, listedDeployment } from '../../model/deployment.js'
import {
  type BrokenRow,
  findBrokenProject,
  lastGoodDeployment,
  listBrokenProjects
} from '../../core/store/tables/projects.js'
import { readDisk, unknownDisk } from './disk.js'
import type { Probe } from './probe.js'
import { successShare } from './status.js'

/** Health of the server: the short report of the probe, and the details for administrators (§4.8). */
export interface Health extends Probe {
  detail(): Promise<HealthDetail>
  isWell(detail: HealthDetail): boolean
}

const maxPercentUsed = 95 // §4.8

interface Needs {
  store: Store
  clock: Clock
  version: string
  probe: Probe
  home: { directory: string; tmp: string }
  /** Whether requests for other host names are refused. */
  checksHostNames?(): boolean
  /** Returns the reason why secrets of projects cannot be read, or null. */
  secretsFault?(): Promise<{ why: string; secrets: string[] } | null>
  /** Returns the state of the tree of the audit log. */
  auditState?(): NonNullable<HealthDetail['audit']>
  /** Returns the targets that wait for their disk. */
  unfinishedTargets?(): UnfinishedTarget[]
  /** Returns the certificates in use that expire soon or have expired. */
  certificates?(): ExpiringCertificate[]
  /** Returns the state of the fleet; null: there are no nodes. */
  fleetState?(): FleetHealth | null
  /** Returns the state of the cluster; undefined: the server is not a hub of one. */
  cluster?: (() => Promise<ClusterStatus>) | undefined
  /** Returns the figures of the file system of the data directory. */
  diskOf?: (directory: string) => Promise<DiskFigures>
}

/** Creates the health report. */
export function createHealth({
  store,
  clock,
  version,
  probe,
  home,
  diskOf = toldDisk,
  checksHostNames,
  secretsFault,
  auditState,
  unfinishedTargets,
  certificates,
  fleetState,
  cluster
}: Needs): Health {
  return {
    ...probe,

    async detail() {
      const [disk, { uptime }, writable, tmpWritable, fault, hubs] = await Promise.all([
        diskOf(home.directory),
        probe.report(),
        probe.isWritable(),
        isWritable(home.tmp),
        secretsFault?.(),
        cluster?.()
      ])
      const { rss, heapUsed } = process.memoryUsage()
      return {
        version,
        runtime: describeRuntime(),
        uptimeSec: uptime,
        serverTime: instantOf(clock),
        db: measureStore(store),
        disk,
        kiteHome: { path: home.directory, writable, tmpWritable },
        deploy: recentDeployments(store),
        ...(checksHostNames === undefined ? {} : { hostNamesChecked: checksHostNames() }),
        ...(fault === undefined
          ? {}
          : { secrets: { ok: fault === null, why: fault?.why ?? null, unreadable: fault?.secrets ?? [] } }),
        ...(auditState === undefined ? {} : { audit: auditState() }),
        revertsPending: pendingReverts(store),
        ...unfinishedOf(unfinishedTargets),
        ...(certificates === undefined ? {} : { certificates: certificates() }),
        notifications: countWaitingMessages(store),
        ...fleetOf(fleetState),
        ...(hubs === undefined ? {} : { cluster: hubs }),
        memoryMB: { rss: megabytes(rss), heapUsed: megabytes(heapUsed) }
      }
    },

    isWell: ({ db, kiteHome, disk }) => db.ok && kiteHome.writable && (disk.percentUsed ?? 0) < maxPercentUsed
  }
}

/** Without the data directory nobody knows which targets are unfinished, and `kiteHome` says that it is gone. */
function unfinishedOf(list: Needs['unfinishedTargets']): Pick<HealthDetail, 'unfinishedTargets'> {
  try {
    return list === undefined ? {} : { unfinishedTargets: list() }
  } catch {
    return {}
  }
}

function fleetOf(fleetState: Needs['fleetState']): Pick<HealthDetail, 'fleet'> {
  const fleet = fleetState?.() ?? null
  return fleet === null ? {} : { fleet }
}

function measureStore(store: Store): HealthDetail['db'] {
  const { ok, path } = store.state()
  const fromMs = performance.now()
  try {
    store.get('SELECT 1')
    return { ok, latencyMs: rounded(performance.now() - fromMs), path }
  } catch {
    return { ok: false, latencyMs: rounded(performance.now() - fromMs), path }
  }
}

function recentDeployments(store: Store): HealthDetail['deploy'] {
  const recent = listDeployments(store, { limit: 5 })
  const counted = (status: string): number => recent.filter(row => row.status === status).length
  return {
    last5: recent.map(({ id, projectId, projectName, status, startTime, duration }) => {
      return { id, projectId, projectName, status, startTime, duration }
    }),
    successRate: successShare(counted('success'), counted('failed'))
  }
}

async function toldDisk(directory: string): Promise<DiskFigures> {
  return platform === 'win32' ? unknownDisk : readDisk(directory) // §2.10
}

async function isWritable(directory: string): Promise<boolean> {
  return fs.access(directory, constants.W_OK).then(
    () => true,
    () => false
  )
}

function megabytes(bytes: number): number {
  return rounded(bytes / 1024 / 1024)
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100
}

/** The projects that are broken now: their newest finished deployment failed, possibly in the background. */
export type Broken = ReturnType<typeof createBroken>

export interface BrokenNeeds {
  store: Reader
  /** Returns the current record, with a result that is not stored yet. */
  findDeployment(id: string): DeploymentRow | undefined
}

/** Creates the list of broken projects. */
export function createBroken({ store, findDeployment }: BrokenNeeds) {
  function describe({ deployId, ...row }: BrokenRow): BrokenProject[] {
    const failed = findDeployment(deployId)
    if (failed === undefined) return []
    const lastGood = lastGoodDeployment(store, row.projectId)
    const live = isPlaced(store, row.projectId) ? undefined : liveDeployment(store, row.projectId)
    return [
      {
        ...row,
        failed: brief(failed),
        lastGood: lastGood === undefined ? null : brief(lastGood),
        isLastGoodLive: lastGood !== undefined && isInPlace(store, row.projectId, lastGood.id),
        live: live === undefined ? null : brief(live),
        goingId: goingDeploymentId(store, row.projectId) ?? null
      }
    ]
  }

  return {
    /** Returns at most `limit` projects of a scope: those of production first, and of these those that broke last. */
    list(limit: number, scope?: ProjectScope): BrokenProjects {
      const rank = ({ projectEnv }: BrokenRow): number => environmentRank(projectEnv)
      const rows = listBrokenProjects(store, scope).sort((a, b) => rank(b) - rank(a))
      return { total: rows.length, items: rows.slice(0, limit).flatMap(describe) }
    },

    /** Returns the failure of a project, or null if it is not broken. */
    of(projectId: string): BrokenProject | null {
      const row = findBrokenProject(store, projectId)
      return row === undefined ? null : (describe(row)[0] ?? null)
    }
  }
}

function brief(row: DeploymentRow): DeploymentBrief {
  const { id, status, triggerSource, message, provenance, startTime, endTime, errorMessage, hasArtifact } = row
  const { backgroundFailed } = listedDeployment(row)
  return {
    id,
    status,
    triggerSource,
    message,
    provenance,
    startTime,
    endTime,
    errorMessage,
    hasArtifact,
    ...(backgroundFailed !== undefined && { backgroundFailed })
  }
}
