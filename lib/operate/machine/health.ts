import { constants, promises as fs } from 'node:fs'
import { type Clock, instantOf } from '../../base/clock.js'
import { describeRuntime } from '../../base/runtime.js'
import type {
  ArchiveHealth,
  BrokenProject,
  BrokenProjects,
  ClusterStatus,
  DeploymentBrief,
  ExpiringCertificate,
  FleetHealth,
  HealthDetail,
  UnfinishedTarget,
  ServerStatus
} from '../../model/health.js'
import type { DiskFigures } from '../../model/machine.js'
import type { Reader, Store } from '../../core/store/database.js'
import { environmentRank, waitingOf } from '../../base/shared/api.js'
import { isInPlace, isPlaced, countNodes, sharedNodes } from '../../core/store/tables/fleet.js'
import {
  goingDeploymentId,
  listDeployments,
  liveDeployment,
  pendingReverts,
  countDeploymentsByStatus,
  findDeployment,
  unconfirmedDeployments,
  waitingDeployments
} from '../../core/store/tables/deployments.js'
import { latestRestore } from '../../core/store/tables/audit.js'
import { countWaitingMessages, refusingTargets } from '../../core/store/tables/server.js'
import type { ProjectScope } from '../../model/access.js'
import { type DeploymentRow, listedDeployment } from '../../model/deployment.js'
import {
  type BrokenRow,
  findBrokenProject,
  lastGoodDeployment,
  listBrokenProjects,
  countProjects,
  findProject
} from '../../core/store/tables/projects.js'
import { readDisk, unknownDisk } from './resources.js'
import { defaultApproval, policyOf } from '../../model/policy.js'
import type { Waiting } from '../../model/marks.js'
import { maySwitchUser } from '../../core/proc/identity.js'
import { isGoing, rolloutStates } from '../../model/rollout.js'
import { countRollouts, type WaitingRollout, waitingRollouts } from '../../core/store/tables/rollouts.js'
import type { Probe } from './probe.js'

/** Health of the server: the short report of the probe, and the details for administrators (§4.8). */
export interface Health extends Pick<Probe, 'report' | 'isWritable'> {
  detail(): Promise<HealthDetail>
  /** Returns the figures of the file system of the data directory. */
  disk(): Promise<DiskFigures>
  isWell(detail: HealthDetail): boolean
}

const maxPercentUsed = 95 // §4.8

