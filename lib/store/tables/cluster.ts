/* What hubs and nodes keep for one another: keys of the server, secrets of a cluster, and epochs. */
import type { Reader, Transaction } from '../database.js'
import { rowReader, text, valueReader } from './table.js'

/** A key of this server after the first one, as agents learn it. */
interface HubKey {
  /** The 32 bytes in base64. */
  publicKey: string
  /** The signature of the key before. */
  signature: string
}

const readHubKey = rowReader<HubKey>('hubKeys', { publicKey: text, signature: text })

/** Adds a key. */
export function insertHubKey(tx: Transaction, { publicKey, signature }: HubKey): void {
  tx.run('INSERT INTO hubKeys (publicKey, signature) VALUES (?, ?)', publicKey, signature)
}

/** Returns the keys in their order. */
export function listHubKeys(db: Reader): HubKey[] {
  return db.all('SELECT publicKey, signature FROM hubKeys ORDER BY position').map(readHubKey)
}

/** The secrets that every hub of a cluster knows. A server without a cluster keeps them in files. */
export type SecretName = 'adminToken' | 'server.ed25519' | 'server.old.ed25519' | 'session.key' | 'variables.key'

const readValue = valueReader('clusterSecrets.value', text)

/** Returns a secret; null if there is none. */
export function findSecret(db: Reader, name: SecretName): string | null {
  const row = db.get('SELECT value FROM clusterSecrets WHERE name = ?', name)
  return row === undefined ? null : readValue(row)
}

/** Writes a secret, replacing its previous value. */
export function putSecret(tx: Transaction, name: SecretName, value: string): void {
  tx.run(
    'INSERT INTO clusterSecrets (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
    name,
    value
  )
}

/** Removes all secrets. */
export function clearSecrets(tx: Transaction): void {
  tx.run('DELETE FROM clusterSecrets')
}

/*
 * The histories of a hub's database. Each has an id, its epoch, which orders name: after a restore, another one begins. A
 * hub keeps its own ones, the last one is the current one; a node keeps those of its hub.
 */

const readEpoch = valueReader('epochs.epoch', text)
/** Number of epochs that are kept. */
const keptEpochs = 200

/** Returns the epochs, the current one last. */
export function listEpochs(db: Reader): string[] {
  return db.all('SELECT epoch FROM epochs ORDER BY position').map(readEpoch)
}

/** Returns the current epoch; empty if none has begun. */
export function currentEpoch(db: Reader): string {
  return db.all('SELECT epoch FROM epochs ORDER BY position DESC LIMIT 1').map(readEpoch)[0] ?? ''
}

/** Begins an epoch, unless it has begun before. */
export function beginEpoch(tx: Transaction, epoch: string): void {
  tx.run('INSERT INTO epochs (epoch) VALUES (?) ON CONFLICT DO NOTHING', epoch)
  tx.run('DELETE FROM epochs WHERE position <= (SELECT max(position) FROM epochs) - ?', keptEpochs)
}
