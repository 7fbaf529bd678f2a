import type { BrowserSession } from '../../model/session.js'
import type { Reader, Transaction } from '../database.js'
import { columnsOf } from './columns.js'

/** A session as it is stored. */
export interface StoredSession extends BrowserSession {
  /** Identifies the secret in the browser's cookie, which is not stored. */
  digest: string
  /** Identifies the admin token with which the session began. */
  tokenMark: string
}

const columns = columnsOf<StoredSession>('sessions', {
  id: 'plain',
  digest: 'plain',
  tokenMark: 'plain',
  createdAt: 'plain',
  lastUsedAt: 'plain',
  expiresAt: 'plain',
  remember: 'flag',
  ip: 'plain',
  userAgent: 'plain'
})

/** Adds a session. */
export function insertSession(tx: Transaction, session: StoredSession): void {
  columns.insert(tx, session)
}

/** Writes the fields that are present; returns false if there is no such session. */
export function updateSession(tx: Transaction, id: string, patch: Partial<StoredSession>): boolean {
  return columns.update(tx, id, patch) > 0
}

/** Removes a session; returns false if there is none. */
export function deleteSession(tx: Transaction, id: string): boolean {
  return tx.run('DELETE FROM sessions WHERE id = ?', id) > 0
}

/** The session with this digest. */
export function findSessionByDigest(db: Reader, digest: string): StoredSession | undefined {
  const row = db.get<object>('SELECT * FROM sessions WHERE digest = ?', digest)
  return row === undefined ? undefined : columns.decode(row)
}

/** All sessions, the most recently used first. */
export function listSessions(db: Reader): StoredSession[] {
  return db.all<object>('SELECT * FROM sessions ORDER BY lastUsedAt DESC, id').map(row => columns.decode(row))
}
