/* Files and the file system: open files, replacements, rights, space, paths. */
import { randomBytes } from 'node:crypto'
import {
  close,
  closeSync,
  constants,
  createWriteStream,
  fchownSync,
  fstatSync,
  openSync,
  read,
  readlinkSync,
  readSync,
  type Stats,
  statSync,
  type WriteStream,
  writeSync
} from 'node:fs'
// Imported as a whole: Node before 18.15 has no `statfs`, and a missing named export would prevent loading the module.
import fs, {
  access,
  copyFile,
  type FileHandle,
  link,
  mkdir,
  open,
  readdir,
  realpath,
  rename,
  stat,
  unlink,
  writeFile
} from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, relative, sep } from 'node:path'
import { hasCode, isOutOfInodes, noInodes } from './errors.js'
import { hasEnded, ownMark } from './runtime.js'

/*
 * The owner of a file descriptor. The system reuses the number of a closed descriptor, so closing it twice would close
 * another file or socket. Here the number is private. It is closed exactly once, after the last read in progress has
 * finished, and cannot be used afterwards. The number is never passed to a stream, because streams close their file on
 * failure, whatever `autoClose` says.
 */

/** An open file that owns its descriptor. */
export class OpenFile {
  /** The descriptor, or -1 after it is closed. */
  #fd: number
  #readsUnderWay = 0
  #isClosing = false

  /**
   * Opens a file like `fs.openSync`, and throws the same errors. A number is an open descriptor that this object owns
   * from then on.
   */
  constructor(path: string | number, flags: string | number = 'r', mode?: number) {
    this.#fd = typeof path === 'number' ? path : openSync(path, flags, mode)
  }

  /** The current size of the file in bytes. */
  get size(): number {
    return fstatSync(this.#number('fstat')).size
  }

  /** Fills `into` with the bytes at `position`. Returns their number, which is smaller only if the file ends. */
  readSync(into: Uint8Array, position: number): number {
    const fd = this.#number('read')
    let length = 0
    while (length < into.length) {
      const count = readSync(fd, into, length, into.length - length, position + length)
      if (count === 0) break
      length += count
    }
    return length
  }

  /** Like `readSync`, but in the thread pool. A close during the read waits for it. */
  async read(into: Uint8Array, position: number): Promise<number> {
    const fd = this.#number('read')
    this.#readsUnderWay++
    try {
      let length = 0
      while (length < into.length) {
        const count = await readOnce(fd, into.subarray(length), position + length)
        if (count === 0) break
        length += count
      }
      return length
    } finally {
      if (--this.#readsUnderWay === 0 && this.#isClosing) close(this.#release(), () => {})
    }
  }

  /** Writes all of `bytes` at the end of the last write. */
  writeSync(bytes: Uint8Array): void {
    const fd = this.#number('write')
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at)
  }

  /** Closes the file. A second call does nothing. */
  close(): void {
    if (this.#isClosing) return
    this.#isClosing = true
    if (this.#readsUnderWay === 0) closeSync(this.#release())
  }

  #number(syscall: string): number {
    if (!this.#isClosing) return this.#fd
    throw Object.assign(new Error(`EBADF: the file was closed, ${syscall}`), { code: 'EBADF', syscall })
  }

  #release(): number {
    const fd = this.#fd
    this.#fd = -1
    return fd
  }
}

function readOnce(fd: number, into: Uint8Array, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    read(fd, into, 0, into.length, position, (error, count) => (error === null ? resolve(count) : reject(error)))
  })
}

/** A replacement takes milliseconds, so a temporary file of this age was left by a killed process. */
const leftoverMs = 60_000

/**
 * Writes a small file completely or not at all: writes a new file in the same directory, syncs it, and renames it over
 * the old one. A symbolic link stays; its target is replaced.
 */
