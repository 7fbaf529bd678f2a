import { eventKeys, notificationKinds, type NotificationTarget } from '../../model/notification-target.js'
import type { Reader } from '../database.js'
import { choice, flag, isOneOf, jsonList, text, texts } from './columns.js'
import { tableOf } from './table.js'

const targets = tableOf<NotificationTarget>('notificationTargets', {
  id: text,
  name: text,
  kind: choice(notificationKinds),
  url: text,
  secret: text,
  events: jsonList('events', isOneOf(eventKeys)),
  projectIds: texts,
  enabled: flag,
  createdAt: text,
  updatedAt: text
})

/** Adds a target. */
export const insertNotificationTarget = targets.insert

/** Writes the fields that are present; returns false if there is no such target. */
export const updateNotificationTarget = targets.update

/** Removes a target; returns false if there is none. */
export const deleteNotificationTarget = targets.delete

/** Returns one target by its id. */
export const findNotificationTarget = targets.find

/** Returns all targets in the order in which they were added. */
export function listNotificationTargets(db: Reader): NotificationTarget[] {
  return db.all('SELECT * FROM notificationTargets ORDER BY position').map(targets.read)
}
