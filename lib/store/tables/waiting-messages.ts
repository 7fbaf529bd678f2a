/*
 * Messages to notification targets that are not delivered yet. A row has neither the address nor the secret of its
 * target, and is removed together with it.
 */
import type { NotificationQueue, WaitingMessage } from '../../model/notification-target.js'
import type { Reader, Transaction } from '../database.js'
import { isObject, json, nullable, number, text } from './columns.js'
import { tableOf } from './table.js'

const messages = tableOf<WaitingMessage>('waitingMessages', {
  id: text,
  targetId: text,
  notification: json('a notification', isObject),
  createdAt: text,
  attempts: number,
  nextAt: text,
  problem: nullable(text)
})

/** Adds a message at the end of the queue of its target. */
export function insertWaitingMessage(tx: Transaction, message: WaitingMessage): void {
  messages.insert(tx, message)
}

/** Writes the fields that are present; returns false if there is no such message. */
export const updateWaitingMessage = messages.update

/** Removes a message, and sets the number of dropped messages of its target to 0: it was delivered. */
export function deleteDelivered(tx: Transaction, { id, targetId }: Pick<WaitingMessage, 'id' | 'targetId'>): void {
  messages.delete(tx, id)
  tx.run('UPDATE notificationTargets SET dropped = 0 WHERE id = ? AND dropped > 0', targetId)
}

/** Removes a message that its target has refused; returns false if there is none. */
export const deleteWaitingMessage = messages.delete

/** Returns the next message of a target. */
export function firstWaitingMessage(db: Reader, targetId: string): WaitingMessage | undefined {
  const row = db.get('SELECT * FROM waitingMessages WHERE targetId = ? ORDER BY position LIMIT 1', targetId)
  return row === undefined ? undefined : messages.read(row)
}

/** Returns the ids of the targets with messages. */
export function targetsWithMessages(db: Reader): string[] {
  return db.all('SELECT DISTINCT targetId FROM waitingMessages').map(row => String(row['targetId']))
}

/** Drops the oldest messages of a target above these limits, but not the newest one. Returns their number. */
export function dropAbove(tx: Transaction, targetId: string, limits: { messages: number; bytes: number }): number {
  const rows = tx.all(
    'SELECT id, length(CAST(notification AS BLOB)) AS bytes FROM waitingMessages WHERE targetId = ? ORDER BY position DESC',
    targetId
  )
  let bytes = 0
  const kept = rows.findIndex((row, index) => {
    bytes += Number(row['bytes'])
    return index > 0 && (index >= limits.messages || bytes > limits.bytes)
  })
  if (kept === -1) return 0
  for (const row of rows.slice(kept)) messages.delete(tx, String(row['id']))
  return countDropped(tx, targetId, rows.length - kept)
}

/** Drops the messages of a target that were added before this time. Returns their number. */
export function dropBefore(tx: Transaction, targetId: string, createdAt: string): number {
  const count = tx.run('DELETE FROM waitingMessages WHERE targetId = ? AND createdAt < ?', targetId, createdAt)
  return countDropped(tx, targetId, count)
}

function countDropped(tx: Transaction, targetId: string, count: number): number {
  if (count > 0) tx.run('UPDATE notificationTargets SET dropped = dropped + ? WHERE id = ?', count, targetId)
  return count
}

/** Returns what waits for a target. */
export function queueOf(db: Reader, targetId: string): NotificationQueue {
  const sql = `SELECT count(*) AS waiting, min(createdAt) AS oldestAt,
    (SELECT dropped FROM notificationTargets WHERE id = ?) AS dropped FROM waitingMessages WHERE targetId = ?`
  const { waiting, oldestAt, dropped } = db.get(sql, targetId, targetId) ?? {}
  const { nextAt = null, problem = null, attempts = 0 } = firstWaitingMessage(db, targetId) ?? {}
  return {
    waiting: Number(waiting ?? 0),
    oldestAt: typeof oldestAt === 'string' ? oldestAt : null,
    nextAt: attempts > 0 ? nextAt : null,
    problem,
    dropped: Number(dropped ?? 0)
  }
}

/** Returns the number of messages that wait for all targets, and since when the oldest does. */
export function countWaitingMessages(db: Reader): Pick<NotificationQueue, 'waiting' | 'oldestAt'> {
  const { waiting, oldestAt } =
    db.get('SELECT count(*) AS waiting, min(createdAt) AS oldestAt FROM waitingMessages') ?? {}
  return { waiting: Number(waiting ?? 0), oldestAt: typeof oldestAt === 'string' ? oldestAt : null }
}
