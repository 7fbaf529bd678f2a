/*
 * Files of a target are opened only if they are regular, without waiting and without following a link: the owner of
 * the target can put a FIFO in a file's place, and opening that would block until somebody writes to it.
 */
import { constants, type Stats } from 'node:fs'
import { fileSeconds } from '../base/file-time.js'
import type { Disk } from './disk.js'

/** For reading what another user may have exchanged; check that it is a regular file before the first read. */
export const regularFileFlags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0)

/** What the system says of what is no regular file any more: a link, a socket, a directory above it that is gone. */
const otherKinds = new Set(['ELOOP', 'ENXIO', 'ENOENT', 'ENOTDIR', 'EISDIR', 'EMLINK'])

/** Opens a regular file for reading; null if the place has something else, or nothing. */
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
 * Sets the time of a regular file that is as expected; answers whether it was. A file with other names is not touched:
 * one of them may lie outside the target.
 */
export function changeTime(disk: Disk, place: string, toMs: number, isExpected: (stats: Stats) => boolean): boolean {
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
