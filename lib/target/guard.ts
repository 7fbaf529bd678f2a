/*
 * What a target may be, and how a directory is held while it is written to.
 *
 * A check of a path is worth nothing if the path can come to mean something else before it is used, and whoever may
 * write in a target (the application that runs there, often under another user) can exchange a directory for a
 * symbolic link at any moment. So directories of the target are not named by their paths but held: opened once without
 * following a link, compared with the place they must have, and from then on reached as `/proc/<self>/fd/<n>/…`, which
 * the kernel resolves to the directory itself, wherever its name has gone. Where there is no /proc (macOS, Windows) the
 * path itself is used, after the same comparison; the window between the two is then as wide as everywhere else.
 */
import { accessSync, constants, existsSync, readlinkSync, realpathSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, isAbsolute, normalize, parse, join, basename } from 'node:path'
import { isInside } from '../base/paths.js'
import { Refusal, invalid } from '../base/refusal.js'
import type { Disk } from './disk.js'
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

/** A directory that is held open while something is written into it. */
export interface HeldDirectory {
  /** How to name it in calls. */
  readonly path: string
  /** Where it really is. */
  readonly real: string
  close(): void
}

/**
 * What every deployment begins with (§3, step 2): the path is checked again, because links may have changed since the
 * project was made, and the directory is made if it is missing. Answers the normalised path. Refuses as
 * `checkDeployPath`, and (`conflict`) target_is_a_file, (`unavailable`) target_not_writable.
 */
export async function ensureTarget(deployPath: string, rules: TargetRules): Promise<string> {
  const path = checkDeployPath(deployPath, rules)
  try {
    await mkdir(path, { recursive: true })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' || code === 'ENOTDIR') throw targetIsFile(path)
    throw new Refusal('unavailable', 'target_not_writable', `The target cannot be made: ${whyNotMade(path) ?? message}`, { cause: error })
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

function targetIsFile(path: string): Refusal {
  return new Refusal('conflict', 'target_is_a_file', `The target cannot be used: "${path}" is not a directory`)
}

/** Holds the target directory itself; links on the way to it are followed once, here. */
export function holdTarget(disk: Disk, deployPath: string): HeldDirectory {
  const real = disk.realpathSync(deployPath)
  const held = openHeld(disk, real, real)
  if (held.real === real) return held
  held.close()
  throw targetIsFile(deployPath)
}

/**
 * Holds the directory at `path` (relative; `''` is the target itself) below a held one. Refuses (`conflict`,
 * written_through_link) when a link lies on the way.
 */
export function holdBelow(disk: Disk, root: HeldDirectory, path: string): HeldDirectory {
  if (path === '') return { path: root.path, real: root.real, close: () => {} }
  const real = join(root.real, path)
  const held = openHeld(disk, `${root.path}/${path}`, real)
  if (held.real === real) return held
  held.close()
  throw throughLink(path)
}

/** The target has a link where a directory of the archive belongs. */
export function throughLink(path: string): Refusal {
  return new Refusal('conflict', 'written_through_link',
    `Nothing was changed: "${path}" in the target is a symbolic link, and svc does not write through links`)
}

const mayHold = process.platform === 'linux'
/** Named by its number, as this /proc counts, the process is found with one link less to follow: 0.4 of 3.5 us. */
const ownFds = findOwnFds()

function findOwnFds(): string {
  try {
    return `/proc/${readlinkSync('/proc/self')}/fd`
  } catch {
    return '/proc/self/fd'
  }
}

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants

function openHeld(disk: Disk, path: string, real: string): HeldDirectory {
  if (!mayHold) return { path: real, real: disk.realpathSync(path), close: () => {} }
  let fd: number
  try {
    fd = disk.openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ELOOP' || code === 'ENOTDIR') return { path, real: '', close: () => {} }
    throw error
  }
  const held = `${ownFds}/${fd}`
  try {
    return { path: held, real: disk.readlinkSync(held), close: () => disk.closeSync(fd) }
  } catch {
    return { path: real, real: disk.realpathSync(path), close: () => disk.closeSync(fd) }
  }
}
