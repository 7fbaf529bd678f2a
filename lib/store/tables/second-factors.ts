import type { Reader, Transaction } from '../database.js'
import { nullable, number, rowReader, text, texts } from './columns.js'

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
