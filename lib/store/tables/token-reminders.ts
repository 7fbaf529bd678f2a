import type { Reader, Transaction } from '../database.js'
import { number, rowReader, text } from './columns.js'

/** The last reminder about the end of a token. A later end of the same token needs reminders of its own. */
export interface SentReminder {
  tokenId: string
  expiresAt: string
  /** Days before the end. */
  days: number
}

const readReminder = rowReader<SentReminder>('tokenReminders', { tokenId: text, expiresAt: text, days: number })

/** Returns the last reminder of each token. */
export function listSentReminders(db: Reader): SentReminder[] {
  return db.all('SELECT * FROM tokenReminders').map(readReminder)
}

/** Notes a reminder in place of the earlier one of the token. */
export function putSentReminder(tx: Transaction, { tokenId, expiresAt, days }: SentReminder): void {
  tx.run('INSERT OR REPLACE INTO tokenReminders (tokenId, expiresAt, days) VALUES (?, ?, ?)', tokenId, expiresAt, days)
}
