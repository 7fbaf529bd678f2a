import type { DeploymentRow, EventKey, NotificationTrigger } from '../../model/deployment.js'
import { deploymentPage, tokensPage } from '../../model/provenance.js'
import type { Project } from '../../model/project.js'
import type { TokenLock, TokenReminder } from '../../model/access.js'
import { countOf } from '../../base/text.js'

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
export type Notification = DeploymentNotification | TokenNotification

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
  | Pick<DeploymentNotification, 'trigger' | 'event' | 'project'>
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
  const { trigger, event, project } = notification
  const hasFailed = event === 'deploy_failure'
  switch (trigger) {
    case 'cli':
      return `${project.name}: deployment ${hasFailed ? 'failed' : 'succeeded'}`
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
