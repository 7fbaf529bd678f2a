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
 * Takes a recovered database to the schema of this program, in memory; gives the number of steps. What it was before, with
 * all that the redo log had, is first kept beside it, on the disk, for whoever goes back to the older program. Nothing else
 * is changed: svc.db becomes the new one by the checkpoint that follows, so a crash anywhere leaves the old one, from which
 * the next start begins again, or the new one.
 */
export async function upgrade({ memory, held, sequence }: Recovered, { disk, clock, databasePath }: Upgrade): Promise<number> {
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
