import { closeSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { join } from 'node:path'

const blockBytes = 4096
const nameOf = (directory: string): string => join(directory, 'filler')

/** Fills the disk of a directory except for some bytes. */
export function fillDisk(directory: string, leftBytes: number): void {
  const fd = openSync(nameOf(directory), 'w')
  try {
    const { bavail, bsize } = statfsSync(directory)
    const piece = Buffer.alloc(64 * blockBytes, 1)
    for (let bytes = bavail * bsize - leftBytes; bytes > 0; )
      bytes -= writeSync(fd, piece, 0, Math.min(piece.length, bytes))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  } finally {
    closeSync(fd)
  }
}

/** Frees the space again. */
export function emptyDisk(directory: string): void {
  rmSync(nameOf(directory), { force: true })
}
