/*
 * Decides which directories can be targets.
 *
 * The rules are checked when a project is created, and again when a deployment begins, since links may have changed.
 * They protect against mistakes. A user who owns a target, or a directory above it, may exchange directories while svc
 * works. Other files protect against that:
 *
 *   reach.ts    the path to the target: links of another user may lead only to directories of that user
 *   held.ts     directories are held by descriptor; each call names a held directory and one entry, and follows no link
 *   folders.ts  the directories of the target that are in use
 *   staging.ts  the staging directory belongs to svc's user alone, and is verified before anything is written to it
 *   regular.ts  only regular files are opened, without waiting
 *
 * Such a user can make a deployment fail, or damage the files in the target, which belong to that user anyway.
 */
import { accessSync, constants, existsSync, realpathSync } from 'node:fs'
import { dirname, isAbsolute, normalize, parse, join, basename } from 'node:path'
import { isInside } from '../base/files.js'
import { hasCode, invalid, reasonOf, Refusal } from '../base/errors.js'
import { disk } from './disk.js'
import { giveOwnerAt } from './kept-owner.js'
import { groupUnder, modeUnder, type ModePolicy } from './modes.js'
import { holdTarget, targetIsFile } from './reach.js'
import { systemPathFault } from './system-paths.js'

/** Directories that cannot be targets themselves. Directories below them can (`/var/www/site`, `/usr/local/app`). */
const systemDirectories = new Set([
  '/bin',
  '/boot',
  '/dev',
  '/etc',
  '/home',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/media',
  '/mnt',
  '/opt',
  '/proc',
  '/root',
  '/run',
  '/sbin',
  '/srv',
  '/sys',
  '/tmp',
  '/usr',
  '/usr/bin',
  '/usr/lib',
  '/usr/lib64',
  '/usr/local',
  '/usr/local/bin',
  '/usr/local/lib',
  '/usr/local/sbin',
  '/usr/sbin',
  '/usr/share',
  '/var',
  '/var/lib',
  '/var/log',
  '/var/run',
  '/var/tmp',
  '/Applications',
  '/Library',
  '/System',
  '/Users',
  '/Volumes',
  '/private',
  '/private/etc',
  '/private/tmp',
  '/private/var',
  'c:\\windows',
  'c:\\windows\\system32',
  'c:\\program files',
  'c:\\program files (x86)',
  'c:\\programdata',
  'c:\\users'
])
/** Directories that can neither be targets nor contain any. */
const kernelDirectories = ['/proc', '/sys', '/dev']

/** The rules of a server for targets. */
export interface TargetRules {
  /** svc's data directory. A target must not be in it or contain it. */
  home: string
  /** `serve --allow-system-paths`: directories of the system (system-paths.ts) may be targets. */
  allowSystemPaths?: boolean | undefined
}

/** The rules for a target that may have to be created. */
export interface NewTargetRules extends TargetRules {
  /** The project's own umask, if it has one. */
  umask?: number | null | undefined
  /** What its policy says about permissions; absent: nothing. */
  modes?: ModePolicy | undefined
}

/**
 * Returns the normalized deployPath. Refuses an unsuitable one with a 400 that names the field (decisions §3). Links
 * are followed in the part of the path that exists, and the rules apply to the place they lead to as well. The returned
 * path is the requested one, not the place it leads to.
 */
export function checkDeployPath(path: string, { home, allowSystemPaths = false }: TargetRules): string {
  if (path.includes('\0')) throw invalid('deployPath', 'deployPath is invalid: it contains a NUL character')
  if (!isAbsolute(path)) throw invalid('deployPath', `deployPath is invalid: "${path}" is not an absolute path`)
  const normal = withoutTrailingSlash(normalize(path))
  checkPlace(normal, normal, { home: withoutTrailingSlash(normalize(home)), allowSystemPaths })
  checkPlace(realPlace(normal), normal, { home: realPlace(home), allowSystemPaths })
  return normal
}

