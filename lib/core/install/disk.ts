import fs, { constants, type Stats } from 'node:fs'
import { performance } from 'node:perf_hooks'
import { readFile } from 'node:fs/promises'
import { fileSeconds, nameError } from '../../base/files.js'

/**
 * The file system calls of this room. They are passed in so that a test can make the n-th call fail, or kill the
 * process there. Most are synchronous, which costs half as much as their asynchronous counterparts: they run in a worker
 * thread, or on a few small files. What may take as long as the disk needs is asynchronous: an extraction awaits its
 * syncs, because a small one runs in the thread that answers requests (unpack/executors.ts).
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

/** The calls that take a path, or two. */
const callsWithPath = [
  'openSync',
  'chmodSync',
  'lchownSync',
  'utimesSync',
  'lutimesSync',
  'lstatSync',
  'mkdirSync',
  'readdirSync',
  'readlinkSync',
  'symlinkSync',
  'linkSync',
  'renameSync',
  'unlinkSync',
  'rmdirSync'
] as const satisfies ReadonlyArray<keyof Disk>

/** Errors that callers expect, and show to nobody: a name is there, or it is not. */
const expected: ReadonlySet<unknown> = new Set(['ENOENT', 'EEXIST', 'ENOTDIR', 'ENOTEMPTY'])

/**
 * The real file system. A call names an entry of a held directory by its descriptor (held.ts), which is closed when somebody
 * reads the error: so it gets the path of that entry here.
 */
export const disk: Disk = {
  ...fs,
  // Looked up at each call: a test that watches descriptors replaces it.
  closeSync: fd => fs.closeSync(fd),
  ...(Object.fromEntries(callsWithPath.map(name => [name, named(name)])) as Pick<Disk, (typeof callsWithPath)[number]>)
}

function named(name: (typeof callsWithPath)[number]): unknown {
  return (...args: never[]) => {
    try {
      return (fs[name] as (...args: never[]) => unknown)(...args)
    } catch (error) {
      throw expected.has((error as NodeJS.ErrnoException).code) ? error : nameError(error)
    }
  }
}

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

/*
 * Opens files of a target only if they are regular, without waiting and without following a link. The owner of the
 * target can replace a file with a FIFO, and opening a FIFO would block until somebody writes to it.
 */

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

/** Number of calls in progress at a time. Less than the four threads that the whole process has for file operations. */
const callsAbreast = 3

/** Runs `work` for each item, three at a time. Rejects with the first failure, and then starts no more work. */
export async function abreast<T>(items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  const waiting = items[Symbol.iterator]()
  let hasFailed = false
  const lane = async (): Promise<void> => {
    for (let next = waiting.next(); !next.done && !hasFailed; next = waiting.next()) {
      await work(next.value).catch(error => {
        hasFailed = true
        throw error
      })
    }
  }
  await Promise.all(Array.from({ length: callsAbreast }, lane))
}

/*
 * Removal of replaced files. A call usually takes 10 us, and sequential calls are the fastest. But if each call waits
 * for the disk (a file system that discards freed blocks at once, or a network file system), several calls can wait
 * together. Measured on ext4 with `discard`: 4,000 files in 1.1 s one by one, in 0.3 s three at a time; in memory 0.04
 * s and 0.1 s.
 */

/** Number of files that are removed to measure the duration of a call. */
const sampleFiles = 32
/**
 * Calls of which most take longer than this wait for something. A few of them do on a busy machine, when another process
 * has its turn.
 */
const slowUs = 100

/** Removes all files of a directory that contains only files. */
export async function discardFiles(disk: Disk, directory: string): Promise<void> {
  const paths = disk.readdirSync(directory).map(name => `${directory}/${name}`)
  let slowCalls = 0
  for (const path of paths.slice(0, sampleFiles)) {
    const startedAtMs = performance.now()
    disk.unlinkSync(path)
    if ((performance.now() - startedAtMs) * 1000 > slowUs) slowCalls++
  }
  const isSlow = slowCalls > sampleFiles / 2
  const rest = paths.slice(sampleFiles)
  if (isSlow) await abreast(rest, path => unlink(disk, path))
  else for (const path of rest) disk.unlinkSync(path)
}

function unlink(disk: Disk, path: string): Promise<void> {
  return new Promise((resolve, reject) => disk.unlink(path, error => (error === null ? resolve() : reject(error))))
}

/*
 * The mounted file systems of this machine, as proc(5) lists them in /proc/self/mountinfo:
 *
 *   36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
 *
 * The fifth field is the mount point, with blanks, tabs, newlines and `\` as octal numbers. The first field after `-` is
 * the type. Reading the list asks no file system, so it does not hang with one that does not respond.
 */

/** A mounted file system. */
export interface Mount {
  point: string
  type: string
}

/** Types of file systems that no other machine and no program of a user answers for. */
const localTypes: ReadonlySet<string> = new Set([
  ...['ext2', 'ext3', 'ext4', 'xfs', 'btrfs', 'f2fs', 'zfs', 'bcachefs', 'overlay', 'tmpfs', 'ramfs']
])

/** Returns the mounted file systems, in the order of their mounting; none if the system does not list them. */
export async function listMounts(): Promise<Mount[]> {
  const text = await readFile('/proc/self/mountinfo', 'utf8').catch(() => '')
  return parseMounts(text)
}

/** Parses the list of mounted file systems. */
export function parseMounts(text: string): Mount[] {
  return text.split('\n').flatMap(line => {
    const [before = '', after = ''] = line.split(' - ')
    const point = before.split(' ')[4]
    const type = after.split(' ')[0] ?? ''
    return point === undefined ? [] : [{ point: decode(point), type }]
  })
}

function decode(point: string): string {
  return point.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)))
}

/** Whether a directory, given by its real path, and all that is below it are on one local file system. */
export function isLocalTree(mounts: readonly Mount[], path: string): boolean {
  const above = mounts.filter(({ point }) => isBelow(path, point))
  const longest = Math.max(0, ...above.map(({ point }) => point.length))
  // Of several file systems at one mount point, the last one is seen.
  const type = above.findLast(({ point }) => point.length === longest)?.type ?? ''
  return localTypes.has(type) && !mounts.some(({ point }) => point !== path && isBelow(point, path))
}

function isBelow(path: string, directory: string): boolean {
  return path === directory || path.startsWith(directory.endsWith('/') ? directory : `${directory}/`)
}
