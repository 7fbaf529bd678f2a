import * as fs from 'node:fs'

/**
 * The calls by which this room touches a disk, handed in so that a test can let the n-th of them fail, or kill the
 * process there. Synchronous but for three (discard.ts, durable.ts): they run in a worker thread, where they cost half
 * of their asynchronous twins.
 */
export type Disk = Pick<typeof fs,
  'openSync' | 'closeSync' | 'readSync' | 'writeSync' | 'fstatSync' | 'lstatSync' | 'ftruncateSync' | 'fchmodSync' | 'chmodSync' |
  'futimesSync' | 'utimesSync' | 'lutimesSync' | 'mkdirSync' | 'readdirSync' | 'readlinkSync' | 'realpathSync' |
  'symlinkSync' | 'linkSync' | 'renameSync' | 'unlinkSync' | 'unlink' | 'rmdirSync' | 'statfsSync' | 'fsyncSync' | 'fdatasyncSync' |
  'fsync' | 'fdatasync'>

export const disk: Disk = fs

/** Writes all of `bytes`; a short write (full disk) goes on until the error shows. */
export function writeFully(disk: Disk, fd: number, bytes: Uint8Array): void {
  for (let written = 0; written < bytes.length;) {
    written += disk.writeSync(fd, bytes, written, bytes.length - written)
  }
}

/** What a file system says that does not sync directories. */
export const notSyncable = new Set(['EINVAL', 'ENOTSUP', 'EOPNOTSUPP'])

/** Makes the names in a directory durable; where directories cannot be synced (Windows, CIFS), does nothing. */
export function syncDirectory(disk: Disk, path: string): void {
  if (process.platform === 'win32') return
  const fd = disk.openSync(path, 'r')
  try {
    disk.fsyncSync(fd)
  } catch (error) {
    if (!notSyncable.has((error as NodeJS.ErrnoException).code ?? '')) throw error
  } finally {
    disk.closeSync(fd)
  }
}
