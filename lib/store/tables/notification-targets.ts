import type { NotificationTarget } from '../../model/notification-target.js'
import type { Reader, Transaction } from '../database.js'
import { columnsOf } from './columns.js'

const columns = columnsOf<NotificationTarget>('notificationTargets', {
  id: 'plain',
  name: 'plain',
  kind: 'plain',
  url: 'plain',
  secret: 'plain',
  events: 'json',
  projectIds: 'json',
  enabled: 'flag',
  createdAt: 'plain',
  updatedAt: 'plain'
})

/** Adds a target. */
export function insertNotificationTarget(tx: Transaction, target: NotificationTarget): void {
  columns.insert(tx, target)
}

/** Writes the fields that are present; false if there is no such target. */
export function updateNotificationTarget(tx: Transaction, id: string, patch: Partial<NotificationTarget>): boolean {
  return columns.update(tx, id, patch) > 0
}

/** Removes a target; false if there is none. */
export function deleteNotificationTarget(tx: Transaction, id: string): boolean {
  return tx.run('DELETE FROM notificationTargets WHERE id = ?', id) > 0
}

/** One target by its id. */
export function findNotificationTarget(db: Reader, id: string): NotificationTarget | undefined {
  const row = db.get<NotificationTarget>('SELECT * FROM notificationTargets WHERE id = ?', id)
  return row === undefined ? undefined : columns.decode(row)
}

/** All targets, in the order in which they were added. */
export function listNotificationTargets(db: Reader): NotificationTarget[] {
  return db.all<NotificationTarget>('SELECT * FROM notificationTargets ORDER BY position').map(row => columns.decode(row))
}
