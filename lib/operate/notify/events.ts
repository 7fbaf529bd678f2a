import type { DeploymentRow, EventKey, NotificationTrigger } from '../../model/deployment.js'
import { type Incident, incidentTriggers } from '../../model/setting.js'
import type { Project } from '../../model/project.js'
import type { TokenLock, TokenReminder } from '../../model/access.js'
import { countOf } from '../../base/text.js'
import { type Clock, instantOf } from '../../base/clock.js'
import type { DiskFigures } from '../../model/machine.js'
import type { FleetNode } from '../../model/node.js'
import type { Store } from '../../core/store/database.js'
import { findDeployment } from '../../core/store/tables/deployments.js'
import { findNode, listPlacements } from '../../core/store/tables/fleet.js'
import { findProject } from '../../core/store/tables/projects.js'
import { forgetTold, noteTold, toldIncidents } from '../../core/store/tables/server.js'

/** An event of a deployment that is reported, with its trigger (§6.5). */
export interface Occasion {
  trigger: NotificationTrigger
  event: EventKey
  deployment: DeploymentRow
  project: Project
  /** Why it failed, or null if it did not. */
  errorMessage: string | null
}

/** The content of a payload. */
export type Notification = DeploymentNotification | TokenNotification | IncidentNotification

/** An event of a deployment, or a test message in the same form. */
export interface DeploymentNotification {
  trigger: NotificationTrigger | 'test'
  event: EventKey | 'webhook_test'
  timestamp: string
  project: Pick<Project, 'id' | 'name' | 'deployPath'>
  deployment: Pick<
    DeploymentRow,
    'id' | 'status' | 'duration' | 'startTime' | 'endTime' | 'rollbackOf' | 'message' | 'provenance'
  >
  errorMessage: string | null
  /** When the wait for a confirmation or an approval ends: the earlier files are put back, or it fails. Absent: it does not wait. */
  waitsUntil?: string | null
  /** Address of its page, or null if the public address of the server is unknown. */
  url: string | null
  /** The newest signed checkpoint of the audit log, so that the receiver is a witness. Absent or null: there is none. */
  checkpoint?: string | null
}

/** An event of a named token: it ends soon, or wrong codes have locked it. */
export type TokenNotification = TokenEvent & {
  timestamp: string
  /** Address of the list of tokens, or null if the public address of the server is unknown. */
  url: string | null
  /** As in `DeploymentNotification`. */
  checkpoint?: string | null
}

/** An incident of a rollout, a node or the server. */
export type IncidentNotification = Incident & {
  trigger: (typeof incidentTriggers)[keyof typeof incidentTriggers]
  timestamp: string
  /** Address of the page on which it is decided or seen to, or null if the public address of the server is unknown. */
  url: string | null
  /** As in `DeploymentNotification`. */
  checkpoint?: string | null
}

type TokenEvent =
  | ({ trigger: 'expiry'; event: 'token_expiring' } & TokenReminder)
  | ({ trigger: 'wrong_codes'; event: 'token_locked' } & TokenLock)

/** Copies what a payload needs of an event as it is now: the record may change before a retry, and the copy is stored. */
export function notificationOf(occasion: Occasion, nowMs: number, publicUrl: string | null): DeploymentNotification {
  const { trigger, event, errorMessage } = occasion
  const timestamp = new Date(nowMs).toISOString()
  const { id, name, deployPath } = occasion.project
  const { status, duration, startTime, endTime, rollbackOf, message, provenance } = occasion.deployment
  return {
    trigger,
    event,
    timestamp,
    project: { id, name, deployPath },
    deployment: { id: occasion.deployment.id, status, duration, startTime, endTime, rollbackOf, message, provenance },
    errorMessage,
    ...(event === 'deploy_waiting' && { waitsUntil: occasion.deployment.holdUntil }),
    url: deploymentPage(publicUrl, occasion.deployment.id)
  }
}

/** Returns the notification of a token that ends soon, or that is locked. */
export function tokenNotification(
  about: TokenReminder | TokenLock,
  nowMs: number,
  publicUrl: string | null
): TokenNotification {
  const common = { timestamp: new Date(nowMs).toISOString(), url: tokensPage(publicUrl) }
  if ('lockedUntil' in about) return { trigger: 'wrong_codes', event: 'token_locked', ...common, ...about }
  return { trigger: 'expiry', event: 'token_expiring', ...common, ...about }
}

