/*
 * The histories of a hub's database. Each has an id, its epoch, which orders name: after a restore, another one begins. A
 * hub keeps its own ones, the last one is the current one; a node keeps those of its hub.
 */
import type { Reader, Transaction } from '../database.js'
import { text, valueReader } from './columns.js'

const read = valueReader('epochs.epoch', text)
/** Number of epochs that are kept. */
const kept = 200

/** Returns the epochs, the current one last. */
export function listEpochs(db: Reader): string[] {
  return db.all('SELECT epoch FROM epochs ORDER BY position').map(read)
}

/** Returns the current epoch; empty if none has begun. */
export function currentEpoch(db: Reader): string {
  return db.all('SELECT epoch FROM epochs ORDER BY position DESC LIMIT 1').map(read)[0] ?? ''
}

/** Begins an epoch, unless it has begun before. */
export function beginEpoch(tx: Transaction, epoch: string): void {
  tx.run('INSERT INTO epochs (epoch) VALUES (?) ON CONFLICT DO NOTHING', epoch)
  tx.run('DELETE FROM epochs WHERE position <= (SELECT max(position) FROM epochs) - ?', kept)
}