export async function replaceFile(path: string, text: string | Iterable<string>, mode: number): Promise<void> {
  const target = await realpath(path).catch(() => path)
  const waiting = `${target}.${randomBytes(6).toString('hex')}.tmp`
  try {
    const file = await open(waiting, 'wx', mode)
    try {
      giveToOwner(file.fd, dirname(target))
      await writeFile(file, text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(waiting, target)
  } catch (error) {
    await unlink(waiting).catch(() => {})
    throw inFile(path, error)
  }
  await syncDirectory(dirname(target))
  await removeLeftovers(target, Date.now() - leftoverMs).catch(() => [])
}

/** Writes a new small file completely or not at all. Rejects with EEXIST if there is one. */
export async function writeNew(path: string, text: string, mode: number): Promise<void> {
  const file = await open(path, 'wx', mode)
  try {
    await writeFile(file, text)
  } catch (error) {
    await unlink(path).catch(() => {})
    throw inFile(path, error)
  } finally {
    await file.close()
  }
}

/** Names the file in an error of the system: a failed write knows only its descriptor. */
function inFile(path: string, error: unknown): unknown {
  const { syscall, path: known = path } = error as NodeJS.ErrnoException
  return syscall !== undefined && known.startsWith(path) ? Object.assign(error as Error, { path }) : error
}

/**
 * Writes a file beside `path`, and renames it to that: whole or not at all. After a failure, as of a full disk, nothing is
 * left there.
 */
export async function throughBeside(path: string, write: (beside: string) => Promise<unknown>): Promise<void> {
  const beside = `${path}.tmp`
  try {
    await write(beside)
    await rename(beside, path)
  } catch (error) {
    await unlink(beside).catch(() => {})
    throw error
  }
}

/**
 * Writes a file that only its owner can read, and renames it to `path`: whole or not at all. `write` gets the path of an
 * empty file beside it, which no other process writes: two backups to one file do not meet. What a killed process has left
 * is removed by the next one.
 */
export async function throughPart<T>(path: string, write: (part: string) => Promise<T>): Promise<T> {
  await removeParts(path).catch(() => {})
  const part = `${path}.${ownMark()}${partEnding}`
  await open(part, 'wx', 0o600).then(
    file => file.close(),
    error => Promise.reject(inFile(path, error))
  )
  try {
    const result = await write(part)
    await rename(part, path)
    return result
  } catch (error) {
    await unlink(part).catch(() => {})
    throw error
  }
}

/** Removes the parts of a file whose processes have ended. */
async function removeParts(path: string): Promise<void> {
  for (const name of await readdir(dirname(path))) {
    const part = join(dirname(path), name)
    if (isPartOf(path, part) && hasEnded(part.slice(path.length + 1, -partEnding.length)) === true) await unlink(part)
  }
}

const partEnding = '.part'

/** Whether this is the path of a part that `throughPart` writes of a file, in this process or in another one. */
export function isPartOf(path: string, part: string): boolean {
  const rest = part.startsWith(`${path}.`) ? part.slice(path.length + 1) : ''
  return rest.endsWith(partEnding) && !rest.includes(sep)
}

/** Creates a directory whose parent is there: no data directory that was moved away is made again. */
export async function makeDirectory(path: string, mode: number): Promise<void> {
  await mkdir(path, { mode }).catch(async (error: unknown) => {
    if (!hasCode(error, 'EEXIST') || !(await stat(path)).isDirectory()) throw error
  })
}

/**
 * Removes the temporary files that killed processes left while they replaced the file at `path`, if they were written
 * before `beforeMs`, or in a future that the clock was set back from: they may contain secrets. Returns their paths.
 */
export async function removeLeftovers(path: string, beforeMs: number): Promise<string[]> {
  const target = await realpath(path).catch(() => path)
  return removeLeftoversIn(dirname(target), beforeMs, basename(target))
}

/** Removes the temporary files of any file of a directory, or of one, as `removeLeftovers` does. */
export async function removeLeftoversIn(directory: string, beforeMs: number, of?: string): Promise<string[]> {
  const removed: string[] = []
  for (const name of await readdir(directory)) {
    const [, file] = /^(.+)\.[0-9a-f]{12}\.tmp$/.exec(name) ?? []
    if (file === undefined || (of !== undefined && file !== of)) continue
    const leftover = join(directory, name)
    const stats = await stat(leftover).catch(() => null)
    if (stats === null || (stats.mtimeMs >= beforeMs && stats.mtimeMs < Date.now() + leftoverMs)) continue
    await unlink(leftover)
    removed.push(leftover)
  }
  return removed
}

/**
 * Creates a hard link to a file, or a copy if the file system does not support hard links here. Rejects with ENOENT if
 * `from` is missing, and with EEXIST if `to` exists.
 */
export async function linkOrCopy(from: string, to: string): Promise<void> {
  try {
    await link(from, to)
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'EEXIST')) throw error
    await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
  }
}

/** Whether a file is there, also by a link. */
export function isFileAt(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true
}

/** Reads `length` bytes at `position`. Returns fewer only if the file ends before. */
export async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length)
  let filled = 0
  while (filled < length) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, position + filled)
    if (bytesRead === 0) break
    filled += bytesRead
  }
  return buffer.subarray(0, filled)
}

type Options = Exclude<Parameters<typeof createWriteStream>[1], string | undefined>

/**
 * Runs `work` with a stream into a file. Settles only when the file is closed, whatever happened. A stream that fails
 * while its file is being opened creates the file afterwards, so a caller that removed it earlier would leave it
 * behind.
 */
