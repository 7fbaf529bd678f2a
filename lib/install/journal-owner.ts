/*
 * `deployments/<id>.helper`: which helper process works on an extraction, with whose rights, and in which target. The
 * file is there as long as the undo journal is (undo.ts).
 *
 * svc alone writes it, before the process gets its job. The process, and with it the user of the project, can write the
 * journal itself. So svc takes from the journal nothing that it acts on with its own rights: not whose rights a recovery
 * has, not which process it ends, and not which deployments have to wait for it.
 */
import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { integer, line, maxPathLength, multiline, readFields } from '../base/fields.js'
import { hasCode } from '../base/errors.js'
import { syncDirectory, writeFully, type Disk } from './disk.js'

/** The process that performs an extraction instead of a thread of svc. */
export interface JournalOwner {
  user: string
  uid: number
  pid: number
  /** Start time and boot as in proc(5). They distinguish the process from a later one with the same number. */
  startedAt: string
  bootId: string
  /** The real path of the target. */
  target: string
}

const fields = {
  user: line({ min: 1 }),
  uid: integer(0, 2 ** 32),
  pid: integer(1, 2 ** 31),
  startedAt: line(),
  bootId: line(),
  target: multiline({ min: 1, max: maxPathLength })
}

/** Returns the path of the file that belongs to a journal. */
export function ownerPathOf(journalPath: string): string {
  return journalPath.replace(/\.undo$/, '.helper')
}

/** Writes the owner of a journal. It and the names in its directory are on disk when this returns. */
export function writeOwner(disk: Disk, journalPath: string, owner: JournalOwner): void {
  const path = ownerPathOf(journalPath)
  const fd = disk.openSync(`${path}.tmp`, 'w', 0o600)
  try {
    writeFully(disk, fd, Buffer.from(`${JSON.stringify(owner)}\n`))
    disk.fdatasyncSync(fd)
  } finally {
    disk.closeSync(fd)
  }
  disk.renameSync(`${path}.tmp`, path)
  syncDirectory(disk, dirname(path))
}

/** Returns the owner of a journal, or null if a thread of svc works on it. */
export function readOwner(journalPath: string): JournalOwner | null {
  try {
    return readFields(JSON.parse(readFileSync(ownerPathOf(journalPath), 'utf8')), fields)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    throw error
  }
}