export function incidentNotification(
  incident: Incident,
  nowMs: number,
  publicUrl: string | null
): IncidentNotification {
  const timestamp = new Date(nowMs).toISOString()
  return { ...incident, trigger: incidentTriggers[incident.event], timestamp, url: pageOf(incident, publicUrl) }
}

function pageOf(incident: Incident, publicUrl: string | null): string | null {
  switch (incident.event) {
    case 'rollout_waiting':
    case 'rollout_halted':
      return rolloutPage(publicUrl, incident.rollout.id)
    case 'node_lost':
      return nodePage(publicUrl, incident.node.id)
    case 'drift_found':
      return projectPage(publicUrl, incident.project.id)
    case 'archives_damaged':
    case 'disk_low':
      return storagePage(publicUrl)
    case 'backup_failed':
      return systemPage(publicUrl)
  }
}

/** A link of a message: its words and its address. */
export interface MessageLink {
  words: string
  url: string
}

const linkWords: Partial<Record<Notification['event'], string>> = {
  token_expiring: 'Open the tokens',
  token_locked: 'Open the tokens',
  rollout_waiting: 'Approve or revert',
  rollout_halted: 'Resume or revert',
  node_lost: 'Open this node',
  drift_found: 'Open this project',
  archives_damaged: 'Open the storage',
  disk_low: 'Open the storage',
  backup_failed: 'Open the system'
}

/**
 * Returns the links of a message. They lead to the decision in the panel, which asks who it is: to follow one changes nothing.
 */
export function linksOf({ event, trigger, url }: Pick<Notification, 'event' | 'trigger' | 'url'>): MessageLink[] {
  if (url === null) return []
  if (event !== 'deploy_waiting') return [{ words: linkWords[event] ?? 'Open this deployment', url }]
  const words = trigger === 'approval' ? ['Approve', 'Reject'] : ['Confirm', 'Revert']
  return words.map(each => ({ words: each, url: `${url}?decide=${each.toLowerCase()}` }))
}

/** Returns the test message. It has every field, and an event that receivers do not act upon. */
export function testNotification(nowMs: number, publicUrl: string | null): DeploymentNotification {
  const timestamp = new Date(nowMs).toISOString()
  return {
    trigger: 'test',
    event: 'webhook_test',
    timestamp,
    project: { id: 'proj_test', name: 'Test', deployPath: '/srv/test' },
    deployment: {
      id: 'dep_test',
      status: 'success',
      duration: '0.00s',
      startTime: timestamp,
      endTime: timestamp,
      rollbackOf: null,
      message: 'A test message: nothing was deployed',
      provenance: null
    },
    errorMessage: null,
    // The deployment does not exist, so the address is that of the panel.
    url: publicUrl === null ? null : `${publicUrl}/`
  }
}

type Headlined =
  | Incident
  | Pick<DeploymentNotification, 'trigger' | 'event' | 'project' | 'waitsUntil'>
  | ({ event: 'token_expiring' } & Pick<TokenReminder, 'token' | 'daysLeft'>)
  | ({ event: 'token_locked' } & Pick<TokenLock, 'token' | 'lockedUntil'>)

/** Returns the event as one line of text. */
export function headlineOf(notification: Headlined): string {
  if (notification.event === 'token_expiring') {
    const { token, daysLeft } = notification
    return `the token "${token.name}" expires in ${countOf(daysLeft, 'day')}`
  }
  if (notification.event === 'token_locked') {
    const { token, lockedUntil } = notification
    return `the token "${token.name}" is locked until ${lockedUntil}: too many wrong codes of its second factor`
  }
  if (isIncident(notification)) return incidentLine(notification)
  const { trigger, event, project } = notification
  if (event === 'deploy_waiting') {
    const what = trigger === 'approval' ? 'an approval' : 'confirmation'
    return `${project.name}: deployment waits for ${what} until ${notification.waitsUntil}`
  }
  if (event === 'recovered') return `${project.name}: recovered, the first success after a failure`
  const hasFailed = event === 'deploy_failure'
  switch (trigger) {
    case 'confirmation':
    case 'approval':
    case 'cli':
      return `${project.name}: deployment ${hasFailed ? 'failed' : 'succeeded'}`
    case 'promotion':
      return `${project.name}: promotion ${hasFailed ? 'failed' : 'succeeded'}`
    case 'rollback':
      return `${project.name}: rollback ${hasFailed ? 'failed' : 'succeeded'}`
    case 'repair':
      return `${project.name}: repair ${hasFailed ? 'failed' : 'succeeded'}`
    case 'async_post_deploy':
      return `${project.name}: the post-deploy script in the background failed`
    case 'manual':
      return `${project.name}: deployment marked as ${hasFailed ? 'failed' : 'successful'}`
    case 'test':
      return 'test message: notifications arrive here'
  }
}