export async function withWriteStream<T>(
  path: string,
  options: Options,
  work: (out: WriteStream) => Promise<T>
): Promise<T> {
  const out = createWriteStream(path, options)
  // If it is destroyed in the middle of a write, it fails once more when nobody listens.
  out.on('error', () => {})
  try {
    return await work(out)
  } finally {
    if (!out.closed) await new Promise<void>(closed => void out.once('close', () => closed()).destroy())
  }
}

/** What a reader of a file needs: an `OpenFile`, a part of one, or several that follow each other. */
export type ReadableFile = Pick<OpenFile, 'size' | 'readSync' | 'read' | 'close'>

/** Makes the contents of a file, or the names in a directory, survive a power cut. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } catch (error) {
    // Windows cannot sync a file that is open for reading; NTFS keeps a journal of names.
    if (process.platform !== 'win32') throw error
  } finally {
    await handle.close()
  }
}

/**
 * Makes renames in a directory survive a power cut, if the file system supports it; some network file systems do not.
 */
export async function syncDirectory(path: string): Promise<void> {
  await syncPath(path).catch(() => {})
}

/** Makes every file and name below a directory survive a power cut. Links are not followed. */
export async function syncTree(directory: string): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) await syncTree(path)
    else if (entry.isFile()) await syncPath(path)
  }
  await syncDirectory(directory)
}

/** Times of files are that coarse on some file systems, and clocks of servers of files differ. */
const racyMs = 2000

/**
 * Whether a file may have changed once more since it was looked at, and still have the same size and time: its time is too
 * near to that moment. What was read of it then is not kept under them.
 */
export function isRacy({ mtimeMs, ctimeMs = 0 }: { mtimeMs: number; ctimeMs?: number }, seenAtMs: number): boolean {
  return Math.max(mtimeMs, ctimeMs) >= seenAtMs - racyMs
}

/** Half of the precision of file times in Node. */
const halfMicrosecondMs = 0.0005

/**
 * Returns the seconds to pass to `utimes` for a time in milliseconds since 1970. Node truncates them to whole
 * microseconds. Half a microsecond is added because a time that a double cannot represent exactly would otherwise lose
 * one microsecond.
 */
export function fileSeconds(timeMs: number): number {
  return (timeMs + (timeMs < 0 ? -halfMicrosecondMs : halfMicrosecondMs)) / 1000
}

/**
 * Returns the free space, in bytes, of the file system that `path` is on, or would be on if it does not exist yet. Space
 * reserved for root does not count. Null if it is unknown: some file systems count no blocks, and Node before 18.15
 * cannot ask.
 */
export async function freeBytes(path: string): Promise<number | null> {
  try {
    const { blocks, bavail, bsize } = await fs.statfs(path)
    return blocks === 0 ? null : bavail * bsize
  } catch (error) {
    return hasCode(error, 'ENOENT') && dirname(path) !== path ? freeBytes(dirname(path)) : null
  }
}

/*
 * Checks that no other user can change a file, by the rules of sshd's StrictModes: only its owner may, and the owner
 * must be trusted. Windows has neither owners nor modes of this kind, so nothing is found there.
 */

/** A permission that lets another user change a file. */
export interface Looseness {
  path: string
  /** Reason, as a part of a sentence: `"/srv/svc" belongs to the user 1000`. */
  why: string
  /** The fix, as a sentence. */
  cure: string
}

const writableByGroup = 0o020
const writableByOthers = 0o002
const sticky = 0o1000
const root = 0

/** Returns the users whose files this process trusts: itself and root. Empty on Windows. */
export function trustedUsers(): number[] {
  const own = process.getuid?.()
  return own === undefined ? [] : [...new Set([own, root])]
}

/**
 * Checks one file or directory. `owners` lists its allowed owners. With `privateGroup`, its group may write if it is
 * the owner's private group, which has the same number as the user (many systems create one for each user, with umask
 * 002).
 */
export function loosenessOf(
  path: string,
  stats: Pick<Stats, 'uid' | 'gid' | 'mode'>,
  { owners, privateGroup = false }: { owners: readonly number[]; privateGroup?: boolean }
): Looseness | null {
  if (owners.length === 0) return null
  const { uid, gid, mode } = stats
  if (!owners.includes(uid))
    return { path, why: `"${path}" belongs to the user ${uid}`, cure: `Run "chown ${owners[0]} ${path}"` }
  const writers = privateGroup && gid === uid ? writableByOthers : writableByOthers | writableByGroup
  if ((mode & writers) === 0) return null
  return {
    path,
    why: `other users may write to "${path}" (mode ${(mode & 0o7777).toString(8).padStart(4, '0')})`,
    cure: `Run "chmod go-w ${path}"`
  }
}

/**
 * Checks the directories above a path (absolute, without links). A user with write permission in one of them can
 * replace its entries, unless it is sticky like /tmp.
 */
