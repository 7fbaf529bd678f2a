import { suggestedKind, type NotificationKind } from '../model/notification-target.js'
import { dingtalkPayload, feishuPayload, slackPayload, teamsPayload, weComPayload } from './chat-payloads.js'
import { headlineOf, type DeploymentNotification, type Notification, type TokenNotification } from './events.js'

/** The kinds that the setting `webhook_url` supports (§6.5). Any other host gets generic JSON. */
const settingsKinds: readonly NotificationKind[] = ['feishu', 'dingtalk']

/** Returns the kind of the setting `webhook_url`, which is derived from its host. */
export function kindOfSetting(hostname: string): NotificationKind {
  const kind = suggestedKind(hostname)
  return settingsKinds.includes(kind) ? kind : 'generic'
}

const builders: Record<NotificationKind, (notification: Notification) => unknown> = {
  generic: genericPayload,
  slack: slackPayload,
  teams: teamsPayload,
  feishu: feishuPayload,
  dingtalk: dingtalkPayload,
  wecom: weComPayload
}

/** Returns the body of a notification as a value for JSON. */
export function payloadOf(notification: Notification, kind: NotificationKind): unknown {
  return builders[kind](notification)
}

function genericPayload(notification: Notification): unknown {
  return 'token' in notification ? payloadOfToken(notification) : payloadOfDeployment(notification)
}

/** Returns the fields of every payload, and the token. A token belongs to no deployment, so those fields are null. */
function payloadOfToken(notification: TokenNotification): unknown {
  const { event, trigger, timestamp, token, url, checkpoint = null } = notification
  const { id, name, role, projectIds, expiresAt } = token
  const { daysLeft, lockedUntil } = { daysLeft: undefined, lockedUntil: undefined, ...notification }
  return {
    event,
    trigger,
    timestamp,
    project: null,
    deployment: null,
    errorMessage: null,
    message: headlineOf(notification),
    token: { id, name, role, projectIds, expiresAt, daysLeft, lockedUntil },
    url,
    checkpoint
  }
}

function payloadOfDeployment(notification: DeploymentNotification): unknown {
  const { event, trigger, timestamp, project, deployment, errorMessage, url, checkpoint = null } = notification
  const { id, name, deployPath } = project
  const { status, duration, startTime, endTime, rollbackOf, message, provenance } = deployment
  return {
    event,
    trigger,
    timestamp,
    project: { id, name, deployPath },
    deployment: { id: deployment.id, status, duration, startTime, endTime, rollbackOf, provenance },
    errorMessage,
    message,
    url,
    checkpoint
  }
}