export function isIncident<T extends { event: string }>(notification: T): notification is Extract<T, Incident> {
  return Object.hasOwn(incidentTriggers, notification.event)
}

function incidentLine(incident: Incident): string {
  switch (incident.event) {
    case 'rollout_waiting': {
      const { number, wave, waves } = incident.rollout
      return `${incident.project.name}: rollout ${number} waits for an approval of wave ${wave + 1} of ${waves}`
    }
    case 'rollout_halted': {
      const { number, haltedReason } = incident.rollout
      return `${incident.project.name}: rollout ${number} was halted${haltedReason === null ? '' : `: ${haltedReason}`}`
    }
    case 'node_lost':
      return `node ${incident.node.name} does not answer, last heard of ${incident.node.lastSeenAt ?? 'never'}`
    case 'drift_found': {
      const { files, node } = incident.drift
      const what = files === null ? 'files' : countOf(files, 'file')
      return `${incident.project.name}: ${what} edited on ${node === null ? 'the server' : `node ${node}`}`
    }
    case 'archives_damaged':
      return `kept archives are damaged: ${countOf(incident.releases.length, 'release')} cannot be rolled back to`
    case 'disk_low':
      return `the disk of the data directory is ${Math.floor(incident.disk.percentUsed ?? 0)} % full`
    case 'backup_failed':
      return `a backup failed: ${incident.backup.reason}`
  }
}

/* Addresses of pages of the panel, for links outside of it. Null: no public address is configured. */

/** Returns the address of a page below the public address. */
function pageAt(publicUrl: string | null, path: string): string | null {
  return publicUrl === null ? null : `${publicUrl}/${path}`
}

/** Returns the address of a deployment's page, where it is confirmed or reverted. */
export function deploymentPage(publicUrl: string | null, id: string): string | null {
  return pageAt(publicUrl, `deployments/${encodeURIComponent(id)}`)
}

/** Returns the address of a rollout's page, where it is approved, resumed or reverted. */
export function rolloutPage(publicUrl: string | null, id: string): string | null {
  return pageAt(publicUrl, `rollouts/${encodeURIComponent(id)}`)
}

/** Returns the address of a project's page, which shows the files that were edited. */
export function projectPage(publicUrl: string | null, id: string): string | null {
  return pageAt(publicUrl, `projects/${encodeURIComponent(id)}`)
}

/** Returns the address of a node's page. */
export function nodePage(publicUrl: string | null, id: string): string | null {
  return pageAt(publicUrl, `nodes/${encodeURIComponent(id)}`)
}

/** Returns the address of the list of tokens. */
export const tokensPage = (publicUrl: string | null): string | null => pageAt(publicUrl, 'access')

/** Returns the address of the page that shows what takes space on the disk. */
export const storagePage = (publicUrl: string | null): string | null => pageAt(publicUrl, 'storage')

/** Returns the address of the page that shows the state of the machine. */
export const systemPage = (publicUrl: string | null): string | null => pageAt(publicUrl, 'system')

/*
 * Reports incidents once. What lasts (a lost node, edited files, a full disk) is noted before it is told of, so that neither the
 * next look nor a restart repeats it, and forgotten when it has ended.
 */

export type Incidents = ReturnType<typeof createIncidents>

export interface IncidentsNeeds {
  store: Store
  clock: Clock
  /** Sends a notification. Never throws. */
  tell(incident: Incident): void
  /** The file system of the data directory. */
  disk(): Promise<DiskFigures & { path: string }>
  /** Nodes that were not heard of for too long, and the ids of those that are connected. */
  nodes(): { lost: FleetNode[]; connected: ReadonlySet<string> }
  log(message: string, error?: unknown): void
}

