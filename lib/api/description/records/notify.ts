/* Schemas of notification targets. */
import {
  eventKeys,
  notificationKinds,
  type NotificationQueue,
  type NotificationTargetView
} from '../../../model/notification-target.js'
import { boolean, described, integer, list, named, nullable, nullableInstant, oneOf, record, text } from '../schema.js'
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
  queue: described(
    'Messages that are not delivered yet. The target of the settings has no queue',
    record<NotificationQueue>({
      waiting: integer(0),
      oldestAt: nullableInstant,
      nextAt: described('When the next attempt is due, after one that failed', nullableInstant),
      problem: described('Why the latest attempt failed', nullable(text('answered 503'))),
      dropped: described('Number of messages dropped since the last delivered one', integer(0))
    })
  ),
  createdAt: nullableInstant,
  updatedAt: nullableInstant
}

/** A notification target. */
export const notificationTarget = named('NotificationTarget', record<NotificationTargetView>(view))
