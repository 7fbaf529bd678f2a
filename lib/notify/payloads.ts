import { suggestedKind } from '../model/notification-target.js'
import type { NotificationKind } from '../model/notification-target.js'
import { dingtalkPayload, feishuPayload, slackPayload, teamsPayload, weComPayload } from './chat-payloads.js'
import type { Notification } from './events.js'

/** The kinds that an address of the setting `webhook_url` can have (§6.5); any other host gets generic JSON. */
const settingsKinds: readonly NotificationKind[] = ['feishu', 'dingtalk']

/** The kind of the setting `webhook_url`, which nobody chooses. */
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

/** The body of a notification, for JSON. */
export function payloadOf(notification: Notification, kind: NotificationKind): unknown {
  return builders[kind](notification)
}

function genericPayload({ event, trigger, timestamp, project, deployment, errorMessage, url }: Notification): unknown {
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
    url
  }
}
