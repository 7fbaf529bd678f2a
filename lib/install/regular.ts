/*
 * Opens files of a target only if they are regular, without waiting and without following a link. The owner of the
 * target can replace a file with a FIFO, and opening a FIFO would block until somebody writes to it.
 */
import { constants, type Stats } from 'node:fs'
import { fileSeconds } from '../base/files.js'
import type { Disk } from './disk.js'

/**
 * Flags for reading a file that another user may have exchanged. Check that it is a regular file before the first read.
 */
export const regularFileFlags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0)

/**
 * Times that differ by less than this are equal: archives contain whole seconds or milliseconds, and a time that was
 * set from a double is slightly off.
 */
export const sameTimeMs = 2

/** Error codes for an entry that is no longer a regular file: a link, a socket, a removed parent directory. */
const otherKinds = new Set(['ELOOP', 'ENXIO', 'ENOENT', 'ENOTDIR', 'EISDIR', 'EMLINK'])

/** Opens a regular file for reading. Returns null if the path has another kind of entry, or none. */
export function openRegular(disk: Disk, place: string): { fd: number; stats: Stats } | null {
  let fd: number
  try {
    fd = disk.openSync(place, regularFileFlags)
  } catch (error) {
    if (otherKinds.has((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
  try {
    const stats = disk.fstatSync(fd)
    if (stats.isFile()) return { fd, stats }
  } catch (error) {
    disk.closeSync(fd)
    throw error
  }
  disk.closeSync(fd)
  return null
}

/**
 * Sets the time of a regular file if the file is as expected. Returns whether it was. A file with several names is not
 * changed: one of the names may be outside the target.
 */
export function changeTime(
  disk: Disk,
  place: string,
  { toMs, isExpected }: { toMs: number; isExpected(stats: Stats): boolean }
): boolean {
  const opened = openRegular(disk, place)
  if (opened === null) return false
  const { fd, stats } = opened
  try {
    const isFit = stats.nlink === 1 && isExpected(stats)
    if (isFit) disk.futimesSync(fd, fileSeconds(stats.atimeMs), fileSeconds(toMs))
    return isFit
  } finally {
    disk.closeSync(fd)
  }
}
