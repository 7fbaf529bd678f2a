/*
 * Directories that are held while svc works in them.
 *
 * The owner of a target, often another user than svc's, can rename any directory in it and put a symbolic link in its
 * place at any moment. A path that was checked can therefore lead elsewhere when it is used. So every call below a
 * target names one entry of a directory that is held: opened by one name from the directory above it, without following
 * a link, and reached from then on as `/proc/<pid>/fd/<n>/<name>`. The kernel resolves this to the directory itself,
 * wherever its name has gone. No call follows a link in the last place either.
 *
 * Directories are opened with O_PATH: this needs no right to read them, and opening them has no effect.
 *
 * Without /proc (macOS, Windows) directories are named by their paths. Targets in which another user could rename are
 * then refused (`refuseRenamable`); Windows has no owners that Node could ask for, and the start says so.
 */
import { constants, open, type Stats } from 'node:fs'
import { promisify } from 'node:util'
import { ownDescriptors } from '../base/descriptors.js'
import { Refusal } from '../base/refusal.js'
import { disk, type Disk } from './disk.js'

/** What a start says where directories cannot be held. */
export const notHeldWarning = 'This system cannot hold directories (Linux with /proc can): ' + (process.geteuid === undefined
  ? 'let no user but the one that svc runs as write in a target, or in a directory above it'
  : 'svc refuses targets in which another user can rename files')

/** A directory that is held until `close`. */
export interface HeldDirectory {
  /** How to name it in calls. */
  readonly path: string
  /** Its descriptor; null: this system cannot hold directories, and `path` is its path. */
  readonly fd: number | null
  close(): void
}

/** Whether this system can hold directories. */
export const canHoldDirectories = ownDescriptors !== null

const { O_DIRECTORY, O_NOFOLLOW } = constants
/** Not in Node's constants; the same number on every processor that Node runs on. */
const O_PATH = 0o10000000
const holdFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW

/** Holds the root of the file system. */
export function holdFileSystemRoot(disk: Disk): HeldDirectory {
  return hold(disk, '/')
}

/** A directory by its path, where this system cannot hold it. */
export function namedByPath(path: string): HeldDirectory {
  return { path, fd: null, close: () => {} }
}

/** Holds the directory `name` of a held one. Throws what the system says: ENOTDIR of a link, too. */
export function holdChild(disk: Disk, parent: HeldDirectory, name: string): HeldDirectory {
  const place = `${parent.path}/${name}`
  if (parent.fd !== null) return hold(disk, place)
  if (disk.lstatSync(place).isDirectory()) return namedByPath(place)
  throw Object.assign(new Error(`ENOTDIR: not a directory, open '${place}'`), { code: 'ENOTDIR' })
}

function hold(disk: Disk, place: string): HeldDirectory {
  return own(disk, disk.openSync(place, holdFlags))
}

/** Holds the directory at a path, off the event loop. Links on the way to it are followed: look where it lies. */
export async function holdAsync(path: string): Promise<HeldDirectory> {
  return own(disk, await promisify(open)(path, O_PATH | O_DIRECTORY))
}

/** Opens whatever is at a path without any effect on it, links followed, to ask where and what it is. */
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

/** What stat says of a held directory. */
export function statHeld(disk: Disk, { fd, path }: HeldDirectory): Stats {
  return fd === null ? disk.lstatSync(path) : disk.fstatSync(fd)
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

/** Removes everything in a held directory, but for one name, following no link. */
export function removeContents(disk: Disk, held: HeldDirectory, except: string | null = null): void {
  for (const entry of disk.readdirSync(held.path, { withFileTypes: true })) {
    if (entry.name === except) continue
    if (entry.isDirectory()) removeDirectory(disk, held, entry.name)
    else disk.unlinkSync(`${held.path}/${entry.name}`)
  }
}

const writableByOthers = 0o022
const sticky = 0o1000

/** Whether a user besides root and svc's own owns it. Windows knows no owners. */
export function isAnothers({ uid }: Pick<Stats, 'uid'>): boolean {
  // Asked each time: a helper process gives up svc's user for another one.
  const own = process.geteuid?.()
  return own !== undefined && uid !== 0 && uid !== own
}

/** Where directories cannot be held: refuses (`conflict`, target_not_guarded) one in which another user may rename. */
export function refuseRenamable(stats: Stats, path: string): void {
  if (process.geteuid === undefined) return
  const isShared = (stats.mode & writableByOthers) !== 0 && (stats.mode & sticky) === 0
  if (!isAnothers(stats) && !isShared) return
  throw new Refusal('conflict', 'target_not_guarded',
    `The target cannot be used: another user can rename files in "${path}", and svc cannot hold directories on this ` +
    'system. Give the directory to the user that svc runs as, and let no other user write in it')
}
