import { accessRoles, type AccessToken } from '../../model/access.js'
import type { Reader, Transaction } from '../database.js'
import { choice, flag, nullable, number, rowReader, text, texts, valueReader, type Columns } from './columns.js'
import { tableOf } from './table.js'

/** A named token as it is stored. */
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

/** Adds a token. */
export const insertToken = tokens.insert

/** Writes the fields that are present; returns false if there is no such token. */
export const updateToken = tokens.update

/** Removes a token; returns false if there is none. */
export const deleteToken = tokens.delete

/** Returns one token by its id. */
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

/** Returns the number of tokens. */
export function countTokens(db: Reader): number {
  return db.all('SELECT count(*) FROM tokens').map(readCount)[0] ?? 0
}

/** Removes the tokens that were revoked, or had expired, before an instant (ISO). */
export function removeTokensBefore(tx: Transaction, at: string): number {
  return tx.run('DELETE FROM tokens WHERE coalesce(revokedAt, expiresAt) < ?', at)
}