export async function looseParentOf(path: string): Promise<Looseness | null> {
  if (process.getuid === undefined) return null
  for (let child = path, parent = dirname(path); parent !== child; child = parent, parent = dirname(parent)) {
    const stats = await stat(parent)
    const isSticky = (stats.mode & sticky) !== 0
    const loose = isSticky ? null : loosenessOf(parent, stats, { owners: [stats.uid], privateGroup: true })
    if (loose !== null) return loose
  }
  return null
}

/**
 * Gives an open file to the owner of its directory if root made it: the server, which runs as that user, could not read
 * it otherwise. Does nothing for other users.
 */
export function giveToOwner(fd: number, directory: string): void {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = statSync(directory)
  if (uid !== 0) fchownSync(fd, uid, gid)
}

/** Whether `path` is a file that this user may execute. */
export async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}

/**
 * Whether `path` is `directory` or is below it. Both must be absolute; nothing is resolved on disk. Compares path
 * segments, so `/srv/site-old` is not inside `/srv/site`.
 */
export function isInside(directory: string, path: string): boolean {
  const way = relative(directory, path)
  return way === '' || (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way))
}

/** Whether one of two paths is the other, or below it, as `isInside` compares. */
export const areNested = (one: string, other: string): boolean => isInside(one, other) || isInside(other, one)

const foldsCase = process.platform === 'darwin' || process.platform === 'win32'

/** Returns a path in a form for comparison: in lower case on systems whose file systems mostly ignore case. */
export function foldCase(path: string): string {
  return foldsCase ? path.toLowerCase() : path
}

/** Returns the directory of a relative path with `/`, or `''` for a single name. */
export function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')))
}

/** Prefix of the temporary directories that svc creates in a target. They are not listed, packed or extracted. */
export const stagingPrefix = '.svc-staging-'

/* The descriptors of this process as Linux shows them in /proc. Other systems do not show them. */

/**
 * The directory in which each descriptor is a link to its open file, or null if the system does not have it. The
 * process is named by its number as this /proc counts, which avoids following one link: 0.4 of 3.5 us.
 */
export const ownDescriptors = find()

function find(): string | null {
  if (process.platform !== 'linux') return null
  try {
    return `/proc/${readlinkSync('/proc/self')}/fd`
  } catch {
    return null
  }
}

/**
 * Returns the path of an open file or directory, without links, or null if the system does not report it. It is the
 * location of the file itself, so it stays right if a directory on the way has become a link since. Does not block.
 */
export function placeOfDescriptor(fd: number): string | null {
  return ownDescriptors === null ? null : readlinkSync(`${ownDescriptors}/${fd}`)
}

/**
 * Returns the path to use in calls for an open directory: the descriptor itself if the system can, otherwise `path`.
 */
export function nameOfDescriptor(fd: number, path: string): string {
  return ownDescriptors === null ? path : `${ownDescriptors}/${fd}`
}

/** Replaces descriptors in the paths of an error by the directories that they hold, and says if inodes are what is missing. */
export function nameError(error: unknown): unknown {
  const failed = error as NodeJS.ErrnoException & { dest?: string }
  const before = failed.message
  for (const key of ['path', 'dest'] as const) {
    const given = failed[key]
    if (given === undefined) continue
    const path = placeOfPath(given)
    if (path === given) continue
    failed[key] = path
    failed.message = failed.message.replace(`'${given}'`, `'${path}'`)
  }
  if (isOutOfInodes(failed)) failed.message = failed.message.replace('no space left on device', noInodes)
  if (failed.message !== before) failed.stack = failed.stack?.replace(before, failed.message)
  return failed
}

function placeOfPath(path: string): string {
  if (ownDescriptors === null || !path.startsWith(`${ownDescriptors}/`)) return path
  const [fd = '', ...rest] = path.slice(ownDescriptors.length + 1).split('/')
  try {
    return [readlinkSync(`${ownDescriptors}/${fd}`), ...rest].join('/')
  } catch {
    return path
  }
}

/**
 * Creates a directory and those above it that are missing, and returns the first one that it has created. The `recursive` of
 * Node never ends where the kernel says ENOENT although the parent is there, as below /proc.
 */
export async function makeDirectories(path: string, mode?: number): Promise<string | undefined> {
  const make = (): Promise<void> => mkdir(path, mode === undefined ? {} : { mode })
  try {
    await make()
    return path
  } catch (error) {
    if (hasCode(error, 'EEXIST') && (await stat(path).catch(() => null))?.isDirectory()) return undefined
    const parent = dirname(path)
    if (!hasCode(error, 'ENOENT') || parent === path || (await stat(parent).catch(() => null)) !== null) throw error
    const made = await makeDirectories(parent, mode)
    await make().catch((late: unknown) => {
      if (!hasCode(late, 'EEXIST')) throw late
    })
    return made ?? path
  }
}
