import { stampedImage, replaceFile } from './checkpoint.js'
import type { Clock } from '../base/clock.js'
import type { Disk } from './disk.js'
import type { Recovered } from './recovery.js'
import { migrate, schemaVersion, versionOf } from './schema.js'

interface Upgrade {
  disk: Disk
  clock: Clock
  databasePath: string
}

/**
 * Migrates a recovered database in memory to the schema of this program; returns the number of migrations. First it
 * writes the database as it was before, including the redo log, to `svc.db.schema-<version>`, for a return to the older
 * program. Nothing else changes: the checkpoint that follows writes the new svc.db. So after a crash at any point,
 * svc.db is either the old one, from which the next start migrates again, or the new one.
 */
export async function upgrade(
  { memory, held, sequence }: Recovered,
  { disk, clock, databasePath }: Upgrade
): Promise<number> {
  const from = versionOf(memory)
  if (held !== null && from < schemaVersion) {
    const image = stampedImage(memory, sequence, clock)
    try {
      await replaceFile(disk, `${databasePath}.schema-${from}`, image)
    } finally {
      image.release()
    }
  }
  return migrate(memory)
}