interface Needs {
  store: Store
  clock: Clock
  version: string
  probe: Pick<Probe, 'report' | 'isWritable'>
  home: { directory: string; tmp: string }
  /** Whether requests for other host names are refused. */
  checksHostNames?(): boolean
  /** Returns the reason why secrets of projects cannot be read, or null. */
  secretsFault?(): Promise<{ why: string; secrets: string[] } | null>
  /** Returns the state of the tree of the audit log. */
  auditState?(): Promise<NonNullable<HealthDetail['audit']>>
  /** Returns the targets that wait for their disk. */
  unfinishedTargets?(): UnfinishedTarget[]
  /** Returns the result of the last check of the kept archives. */
  archives?(): ArchiveHealth
  /** Returns the certificates in use that expire soon or have expired. */
  certificates?(): ExpiringCertificate[]
  /** Returns the state of the fleet; null: there are no nodes. */
  fleetState?(): FleetHealth | null
  /** Returns the state of the cluster; undefined: the server is not a hub of one. */
  cluster?: (() => Promise<ClusterStatus>) | undefined
  /** Returns the figures of the file system of the data directory. */
  diskOf?: (directory: string) => Promise<DiskFigures>
}

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
  archives,
  certificates,
  fleetState,
  cluster
}: Needs): Health {
  return {
    ...probe,

    disk: () => diskOf(home.directory),

    async detail() {
      const [disk, { uptime }, writable, tmpWritable, fault, audit, hubs] = await Promise.all([
        diskOf(home.directory),
        probe.report(),
        probe.isWritable(),
        isWritable(home.tmp),
        secretsFault?.(),
        auditState?.(),
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
        ...(audit === undefined ? {} : { audit }),
        revertsPending: pendingReverts(store),
        ...unfinishedOf(unfinishedTargets),
        ...(archives === undefined ? {} : { archives: archives() }),
        ...(certificates === undefined ? {} : { certificates: certificates() }),
        notifications: { ...countWaitingMessages(store), refusing: refusingTargets(store) },
        restored: latestRestore(store),
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
  return process.platform === 'win32' ? unknownDisk : readDisk(directory) // §2.10
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

/** Returns the counts of projects and deployments in a scope, with the uptime in words. */
export function readStatus(
  store: Reader,
  { version, uptimeMs, projects }: { version: string; uptimeMs: number; projects?: ProjectScope }
): ServerStatus {
  const counts = countDeploymentsByStatus(store, projects)
  const { success: successCount = 0, failed: failedCount = 0 } = counts
  return {
    version,
    uptime: formatUptime(uptimeMs),
    projectCount: countProjects(store, projects),
    deploymentCount: Object.values(counts).reduce((sum, count) => sum + count, 0),
    successCount,
    failedCount,
    successRate: successRate(successCount, failedCount) ?? 0,
    switchesUsers: maySwitchUser()
  }
}

/** Returns a share from 0 to 1 with three decimals, or null without deployments. */
export function successShare(succeeded: number, failed: number): number | null {
  return succeeded + failed === 0 ? null : Math.round((succeeded / (succeeded + failed)) * 1000) / 1000
}

/** Returns a percentage with one decimal, or null without deployments. */
export function successRate(succeeded: number, failed: number): number | null {
  const share = successShare(succeeded, failed)
  return share === null ? null : Math.round(share * 1000) / 10
}

const units = [
  ['d', 86_400],
  ['h', 3600],
  ['m', 60],
  ['s', 1]
] as const

/** Returns a duration in its two largest units: `3d 4h`, `2m 5s`, `0s`. */
export function formatUptime(ms: number): string {
  let seconds = Math.floor(ms / 1000)
  const parts = units.map(([unit, size]) => {
    const count = Math.floor(seconds / size)
    seconds -= count * size
    return { unit, count }
  })
  const first = parts.findIndex(({ count }) => count > 0)
  if (first === -1) return '0s'
  const shown = parts.slice(first, first + 2).filter(({ count }) => count > 0)
  return shown.map(({ unit, count }) => `${count}${unit}`).join(' ')
}

/** Returns the state of the fleet; null: there are no nodes. `links` are the counts of the connected agents. */
export function fleetState(db: Reader, links: Pick<FleetHealth, 'connected' | 'outdated'>): FleetHealth | null {
  const nodes = countNodes(db)
  if (nodes === 0) return null
  const states = countRollouts(db)
  const going = rolloutStates.filter(isGoing).reduce((sum, state) => sum + (states[state] ?? 0), 0)
  return { nodes, ...links, shared: sharedNodes(db).length, going, halted: states.halted ?? 0 }
}

/** Returns what waits for somebody in a scope, the longest wait first. */
export function readWaiting(db: Reader, scope?: ProjectScope): Waiting[] {
  const rows = [...unconfirmedDeployments(db, scope), ...waitingDeployments(db, scope)]
  const deployments = rows.flatMap((row): Waiting[] => {
    const waiting = waitingOf(row)
    if (waiting === null) return []
    const { id: deployId, projectId, projectName, tokenId } = row
    const approval = waiting.for === 'approval' ? approversOf(db, projectId) : null
    return [{ ...waiting, projectId, projectName, deployId, rolloutId: null, tokenId, approval }]
  })
  const rollouts = waitingRollouts(db, scope).map(row => waitingRollout(row, findDeployment(db, row.deployId)))
  return [...deployments, ...rollouts].sort((one, other) => Date.parse(one.since) - Date.parse(other.since))
}

function approversOf(db: Reader, projectId: string): Waiting['approval'] {
  const { roles, notPusher } = policyOf(findProject(db, projectId) ?? { policy: {} }).approval ?? defaultApproval
  return { roles, notPusher }
}

function waitingRollout(row: WaitingRollout, deployment: DeploymentRow | undefined): Waiting {
  const { id: rolloutId, projectId, projectName, deployId, since } = row
  const tokenId = deployment?.tokenId ?? null
  const reason = row.state === 'approval' ? 'approval' : 'halted'
  return { for: reason, projectId, projectName, deployId, rolloutId, since, until: null, tokenId, approval: null }
}
