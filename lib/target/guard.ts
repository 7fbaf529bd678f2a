/*
 * Which directories may be targets.
 *
 * The rules are checked when a project is made and again when a deployment begins, since links may have changed. They
 * protect against mistakes. Against a user who owns a target, or a directory above it, and exchanges directories while
 * svc works, other files protect:
 *
 *   reach.ts    the way to the target: links of another user lead only to directories of that user
 *   held.ts     directories are held by descriptor; each call is a held directory and one name, and follows no link
 *   folders.ts  the directories of the target that are in use
 *   staging.ts  the staging directory belongs to svc's user alone, and is verified before anything is written to it
 *   regular.ts  only regular files are opened, without waiting
 *
 * What such a user can do is make a deployment fail, or spoil the files in the target, which are that user's anyway.
 */
import { accessSync, constants, existsSync, realpathSync } from 'node:fs'
import { dirname, isAbsolute, normalize, parse, join, basename } from 'node:path'
import { isInside } from '../base/paths.js'
import { Refusal, invalid } from '../base/refusal.js'
import { disk } from './disk.js'
import { holdTarget, targetIsFile } from './reach.js'
import { systemPathFault } from './system-paths.js'

/** Never a target themselves; what lies below them may be (`/var/www/site`, `/usr/local/app`). */
const systemDirectories = new Set([
  '/bin', '/boot', '/dev', '/etc', '/home', '/lib', '/lib32', '/lib64', '/libx32', '/media', '/mnt', '/opt', '/proc',
  '/root', '/run', '/sbin', '/srv', '/sys', '/tmp', '/usr', '/usr/bin', '/usr/lib', '/usr/lib64', '/usr/local',
  '/usr/local/bin', '/usr/local/lib', '/usr/local/sbin', '/usr/sbin', '/usr/share', '/var', '/var/lib', '/var/log',
  '/var/run', '/var/tmp', '/Applications', '/Library', '/System', '/Users', '/Volumes', '/private', '/private/etc',
  '/private/tmp', '/private/var',
  'c:\\windows', 'c:\\windows\\system32', 'c:\\program files', 'c:\\program files (x86)', 'c:\\programdata', 'c:\\users'
])
/** Neither a target nor anything above one. */
const kernelDirectories = ['/proc', '/sys', '/dev']

/** What a server lets be a target. */
export interface TargetRules {
  /** svc's data directory: never one, nor above one. */
  home: string
  /** `serve --allow-system-paths`: places of the system (system-paths.ts) may be targets. */
  allowSystemPaths?: boolean | undefined
}

/** What a server says of a target that it makes. */
export interface NewTargetRules extends TargetRules {
  /** Of the project, if it has one of its own. */
  umask?: number | null | undefined
}

/**
 * The normalised deployPath, or a 400 that names the field (decisions §3). Links are followed as far as the path exists,
 * and the rules hold for the place they lead to as well; the path that is answered is the one that was asked for.
 */
export function checkDeployPath(path: string, { home, allowSystemPaths = false }: TargetRules): string {
  if (path.includes('\0')) throw invalid('deployPath', 'deployPath is not possible: it has a NUL character')
  if (!isAbsolute(path)) throw invalid('deployPath', `deployPath is not possible: "${path}" is not an absolute path`)
  const normal = withoutTrailingSlash(normalize(path))
  checkPlace(normal, normal, { home: withoutTrailingSlash(normalize(home)), allowSystemPaths })
  checkPlace(realPlace(normal), normal, { home: realPlace(home), allowSystemPaths })
  return normal
}

function checkPlace(place: string, asked: string, { home, allowSystemPaths }: Required<TargetRules>): void {
  const leads = place === asked ? `"${asked}"` : `"${asked}" leads to "${place}", which`
  const no = (reason: string): Refusal => invalid('deployPath', `deployPath is not possible: ${leads} ${reason}`)
  if (place === parse(place).root) throw no('is the root of a file system')
  const key = process.platform === 'win32' || process.platform === 'darwin' ? place.toLowerCase() : place
  for (const directory of systemDirectories) {
    const compared = key === place ? directory : directory.toLowerCase()
    if (compared === key) throw no('is a directory of the system; choose one below it')
  }
  for (const directory of kernelDirectories) {
    if (isInside(directory, place)) throw no(`lies in ${directory}, which is not a place for files`)
  }
  if (place.startsWith(`${home}.before-`)) throw no("lies in a data directory that a restore has put aside")
  if (isInside(home, place)) throw no("lies in svc's own data directory")
  if (isInside(place, home)) throw no("contains svc's own data directory")
  const fault = allowSystemPaths ? null : systemPathFault(place)
  if (fault !== null) throw no(`${fault}; only a server that runs with --allow-system-paths deploys there`)
}

function withoutTrailingSlash(path: string): string {
  return path.length > parse(path).root.length && /[\\/]$/.test(path) ? path.slice(0, -1) : path
}

/**
 * Where a path leads: the real path of the longest part that exists, and the rest as it stands. Refuses a path that
 * leads nowhere (a circle of links), naming `deployPath`.
 */
export function realPlace(path: string): string {
  let rest = ''
  for (let head = path; ; head = dirname(head)) {
    try {
      return join(realpathSync.native(head), rest)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if ((code !== 'ENOENT' && code !== 'ENOTDIR' && code !== 'EACCES') || head === dirname(head)) {
        throw invalid('deployPath', `deployPath is not possible: "${path}" cannot be resolved (${code})`)
      }
      rest = rest === '' ? basename(head) : join(basename(head), rest)
    }
  }
}

/**
 * What every deployment begins with (§3, step 2): the path is checked again, because links may have changed since the
 * project was made, and the directory is made if it is missing. Answers the normalised path. Refuses as
 * `checkDeployPath` and `holdTarget`, and (`unavailable`) target_not_writable.
 */
export async function ensureTarget(deployPath: string, rules: NewTargetRules): Promise<string> {
  const path = checkDeployPath(deployPath, rules)
  try {
    const isNew = !existsSync(path)
    holdTarget(disk, path, { make: true }).close()
    if (isNew && rules.umask != null) disk.chmodSync(path, 0o777 & ~rules.umask | 0o700)
  } catch (error) {
    if (error instanceof Refusal) throw error
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' || code === 'ENOTDIR') throw targetIsFile(path)
    const sentence = `The target cannot be made: ${whyNotMade(path) ?? message}`
    throw new Refusal('unavailable', 'target_not_writable', sentence, { cause: error })
  }
  return path
}

/** `mkdir` of several levels says ENOENT of a read-only file system; what is there already knows better. */
function whyNotMade(path: string): string | null {
  let there = path
  while (!existsSync(there) && there !== dirname(there)) there = dirname(there)
  try {
    accessSync(there, constants.W_OK)
    return null
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EROFS') return `this user may not write in "${there}"`
    return `"${there}" is read-only for this server; the unit of systemd names what may be written (ReadWritePaths)`
  }
}
