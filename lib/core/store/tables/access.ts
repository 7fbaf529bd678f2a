/* The tables of access: named tokens and their second factors, sessions, reminders, and who acted last. */
import { accessRoles, type AccessToken, type BrowserSession } from '../../../model/access.js'
import type { Reader, Transaction } from '../database.js'
import { choice, type Columns, flag, nullable, number, rowReader, tableOf, text, texts, valueReader } from './table.js'

export interface StoredToken extends Omit<AccessToken, 'secondFactor'> {
  /** Identifies the secret, which is not stored. */
  digest: string
  /** Identifies the secret before the last rotation; null: there is none that is still valid. */
  oldDigest: string | null
}

const columns: Columns<StoredToken> = {
  id: text,
  name: text,
  digest: text,
  role: choice(accessRoles),
  projectIds: nullable(texts),
  allowedIps: texts,
  showScripts: flag,
  createdAt: text,
  createdBy: text,
  expiresAt: text,
  lastUsedAt: nullable(text),
  lastUsedIp: nullable(text),
  rotatedAt: nullable(text),
  oldDigest: nullable(text),
  oldExpiresAt: nullable(text),
  oldLastUsedAt: nullable(text),
  revokedAt: nullable(text)
}

const tokens = tableOf<StoredToken>('tokens', columns)
const readCount = valueReader('count of tokens', number)
const readEnrolled = rowReader<{ tokenId: string }>('secondFactors', { tokenId: text })

export const insertToken = tokens.insert

/** Writes the fields that are present; returns false if there is no such token. */
export const updateToken = tokens.update

export const findToken = tokens.find

/** Returns the token with this name, whatever the case of its letters. */
export function findTokenByName(db: Reader, name: string): StoredToken | undefined {
  return db.all('SELECT * FROM tokens WHERE name = ?', name).map(tokens.read)[0]
}

/** Returns all tokens, by name. */
export function listTokens(db: Reader): StoredToken[] {
  return db.all('SELECT * FROM tokens ORDER BY name, id').map(tokens.read)
}

/** Returns the ids of the tokens that have a confirmed second factor. */
export function enrolledTokens(db: Reader): Set<string> {
  const sql = 'SELECT tokenId FROM secondFactors WHERE confirmedAt IS NOT NULL'
  return new Set(db.all(sql).map(row => readEnrolled(row).tokenId))
}

export function countTokens(db: Reader): number {
  return db.all('SELECT count(*) FROM tokens').map(readCount)[0] ?? 0
}

/** Removes the tokens that were revoked, or had expired, before an instant (ISO). */
export function removeTokensBefore(tx: Transaction, at: string): number {
  return tx.run('DELETE FROM tokens WHERE coalesce(revokedAt, expiresAt) < ?', at)
}

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

export const insertSession = sessions.insert

/** Writes the fields that are present; returns false if there is no such session. */
export const updateSession = sessions.update

/** Removes a session; returns false if there is none. */
export const deleteSession = sessions.delete

/** Returns the session, or undefined if there is none. */
export const findSession = sessions.find

export function findSessionByDigest(db: Reader, digest: string): StoredSession | undefined {
  return db.all('SELECT * FROM sessions WHERE digest = ?', digest).map(sessions.read)[0]
}

/** Returns all sessions, the most recently used first. */
export function listSessions(db: Reader): StoredSession[] {
  return db.all('SELECT * FROM sessions ORDER BY lastUsedAt DESC, id').map(sessions.read)
}

/** The second factor of a named token. */
export interface StoredFactor {
  tokenId: string
  /** The encrypted secret of the authenticator. */
  secret: string
  /** Null until a first code has proved that the authenticator has the secret. */
  confirmedAt: string | null
  /** The step of the last accepted code, which is not accepted again. */
  lastStep: number
  /** Digests of the recovery codes that were not used. */
  recovery: string[]
  /** When wrong codes were given since the last lock, the oldest first. */
  wrongAt: string[]
  /** Until when no code is accepted; null: it was never locked. */
  lockedUntil: string | null
}

const readFactor = rowReader<StoredFactor>('secondFactors', {
  tokenId: text,
  secret: text,
  confirmedAt: nullable(text),
  lastStep: number,
  recovery: texts,
  wrongAt: texts,
  lockedUntil: nullable(text)
})

/** Returns the second factor of a token, confirmed or not. */
export function findFactor(db: Reader, tokenId: string): StoredFactor | undefined {
  return db.all('SELECT * FROM secondFactors WHERE tokenId = ?', tokenId).map(readFactor)[0]
}

/** Writes a second factor, replacing an earlier one of the token. */
export function putFactor(tx: Transaction, factor: StoredFactor): void {
  const { tokenId, secret, confirmedAt, lastStep, recovery, wrongAt, lockedUntil } = factor
  const sql =
    'INSERT OR REPLACE INTO secondFactors (tokenId, secret, confirmedAt, lastStep, recovery, wrongAt, lockedUntil) VALUES (?, ?, ?, ?, ?, ?, ?)'
  tx.run(sql, tokenId, secret, confirmedAt, lastStep, JSON.stringify(recovery), JSON.stringify(wrongAt), lockedUntil)
}

/** Removes a second factor; returns false if there is no such row. */
export function deleteFactor(tx: Transaction, tokenId: string): boolean {
  return tx.run('DELETE FROM secondFactors WHERE tokenId = ?', tokenId) > 0
}

/** The last reminder about the end of a token. A later end of the same token needs reminders of its own. */
interface SentReminder {
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

const readAct = rowReader<{ actor: string; at: string }>('audit', { actor: text, at: text })

/**
 * Returns the time of the newest audit entry of each actor that is not a named token. It reads the whole log: about 60 ms
 * for 100,000 entries.
 */
export function lastActs(db: Reader): Map<string, string> {
  const sql = 'SELECT actor, max(at) AS at FROM audit WHERE tokenId IS NULL GROUP BY actor'
  return new Map(
    db
      .all(sql)
      .map(row => readAct(row))
      .map(({ actor, at }) => [actor, at])
  )
}
