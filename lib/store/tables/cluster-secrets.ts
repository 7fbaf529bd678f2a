import type { Reader, Transaction } from '../database.js'
import { text, valueReader } from './columns.js'

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
