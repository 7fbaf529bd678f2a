/*
 * Walks from the root of the file system to a target, name by name, and holds each directory (held.ts).
 *
 * Links on the way are followed, because operators use them. But a link that another user has made, or could have put
 * there, may lead only to a directory of that same user. Otherwise the owner of a directory above a target could make
 * svc deploy anywhere, with the rights of svc.
 */
import { dirname, resolve } from 'node:path'
import { placeOfDescriptor } from '../base/files.js'
import { Refusal } from '../base/errors.js'
import { disk, type Disk } from './disk.js'
import {
  canHoldDirectories,
  holdAsync,
  holdChild,
  holdFileSystemRoot,
  belongsToAnotherUser,
  namedByPath,
  refuseRenamable,
  statHeld,
  type HeldDirectory
} from './held.js'

/** A held target. */
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
