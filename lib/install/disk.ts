import * as fs from 'node:fs'

/**
 * The file system calls of this room. They are passed in so that a test can make the n-th call fail, or kill the
 * process there. Most are synchronous, which costs half as much as their asynchronous counterparts: they run in a worker
 * thread, or on a few small files. What may take as long as the disk needs is asynchronous: an extraction awaits its
 * syncs, because a small one runs in the thread that answers requests (unpack/small.ts).
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
  | 'fchownSync'
  | 'lchownSync'
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

/** Returns what statfs(2) says of the file system of `path`; null where that fails, and in Node before 18.15. */
export function fileSystemOf(disk: Disk, path: string): fs.StatsFs | null {
  if (typeof disk.statfsSync !== 'function') return null
  try {
    return disk.statfsSync(path)
  } catch {
    return null
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

/** Does the same as `syncDirectory`, and leaves the thread free in the meantime. Opens `path` before it returns. */
export async function syncDirectoryAsync(disk: Disk, path: string): Promise<void> {
  if (process.platform === 'win32') return
  const fd = disk.openSync(path, 'r')
  try {
    await syncOpen(disk, 'fsync', fd)
  } catch (error) {
    if (!notSyncable.has((error as NodeJS.ErrnoException).code ?? '')) throw error
  } finally {
    disk.closeSync(fd)
  }
}

/** Syncs an open file, and leaves the thread free in the meantime. */
export function syncOpen(disk: Disk, call: 'fsync' | 'fdatasync', fd: number): Promise<void> {
  return new Promise((resolve, reject) => disk[call](fd, error => (error == null ? resolve() : reject(error))))
}