/** From this percentage on, the disk is low; below the second one, it is not any more. */
const lowFromPercent = 90
const wellBelowPercent = 85
const lookMs = 5_000

/** Creates what reports incidents. */
export function createIncidents({ store, clock, tell, disk, nodes, log }: IncidentsNeeds) {
  let timer: NodeJS.Timeout | undefined
  let looking: Promise<void> | null = null

  /** Reports an incident unless it was told of before and has not ended. */
  async function begin(key: string, incident: Incident): Promise<void> {
    if (toldIncidents(store).includes(key)) return
    if (await store.write(tx => noteTold(tx, key, instantOf(clock)))) tell(incident)
  }

  async function end(key: string): Promise<void> {
    if (toldIncidents(store).includes(key)) await store.write(tx => forgetTold(tx, key))
  }

  async function lookAtDisk(): Promise<void> {
    const found = await disk()
    if (found.percentUsed === null) return
    if (found.percentUsed >= lowFromPercent) await begin('disk_low', { event: 'disk_low', project: null, disk: found })
    else if (found.percentUsed < wellBelowPercent) await end('disk_low')
  }

  async function lookAtNodes(): Promise<void> {
    const { lost, connected } = nodes()
    for (const { id, name, lastSeenAt } of lost) {
      const projectIds = listPlacements(store, { nodeId: id }).map(({ projectId }) => projectId)
      await begin(`node_lost ${id}`, { event: 'node_lost', project: null, node: { id, name, lastSeenAt }, projectIds })
    }
    const lostIds = new Set(lost.map(({ id }) => id))
    for (const key of toldIncidents(store)) {
      const [event, id = ''] = key.split(' ')
      const isForgotten = !lostIds.has(id) && findNode(store, id) === undefined
      if (event === 'node_lost' && (connected.has(id) || isForgotten)) await end(key)
      if (event === 'drift_found' && findProject(store, id) === undefined) await end(key)
    }
  }

  async function lookAll(): Promise<void> {
    try {
      await lookAtDisk()
      await lookAtNodes()
    } catch (error) {
      log('Cannot look for incidents', error)
    }
  }

  /** Looks at the disk and the nodes now. Looks do not overlap. Never rejects. */
  function look(): Promise<void> {
    return (looking ??= lookAll().finally(() => (looking = null)))
  }

  return {
    look,

    /** Takes note of how many files of a project differ on this server, or on a node, which may not say how many. */
    async drifted(
      projectId: string,
      files: number | null,
      node: Pick<FleetNode, 'id' | 'name'> | null = null
    ): Promise<void> {
      const key = `drift_found ${projectId}${node === null ? '' : ` ${node.id}`}`
      const project = findProject(store, projectId)
      if (files === 0 || project === undefined) return end(key)
      const { id, name, deployPath } = project
      const drift = { files, node: node?.name ?? null }
      await begin(key, { event: 'drift_found', project: { id, name, deployPath }, drift })
    },

    /** Takes note of the releases whose archives are damaged: all of them, each time. */
    async archives(damaged: readonly string[]): Promise<void> {
      const keyOf = (id: string): string => `archives_damaged ${id}`
      const keys = new Set(damaged.map(keyOf))
      const told = toldIncidents(store)
      for (const key of told) if (key.startsWith(keyOf('')) && !keys.has(key)) await end(key)
      const rows = damaged.filter(id => !told.includes(keyOf(id))).flatMap(id => findDeployment(store, id) ?? [])
      if (rows.length === 0) return
      await store.write(tx => rows.forEach(({ id }) => noteTold(tx, keyOf(id), instantOf(clock))))
      const releases = rows.map(({ id, projectName }) => ({ id, projectName }))
      const projectIds = [...new Set(rows.map(({ projectId }) => projectId))]
      tell({ event: 'archives_damaged', project: null, releases, projectIds })
    },

    start(): void {
      void look()
      timer = setInterval(() => void look(), lookMs).unref()
    },

    /** Waits for a look that is going on. */
    async stop(): Promise<void> {
      clearInterval(timer)
      await looking
    }
  }
}
