import type { ProjectScope } from '../../model/access.js'
import { waitingOf } from '../../base/shared/api.js'
import type { DeploymentRow } from '../../model/deployment.js'
import type { FleetHealth, ServerStatus } from '../../model/health.js'
import { defaultApproval, policyOf } from '../../model/policy.js'
import type { Waiting } from '../../model/waiting.js'
import { maySwitchUser } from '../../core/proc/identity.js'
import type { Reader } from '../../core/store/database.js'
import {
  countDeploymentsByStatus,
  findDeployment,
  unconfirmedDeployments,
  waitingDeployments
} from '../../core/store/tables/deployments.js'
import { countProjects, findProject } from '../../core/store/tables/projects.js'
import { isGoing, rolloutStates } from '../../model/rollout.js'
import { countNodes, sharedNodes } from '../../core/store/tables/fleet.js'
import { countRollouts, type WaitingRollout, waitingRollouts } from '../../core/store/tables/rollouts.js'

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
