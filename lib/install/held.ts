/*
 * Directories that are held open while svc works in them.
 *
 * The owner of a target is often another user than svc's. At any moment that user can rename a directory in the target
 * and put a symbolic link in its place, so a path that was checked can lead elsewhere when it is used. Therefore every
 * call below a target names one entry of a held directory. The directory is opened by one name from the directory above
 * it, without following a link, and from then on is reached as `/proc/<pid>/fd/<n>/<name>`. The kernel resolves this to
 * the directory itself, even after the directory was renamed. No call follows a link in the last component either.
 *
 * Directories are opened with O_PATH: this needs no permission to read them, and opening them has no effect.
 *
 * Without /proc (macOS, Windows) directories are named by their paths. Targets in which another user could rename files
 * are then refused (`refuseRenamable`). On Windows, Node cannot query owners; svc warns about that at its start.
 */
import { constants, open, type Stats } from 'node:fs'
import { promisify } from 'node:util'
import { ownDescriptors } from '../base/files.js'
import { Refusal } from '../base/errors.js'
import { disk, type Disk } from './disk.js'

/** Warning at the start of a server on a system that cannot hold directories. */
export const notHeldWarning =
  'This system cannot hold directories open (Linux with /proc can): ' +
  (process.geteuid === undefined
    ? 'let no user but the one that svc runs as write in a target, or in a directory above it'
    : 'svc refuses targets in which another user can rename files')

/** A directory that is held until `close`. */
export interface HeldDirectory {
  /** The path to use in calls. */
  readonly path: string
  /** The descriptor, or null if this system cannot hold directories; `path` is then the directory's path. */
  readonly fd: number | null
  close(): void
}

/** Whether this system can hold directories. */
export const canHoldDirectories = ownDescriptors !== null

const { O_DIRECTORY, O_NOFOLLOW } = constants
/** Missing from Node's constants; the number is the same on every processor that Node runs on. */
const O_PATH = 0o10000000
const holdFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW

/** Holds the root of the file system. */
export function holdFileSystemRoot(disk: Disk): HeldDirectory {
  return hold(disk, '/')
}

/** Returns a directory by its path, for systems that cannot hold it. */
export function namedByPath(path: string): HeldDirectory {
  return { path, fd: null, close: () => {} }
}

/** Holds the directory `name` in a held one. Throws the system's error, which is ENOTDIR for a link too. */
export function holdChild(disk: Disk, parent: HeldDirectory, name: string): HeldDirectory {
  const place = `${parent.path}/${name}`
  if (parent.fd !== null) return hold(disk, place)
  if (disk.lstatSync(place).isDirectory()) return namedByPath(place)
  throw Object.assign(new Error(`ENOTDIR: not a directory, open '${place}'`), { code: 'ENOTDIR' })
}

function hold(disk: Disk, place: string): HeldDirectory {
  return own(disk, disk.openSync(place, holdFlags))
}

/**
 * Holds the directory at a path without blocking the event loop. Follows links on the way: the caller must check where
 * the directory really is.
 */
export async function holdAsync(path: string): Promise<HeldDirectory> {
  return own(disk, await promisify(open)(path, O_PATH | O_DIRECTORY))
}

/** Flags that open anything at a path without any effect on it, to find out where and what it is. Follows links. */
export const lookOnlyFlags = ownDescriptors === null ? constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) : O_PATH

function own(disk: Disk, fd: number): HeldDirectory {
  let isOpen = true
  return {
    path: `${ownDescriptors}/${fd}`,
    fd,
    close() {
      if (!isOpen) return
      isOpen = false
      disk.closeSync(fd)
    }
  }
}

/** Returns the stats of a held directory. */
export function statHeld(disk: Disk, { fd, path }: HeldDirectory): Stats {
  return fd === null ? disk.lstatSync(path) : disk.fstatSync(fd)
}

/** Returns the device and the inode of a held directory. */
export function identityOf(disk: Disk, held: HeldDirectory): string {
  const { dev, ino } = statHeld(disk, held)
  return `${dev}:${ino}`
}

function removeDirectory(disk: Disk, parent: HeldDirectory, name: string): void {
  const held = holdChild(disk, parent, name)
  try {
    removeContents(disk, held)
  } finally {
    held.close()
  }
  disk.rmdirSync(`${parent.path}/${name}`)
}

/** Removes everything in a held directory except one name. Follows no link. */
export function removeContents(disk: Disk, held: HeldDirectory, except: string | null = null): void {
  for (const entry of disk.readdirSync(held.path, { withFileTypes: true })) {
    if (entry.name === except) continue
    if (entry.isDirectory()) removeDirectory(disk, held, entry.name)
    else disk.unlinkSync(`${held.path}/${entry.name}`)
  }
}

const writableByOthers = 0o022
const sticky = 0o1000

/** Whether the owner is a user other than root and svc's own. Always false on Windows, which has no such owners. */
export function belongsToAnotherUser({ uid }: Pick<Stats, 'uid'>): boolean {
  // Read each time: a helper process switches from svc's user to another one.
  const own = process.geteuid?.()
  return own !== undefined && uid !== 0 && uid !== own
}

/**
 * Refuses (`conflict`, target_not_guarded) a directory in which another user can rename files. For systems that cannot
 * hold directories.
 */
export function refuseRenamable(stats: Stats, path: string): void {
  if (process.geteuid === undefined) return
  const isShared = (stats.mode & writableByOthers) !== 0 && (stats.mode & sticky) === 0
  if (!belongsToAnotherUser(stats) && !isShared) return
  throw new Refusal(
    'conflict',
    'target_not_guarded',
    `Cannot use the target: another user can rename files in "${path}", and this system cannot hold directories ` +
      'open. Give the directory to the user that svc runs as, and let no other user write in it'
  )
}
