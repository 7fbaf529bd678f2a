import * as fs from 'node:fs'

/**
 * The file system calls of this room. They are passed in so that a test can make the n-th call fail, or kill the
 * process there. All but three are synchronous (discard.ts, durable.ts): they run in a worker thread, where a
 * synchronous call costs half as much as its asynchronous counterpart.
 */
export type Disk = Pick<
  typeof fs,
  | 'openSync'
  | 'closeSync'
  | 'readSync'
  | 'writeSync'
  | 'fstatSync'
  | 'lstatSync'
  | 'ftruncateSync'
  | 'fchmodSync'
  | 'chmodSync'
  | 'futimesSync'
  | 'utimesSync'
  | 'lutimesSync'
  | 'mkdirSync'
  | 'readdirSync'
  | 'readlinkSync'
  | 'realpathSync'
  | 'symlinkSync'
  | 'linkSync'
  | 'renameSync'
  | 'unlinkSync'
  | 'unlink'
  | 'rmdirSync'
  | 'statfsSync'
  | 'fsyncSync'
  | 'fdatasyncSync'
  | 'fsync'
  | 'fdatasync'
>

/** The real file system. */
export const disk: Disk = fs

/** Writes all of `bytes`. After a short write (full disk) it writes the rest until the error is reported. */
export function writeFully(disk: Disk, fd: number, bytes: Uint8Array): void {
  for (let written = 0; written < bytes.length; ) {
    written += disk.writeSync(fd, bytes, written, bytes.length - written)
  }
}

/** Error codes of file systems that cannot sync directories. */
export const notSyncable = new Set(['EINVAL', 'ENOTSUP', 'EOPNOTSUPP'])

/** Makes the names in a directory durable. Does nothing if directories cannot be synced (Windows, CIFS). */
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
