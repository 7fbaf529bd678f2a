/* Schemas of notification targets. */
import { eventKeys, notificationKinds, type NotificationTargetView } from '../../../model/notification-target.js'
import { boolean, described, list, named, nullableInstant, oneOf, record, text } from '../schema.js'
import { projectId } from './common.js'

/** The id of a notification target. */
export const targetId = text('ntgt_1a2b3c4d5e6f7a8b')

const view = {
  id: targetId,
  name: text('Team'),
  kind: oneOf(notificationKinds, 'slack'),
  events: list(oneOf(eventKeys)),
  projectIds: described('Projects to notify about. Empty means all', list(projectId)),
  enabled: boolean(true),
  address: described('Scheme, host and port of the address. The rest is hidden', text('https://hooks.slack.com/…')),
  hasSecret: described('Whether messages are signed with a secret', boolean(false)),
  isFromSettings: described('Whether the target is defined by the settings', boolean(false)),
  createdAt: nullableInstant,
  updatedAt: nullableInstant
}

/** A notification target. */
export const notificationTarget = named('NotificationTarget', record<NotificationTargetView>(view))