function checkPlace(place: string, asked: string, { home, allowSystemPaths }: Required<TargetRules>): void {
  const leads = place === asked ? `"${asked}"` : `"${asked}" leads to "${place}", which`
  const no = (reason: string): Refusal => invalid('deployPath', `deployPath is invalid: ${leads} ${reason}`)
  if (place === parse(place).root) throw no('is the root of a file system')
  const key = process.platform === 'win32' || process.platform === 'darwin' ? place.toLowerCase() : place
  for (const directory of systemDirectories) {
    const compared = key === place ? directory : directory.toLowerCase()
    if (compared === key) throw no('is a directory of the system; choose one below it')
  }
  for (const directory of kernelDirectories) {
    if (isInside(directory, place)) throw no(`is in ${directory}, which is not a directory for files`)
  }
  if (place.startsWith(`${home}.before-`)) throw no('is in a data directory that a restore has put aside')
  if (isInside(home, place)) throw no("is in svc's own data directory")
  if (isInside(place, home)) throw no("contains svc's own data directory")
  const fault = allowSystemPaths ? null : systemPathFault(place)
  if (fault !== null) throw no(`${fault}; only a server that runs with --allow-system-paths deploys there`)
}

function withoutTrailingSlash(path: string): string {
  return path.length > parse(path).root.length && /[\\/]$/.test(path) ? path.slice(0, -1) : path
}

/**
 * Returns the place that a path leads to: the real path of the longest part that exists, and the rest unchanged.
 * Refuses a path that leads nowhere (a loop of links), naming `deployPath`.
 */
export function realPlace(path: string): string {
  let rest = ''
  for (let head = path; ; head = dirname(head)) {
    try {
      return join(realpathSync.native(head), rest)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if ((code !== 'ENOENT' && code !== 'ENOTDIR' && code !== 'EACCES') || head === dirname(head)) {
        throw invalid('deployPath', `deployPath is invalid: cannot resolve "${path}": ${reasonOf(error)}`)
      }
      rest = rest === '' ? basename(head) : join(basename(head), rest)
    }
  }
}

/**
 * Prepares the target of a deployment (§3, step 2). Checks the path again, because links may have changed since the
 * project was created, and creates the directory if it is missing. Returns the normalized path. Refuses like
 * `checkDeployPath` and `holdTarget`, and with (`unavailable`) target_not_writable.
 */
export async function ensureTarget(deployPath: string, rules: NewTargetRules): Promise<string> {
  const path = checkDeployPath(deployPath, rules)
  try {
    const isNew = !existsSync(path)
    holdTarget(disk, path, { make: true }).close()
    const mode = modeUnder({ umask: rules.umask ?? null, modes: rules.modes }, 'directory', null)
    const gid = groupUnder(rules, 'directory')
    if (isNew && gid !== undefined) giveOwnerAt(disk, path, { gid })
    if (isNew && mode !== null) disk.chmodSync(path, mode | 0o700)
  } catch (error) {
    if (error instanceof Refusal) throw error
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' || code === 'ENOTDIR') throw targetIsFile(path)
    const sentence = `Cannot create the target: ${whyNotMade(path) ?? reasonOf(error)}`
    throw new Refusal('unavailable', 'target_not_writable', sentence, { cause: error })
  }
  return path
}

/**
 * Returns the reason why `mkdir` failed, or null if it is unknown. `mkdir` of several levels reports ENOENT on a
 * read-only file system; the existing part of the path gives the real reason.
 */
export function whyNotMade(path: string): string | null {
  let there = path
  while (!existsSync(there) && there !== dirname(there)) there = dirname(there)
  try {
    accessSync(there, constants.W_OK)
    return null
  } catch (error) {
    const why = `${reasonOf(error)} at "${there}"`
    return hasCode(error, 'EROFS') ? `${why}. Under systemd, add the directory to ReadWritePaths` : why
  }
}
