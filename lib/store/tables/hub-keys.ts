import type { Reader, Transaction } from '../database.js'
import { rowReader, text } from './columns.js'

/** A key of this server after the first one, as agents learn it. */
export interface HubKey {
  /** The 32 bytes in base64. */
  publicKey: string
  /** The signature of the key before. */
  signature: string
}

const read = rowReader<HubKey>('hubKeys', { publicKey: text, signature: text })

/** Adds a key. */
export function insertHubKey(tx: Transaction, { publicKey, signature }: HubKey): void {
  tx.run('INSERT INTO hubKeys (publicKey, signature) VALUES (?, ?)', publicKey, signature)
}

/** Returns the keys in their order. */
export function listHubKeys(db: Reader): HubKey[] {
  return db.all('SELECT publicKey, signature FROM hubKeys ORDER BY position').map(read)
}
