import { join } from 'node:path'
import { replaceFile } from '../recovery.js'
import type { Disk } from '../disk.js'
import type { SeenLine } from './etcd-log.js'

/** Which log a database belongs to. */
export interface Belonging {
  cluster: string
  history: string
  /** A line of the log that the database has (etcd-log.ts). */
  seen?: SeenLine | null
}

/** The file `svc.db.cluster` of a hub: which log its svc.db belongs to. */
export interface BelongingFile {
  /** Returns null if the database belongs to no log. */
  read(): Belonging | null
  write(belonging: Belonging): Promise<void>
  remove(): Promise<void>
}

/** Returns the file in a data directory, which may not exist. */
export function createBelongingFile(directory: string, disk: Disk): BelongingFile {
  const path = join(directory, 'svc.db.cluster')
  return {
    read() {
      const bytes = disk.read(path)
      return bytes === null ? null : (JSON.parse(Buffer.from(bytes).toString()) as Belonging)
    },
    write(belonging) {
      const bytes = Buffer.from(JSON.stringify(belonging))
      return replaceFile(disk, path, { bytes: bytes.length, pieces: [bytes], release() {} })
    },
    async remove() {
      await disk.remove(path)
      await disk.syncDirectory(directory)
    }
  }
}
