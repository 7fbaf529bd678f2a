import type { Reader, Transaction } from '../database.js'
import { rowReader, text } from './columns.js'

/** An archive on a hub of a cluster. */
export interface BlobCopy {
  deployId: string
  hub: string
}

const readCopy = rowReader<BlobCopy>('blobCopies', { deployId: text, hub: text })

/** Returns the hubs that have the archive of a deployment. */
export function copiesOf(db: Reader, deployId: string): string[] {
  return db
    .all('SELECT deployId, hub FROM blobCopies WHERE deployId = ? ORDER BY hub', deployId)
    .map(row => readCopy(row).hub)
}

/** Records that a hub has the archive of a deployment. */
export function putCopy(tx: Transaction, { deployId, hub }: BlobCopy): void {
  tx.run('INSERT OR IGNORE INTO blobCopies (deployId, hub) VALUES (?, ?)', deployId, hub)
}

/** Removes the copies of deployments that do not exist or have no archive any more. */
export function dropCopies(tx: Transaction): number {
  return tx.run('DELETE FROM blobCopies WHERE deployId NOT IN (SELECT id FROM deployments WHERE hasArtifact = 1)')
}

/** Removes the copies of a hub that has left. */
export function dropCopiesOf(tx: Transaction, hub: string): void {
  tx.run('DELETE FROM blobCopies WHERE hub = ?', hub)
}
