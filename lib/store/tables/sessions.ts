import type { BrowserSession } from '../../model/session.js'
import type { Reader } from '../database.js'
import { flag, nullable, text } from './columns.js'
import { tableOf } from './table.js'

/** A session as it is stored. */
export interface StoredSession extends BrowserSession {
  /** Identifies the secret in the browser's cookie, which is not stored. */
  digest: string
  /** Identifies the secret with which the session began. */
  tokenMark: string
}

const sessions = tableOf<StoredSession>('sessions', {
  id: text,
  digest: text,
  tokenMark: text,
  createdAt: text,
  lastUsedAt: text,
  expiresAt: text,
  remember: flag,
  ip: nullable(text),
  userAgent: nullable(text),
  tokenId: nullable(text),
  provenAt: nullable(text)
})

/** Adds a session. */
export const insertSession = sessions.insert

/** Writes the fields that are present; returns false if there is no such session. */
export const updateSession = sessions.update

/** Removes a session; returns false if there is none. */
export const deleteSession = sessions.delete

/** Returns the session with this digest. */
export function findSessionByDigest(db: Reader, digest: string): StoredSession | undefined {
  return db.all('SELECT * FROM sessions WHERE digest = ?', digest).map(sessions.read)[0]
}

/** Returns all sessions, the most recently used first. */
export function listSessions(db: Reader): StoredSession[] {
  return db.all('SELECT * FROM sessions ORDER BY lastUsedAt DESC, id').map(sessions.read)
}
