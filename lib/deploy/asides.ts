/*
 * Files of deployments that an import has replaced, and that a kill kept from being put back or removed.
 *
 *   tmp/<random>.<fingerprint>.<id>.<ending>.before     what the file was
 *   tmp/<random>.<fingerprint>.<id>.<ending>.absent     there was none
 *
 * The fingerprint is of the deployment's record at that time. If the record is still the same, the import's transaction
 * did not become durable, and the file becomes what it was. If the record is another one, the import is done. If there is
 * none any more, the database was lost: nothing is changed.
 */
import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { fingerprintOf } from '../base/fingerprint.js'
import type { Reader } from '../store/database.js'
import { findDeployment } from '../store/tables/deployments.js'
import { removeFile, type DeployHome, type FoundFile } from './files.js'

/** Names of what was set aside: fingerprint, file, deployment, and what was there. */
export const asidePattern = /^[\w-]{43}\.([0-9a-f]{16})\.((dep_\w+)\.(?:zip|log|manifest))\.(before|absent)$/

/** Puts a file back, or removes what was set aside. Returns whether it did. */
export async function settleAside({ path, match }: FoundFile, { home, db }: { home: DeployHome; db: Reader }): Promise<boolean> {
  const [, fingerprint, name = '', id = '', kind] = match
  const row = findDeployment(db, id)
  if (fingerprintOf(row) !== fingerprint) return row === undefined ? false : removeFile(path)
  const place = join(home.deployments, name)
  if (kind === 'before') await rename(path, place)
  // Without a record that is for the list of pending.ts to say, which knows a lost database.
  else if (row !== undefined) await removeFile(place)
  // rename(2) does nothing if both are names of the same file.
  await removeFile(path)
  return true
}
