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
import { dirname, resolve } from 'node:path'
import { ownDescriptors, parentOf, placeOfDescriptor } from '../../base/files.js'
import { Refusal } from '../../base/errors.js'
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

function holdFileSystemRoot(disk: Disk): HeldDirectory {
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
async function holdAsync(path: string): Promise<HeldDirectory> {
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
function belongsToAnotherUser({ uid }: Pick<Stats, 'uid'>): boolean {
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

/*
 * Walks from the root of the file system to a target, name by name, and holds each directory.
 *
 * Links on the way are followed, because operators use them. But a link that another user has made, or could have put
 * there, may lead only to a directory of that same user. Otherwise the owner of a directory above a target could make
 * svc deploy anywhere, with the rights of svc.
 */

export interface HeldTarget extends HeldDirectory {
  /** The path of the target without links. */
  readonly real: string
}

/** A name to enter, or the end of a link, with the user that may have made the link. */
type Step = string | { link: string; user: number }

/** How a target is reached. */
export interface ReachOptions {
  /** Creates missing directories. */
  make?: boolean
  /** Whether directories can be held. Tests set it to false. */
  canHold?: boolean
}

/** Maximum number of links in one path, as in Linux. */
const maxLinks = 40

/**
 * Holds the target at an absolute path. Refuses (`conflict`): target_is_a_file, target_through_link, and
 * target_not_guarded if directories cannot be held. A missing target is ENOENT unless `make` is set.
 */
export function holdTarget(disk: Disk, deployPath: string, options: ReachOptions = {}): HeldTarget {
  const { make = false, canHold = canHoldDirectories } = options
  return canHold ? walk(disk, deployPath, make) : findByPath(disk, deployPath, make)
}

/**
 * Holds the target like `holdTarget`, but does not block the event loop unless there are links on the path. If the
 * opened directory really is at the requested path, no link was followed.
 */
export async function holdTargetAsync(deployPath: string): Promise<HeldTarget> {
  if (!canHoldDirectories) return holdTarget(disk, deployPath)
  const held = await holdAsync(deployPath)
  const real = placeOfDescriptor(held.fd as number)
  if (real === resolve(deployPath)) return { ...held, real }
  held.close()
  return holdTarget(disk, deployPath)
}

function walk(disk: Disk, deployPath: string, make: boolean): HeldTarget {
  const ahead: Step[] = deployPath.split('/').reverse()
  let links = 0
  let hasMade = false
  let at = holdFileSystemRoot(disk)
  const moveTo = (next: HeldDirectory): void => {
    at.close()
    at = next
  }
  try {
    for (let step = ahead.pop(); step !== undefined; step = ahead.pop()) {
      if (typeof step !== 'string') {
        if (statHeld(disk, at).uid !== step.user) throw linkOfAnotherUser(step)
        continue
      }
      if (step === '' || step === '.') continue
      const found = enter(disk, at, step)
      if (found === 'missing') {
        if (!make || hasMade) throw systemError('ENOENT', `no such directory, "${deployPath}"`)
        makeDirectory(disk, `${at.path}/${step}`, ahead)
        ahead.push(step)
        hasMade = true
        continue
      }
      hasMade = false
      if (found === 'file') throw targetIsFile(deployPath)
      if (found !== 'link') {
        moveTo(found)
        continue
      }
      if (++links > maxLinks) throw systemError('ELOOP', `too many symbolic links, "${deployPath}"`)
      const { isAbsolute, steps } = follow(disk, at, step)
      ahead.push(...steps)
      if (isAbsolute) moveTo(holdFileSystemRoot(disk))
    }
    const held = at
    return { ...held, real: disk.readlinkSync(held.path) }
  } catch (error) {
    at.close()
    throw error
  }
}

function enter(disk: Disk, at: HeldDirectory, name: string): HeldDirectory | 'missing' | 'file' | 'link' {
  try {
    return holdChild(disk, at, name)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return 'missing'
    if (code !== 'ENOTDIR' && code !== 'ELOOP') throw error
    const stats = disk.lstatSync(`${at.path}/${name}`, { throwIfNoEntry: false })
    return stats === undefined ? 'missing' : stats.isSymbolicLink() ? 'link' : 'file'
  }
}

/** Reads a link. The steps are in reverse order: first the user that must own the place, then the names. */
function follow(disk: Disk, at: HeldDirectory, name: string): { isAbsolute: boolean; steps: Step[] } {
  const place = `${at.path}/${name}`
  const maker = [disk.lstatSync(place), statHeld(disk, at)].find(belongsToAnotherUser)
  const text = disk.readlinkSync(place)
  const owner: Step[] = maker === undefined ? [] : [{ link: name, user: maker.uid }]
  return { isAbsolute: text.startsWith('/'), steps: [...owner, ...text.split('/').reverse()] }
}

/**
 * Creates a directory, unless another user's link names it: otherwise svc would create directories wherever that user
 * wants.
 */
function makeDirectory(disk: Disk, place: string, ahead: readonly Step[]): void {
  for (const step of ahead) if (typeof step !== 'string') throw linkOfAnotherUser(step)
  try {
    disk.mkdirSync(place)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/** Returns the target by its path, on a system where no other user can change what the path means. */
function findByPath(disk: Disk, deployPath: string, make: boolean): HeldTarget {
  if (make) disk.mkdirSync(deployPath, { recursive: true })
  const real = disk.realpathSync(deployPath)
  if (!disk.lstatSync(real).isDirectory()) throw targetIsFile(deployPath)
  for (const start of new Set([real, dirname(deployPath)])) {
    for (let path = start; ; path = dirname(path)) {
      refuseRenamable(disk.lstatSync(`${path}/.`), path)
      if (path === dirname(path)) break
    }
  }
  return { ...namedByPath(real), real }
}

function systemError(code: string, message: string): Error {
  return Object.assign(new Error(`${code}: ${message}`), { code })
}

/** The 409 for a target that is not a directory. */
export function targetIsFile(path: string): Refusal {
  return new Refusal('conflict', 'target_is_a_file', `Cannot use the target: "${path}" is not a directory`)
}

function linkOfAnotherUser({ link, user }: { link: string; user: number }): Refusal {
  return new Refusal(
    'conflict',
    'target_through_link',
    `Cannot use the target: the symbolic link "${link}" in its path can be changed by user ${user}, and does not ` +
      'lead to a directory of that user. Use the path that the link leads to'
  )
}

/*
 * The directories of a target, each held while it is in use.
 *
 * Items come in the order of the archive, which may switch between folders, so some hundred folders stay open. The
 * folder of an item is reached name by name, each from the folder above it.
 */

/** Held directories of a target, by their paths. */
export type Folders = ReturnType<typeof holdFolders>

/** Maximum number of descriptors that one extraction keeps open for folders. */
const maxHeld = 200

/** Holds directories below `root` on demand. */
export function holdFolders(disk: Disk, root: HeldDirectory) {
  const held = new Map<string, HeldDirectory>()
  let last = { path: '', directory: root }

  function find(path: string): HeldDirectory {
    if (path === last.path) return last.directory
    const directory = path === '' ? root : (held.get(path) ?? open(path))
    last = { path, directory }
    return directory
  }

  function open(path: string): HeldDirectory {
    const parent = find(parentOf(path))
    const directory = enterFolder(disk, parent, path)
    if (held.size >= maxHeld) releaseOldest()
    held.set(path, directory)
    return directory
  }

  function releaseOldest(): void {
    for (const [path, directory] of held) {
      held.delete(path)
      return directory.close()
    }
  }

  return {
    /**
     * Returns the path to use in calls for the directory at `path`, valid until the next call. `path` is relative; `''`
     * is the target itself. Refuses (`conflict`): written_through_link, and target_changed if it is no longer a
     * directory.
     */
    at: (path: string): string => find(path).path,
    /**
     * Returns the path to use in calls for the entry at `path`, by its held folder, valid until the next call. Refuses
     * like `at`.
     */
    place: (path: string): string => `${find(parentOf(path)).path}/${nameOf(path)}`,
    close(): void {
      last = { path: '', directory: root }
      for (const directory of held.values()) directory.close()
      held.clear()
    }
  }
}

function enterFolder(disk: Disk, parent: HeldDirectory, path: string): HeldDirectory {
  const name = nameOf(path)
  try {
    const directory = holdChild(disk, parent, name)
    if (directory.fd === null) refuseRenamable(statHeld(disk, directory), path)
    return directory
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') throw changedMeanwhile(path, 'was removed')
    if (code !== 'ENOTDIR' && code !== 'ELOOP') throw error
    const isLink = disk.lstatSync(`${parent.path}/${name}`, { throwIfNoEntry: false })?.isSymbolicLink() ?? false
    throw isLink ? throughLink(path) : changedMeanwhile(path, 'is no longer a directory')
  }
}

/** The 409 for a symbolic link in the target where the archive needs a directory. */
export function throughLink(path: string): Refusal {
  return new Refusal(
    'conflict',
    'written_through_link',
    `Nothing was changed: "${path}" in the target is a symbolic link, and svc does not write through links`
  )
}

/** The 409 for an entry of the target that changed between two checks. */
export function changedMeanwhile(path: string, how: string): Refusal {
  return new Refusal(
    'conflict',
    'target_changed',
    `The target was put back: "${path}" ${how} while the archive was being extracted; try again`
  )
}

/** Returns the last name of a path. */
export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
