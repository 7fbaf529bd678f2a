/*
 * Files that an interrupted import set aside. An import replaces files of deployments. If svc is killed before the
 * import has restored or removed the old ones, they remain:
 *
 *   tmp/<random>.<fingerprint>.<id>.<ending>.before     the old file
 *   tmp/<random>.<fingerprint>.<id>.<ending>.absent     there was no old file
 *
 * The fingerprint is that of the deployment's record before the import. If the record still has it, the import was not
 * committed, and the old state is restored. If the record differs, the import is complete. If there is no record any
 * more, the database was lost, and nothing is changed.
 */
import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { fingerprintOf } from '../base/digests.js'
import type { Reader } from '../store/database.js'
import { findDeployment } from '../store/tables/deployments.js'
import { removeFile, type DeployHome, type FoundFile } from './files.js'

/** Pattern of the names: fingerprint, file, deployment, and whether there was an old file. */
export const asidePattern = /^[\w-]{43}\.([0-9a-f]{16})\.((dep_\w+)\.(?:zip|log|manifest|scripted))\.(before|absent)$/

/** Restores a file, or removes what was set aside. Returns whether it did either. */
export async function settleAside(
  { path, match }: FoundFile,
  { home, db }: { home: DeployHome; db: Reader }
): Promise<boolean> {
  const [, fingerprint, name = '', id = '', kind] = match
  const row = findDeployment(db, id)
  if (fingerprintOf(row) !== fingerprint) return row === undefined ? false : removeFile(path)
  const place = join(home.deployments, name)
  if (kind === 'before') await rename(path, place)
  // Without a record, the lists of pending.ts decide: they detect a lost database.
  else if (row !== undefined) await removeFile(place)
  // Needed if both are names of the same file, because rename(2) then does nothing.
  await removeFile(path)
  return true
}
