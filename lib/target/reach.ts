/*
 * The way from the root of the file system to a target, name by name, each directory held (held.ts).
 *
 * Links on the way are followed, since operators use them. But a link that another user has made, or could have put
 * there, may only lead to a directory of that same user. Otherwise the owner of a directory above a target could make
 * svc deploy to any place, with the rights of svc.
 */
import { dirname, resolve } from 'node:path'
import { placeOfDescriptor } from '../base/descriptors.js'
import { Refusal } from '../base/refusal.js'
import { disk, type Disk } from './disk.js'
import {
  canHoldDirectories, holdAsync, holdChild, holdFileSystemRoot, isAnothers, namedByPath, refuseRenamable, statHeld,
  type HeldDirectory
} from './held.js'

/** A held target. */
export interface HeldTarget extends HeldDirectory {
  /** Its path without links. */
  readonly real: string
}

/** A name to enter, or the end of a link, with the user that may have made it. */
type Step = string | { link: string; user: number }

export interface ReachOptions {
  /** Makes missing directories. */
  make?: boolean
  /** Whether directories can be held; a test says no. */
  canHold?: boolean
}

/** As many links as Linux follows in one path. */
const maxLinks = 40

/**
 * Holds the target at an absolute path. Refuses (`conflict`): target_is_a_file, target_through_link, and
 * target_not_guarded where directories cannot be held. A missing one is ENOENT unless it is to be made.
 */
export function holdTarget(disk: Disk, deployPath: string, options: ReachOptions = {}): HeldTarget {
  const { make = false, canHold = canHoldDirectories } = options
  return canHold ? walk(disk, deployPath, make) : findByPath(disk, deployPath, make)
}

/**
 * Holds the target like `holdTarget`, without blocking the event loop unless links are on the way: a directory that
 * proves to lie at the very path that was asked for was reached through no link.
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
        if (statHeld(disk, at).uid !== step.user) throw throughAnothersLink(step)
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
      const text = follow(disk, at, step, ahead)
      if (text.startsWith('/')) moveTo(holdFileSystemRoot(disk))
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

/** Puts the names of a link's text ahead, and behind them whom the place must belong to. */
function follow(disk: Disk, at: HeldDirectory, name: string, ahead: Step[]): string {
  const place = `${at.path}/${name}`
  const maker = [disk.lstatSync(place), statHeld(disk, at)].find(isAnothers)
  const text = disk.readlinkSync(place)
  if (maker !== undefined) ahead.push({ link: name, user: maker.uid })
  ahead.push(...text.split('/').reverse())
  return text
}

/** What another user's link names is not made: svc would make a directory wherever that user likes. */
function makeDirectory(disk: Disk, place: string, ahead: readonly Step[]): void {
  for (const step of ahead) if (typeof step !== 'string') throw throughAnothersLink(step)
  try {
    disk.mkdirSync(place)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/** The path itself, where no other user can change what it means. */
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

/** The 409 for a target that is no directory. */
export function targetIsFile(path: string): Refusal {
  return new Refusal('conflict', 'target_is_a_file', `The target cannot be used: "${path}" is not a directory`)
}

function throughAnothersLink({ link, user }: { link: string; user: number }): Refusal {
  return new Refusal('conflict', 'target_through_link',
    `The target cannot be used: the symbolic link "${link}" on its path can be changed by user ${user}, and does not ` +
    'lead to a directory of that user. Use the path that the link leads to')
}
