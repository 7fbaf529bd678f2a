/*
 * Decides which directories can be targets.
 *
 * The rules are checked when a project is created, and again when a deployment begins, since links may have changed.
 * They protect against mistakes. A user who owns a target, or a directory above it, may exchange directories while svc
 * works. Other files protect against that:
 *
 *   held.ts    the path to the target: links of another user may lead only to directories of that user
 *   held.ts     directories are held by descriptor; each call names a held directory and one entry, and follows no link
 *   held.ts  the directories of the target that are in use
 *   staging.ts  the staging directory belongs to svc's user alone, and is verified before anything is written to it
 *   disk.ts  only regular files are opened, without waiting
 *
 * Such a user can make a deployment fail, or damage the files in the target, which belong to that user anyway.
 */

import { accessSync, constants, existsSync, realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, normalize, parse } from 'node:path'
import { fileURLToPath } from 'node:url'
import { areNested, foldCase, isInside } from '../../base/files.js'
import { hasCode, invalid, reasonOf, Refusal } from '../../base/errors.js'
import { userHome } from '../../base/runtime.js'
import { disk } from './disk.js'
import { giveOwnerAt } from './kept-owner.js'
import { holdTarget, targetIsFile } from './held.js'
import type { Item } from './plan.js'

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
export const kernelDirectories = ['/proc', '/sys', '/dev']

/** The rules of a server for targets. */
export interface TargetRules {
  /** svc's data directory. A target must not be in it or contain it. */
  home: string
  /** `serve --allow-system-paths`: directories of the system may be targets. */
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

/*
 * Places that contain programs or permissions of the whole system: a unit, a cron job, a key that opens a shell. A user
 * who can deploy there gains more than the project, often root. So they cannot be targets unless the operator of the
 * server allows it (`serve --allow-system-paths`); the API cannot. docs/security.md lists them.
 *
 * Below /etc the list contains the allowed places: a list of everything that runs code there (cron, pam, logrotate,
 * dhcp, …) is never complete.
 */

/** Directories that are closed, with everything below them. */
const closedDirectories = [
  '/bin',
  '/boot',
  '/etc',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/sbin',
  '/run/systemd',
  '/run/udev',
  '/run/user',
  '/usr/bin',
  '/usr/lib',
  '/usr/lib32',
  '/usr/lib64',
  '/usr/libexec',
  '/usr/libx32',
  '/usr/sbin',
  '/usr/share/dbus-1',
  '/usr/share/polkit-1',
  '/usr/share/applications',
  '/var/spool',
  '/var/run/systemd',
  '/var/run/udev',
  '/var/run/user',
  '/var/lib/systemd',
  '/var/lib/cloud',
  '/var/lib/dpkg',
  '/var/lib/rpm',
  '/var/lib/apt',
  '/var/lib/pacman',
  '/var/lib/snapd',
  '/var/lib/docker',
  '/var/lib/containerd',
  '/var/lib/kubelet',
  '/System',
  '/Library/LaunchAgents',
  '/Library/LaunchDaemons',
  'c:\\windows'
]

/**
 * Allowed below /etc: sites of web servers and proxies (not their modules, which root loads), and files of /opt
 * packages.
 */
const openBelowEtc = new RegExp(
  '^/etc/((nginx|apache2|httpd|caddy|haproxy|lighttpd|traefik)/' +
    '(sites|sites-available|sites-enabled|conf\\.d|conf-available|conf-enabled|snippets|html|dynamic)|opt/[^/]+)(/|$)'
)

/**
 * Names that are closed anywhere, with everything below them: keys, and files that run in a user's login or session.
 */
const closedNames = [
  '.ssh',
  '.gnupg',
  '.aws',
  '.kube',
  '.docker',
  '.config/systemd',
  '.config/autostart',
  '.config/environment.d',
  '.config/fish',
  '.local/bin',
  '.local/share/systemd',
  '.local/share/dbus-1',
  '.local/share/applications',
  'Library/LaunchAgents'
].map(name => name.split('/'))

const top = fileURLToPath(new URL('../../../../', import.meta.url)).slice(0, -1)
/** The directories of this program and of its runtime. */
const programDirectories = [
  ...['bin', 'dist', 'node_modules'].map(name => join(top, name)),
  dirname(process.execPath),
  ...(basename(dirname(top)) === 'node_modules' ? [dirname(top)] : [])
]

/**
 * Returns why a place (absolute, normalized, links followed) belongs to the system, as a predicate ("is in …"), or null
 * if it does not.
 */
export function systemPathFault(place: string): string | null {
  const plain = foldCase(place).replace(/^\/private(?=\/(etc|var)(\/|$))/, '')
  const closed = closedDirectories.find(directory => isInside(foldCase(directory), plain))
  if (closed !== undefined && !openBelowEtc.test(plain)) return `is in ${closed}, which belongs to the system`
  const segments = plain.split(/[\\/]/)
  const name = closedNames.find(name => runsThrough(segments, name))?.join('/')
  if (name !== undefined) return `is in or contains a ${name} directory, whose files are keys or run at the next login`
  const program = programDirectories.find(directory => areNested(foldCase(directory), foldCase(place)))
  if (program !== undefined) return `is in or contains "${program}", from which svc itself runs`
  if (isInside(foldCase(join(userHome(), '.svc')), foldCase(place))) return 'is in ~/.svc, where svc keeps tokens'
  return isInside(foldCase(place), foldCase(userHome()))
    ? 'contains the home directory of the user that svc runs as'
    : null
}

/** Whether `name` occurs in the path, or begins where the path ends: there it could still be created. */
function runsThrough(segments: readonly string[], name: readonly string[]): boolean {
  return segments.some((_, at) => {
    const part = segments.slice(at, at + name.length)
    const isWhole = part.length === name.length || (part.length > 0 && at + part.length === segments.length)
    return isWhole && part.every((segment, index) => segment === foldCase(name[index] as string))
  })
}

/* Paths of a target that no archive may touch: the maintenance file, as long as the maintenance is on. */

type Entry = Pick<Item, 'path' | 'kind'>

/** Refuses (`conflict`, reserved_path) an archive that touches one of these paths. */
export function refuseReserved(items: readonly Entry[], reserved: readonly string[]): void {
  const faultOf = createReserved(reserved)
  for (const item of items) {
    const fault = faultOf(item)
    if (fault !== null) throw fault
  }
}

/**
 * Returns a function that returns the refusal of an entry at one of these paths, below it, or with a file where the path
 * needs a directory; null for every other entry. Letter case and normal form are ignored, because the target may ignore
 * them.
 */
export function createReserved(reserved: readonly string[]): (item: Entry) => Refusal | null {
  if (reserved.length === 0) return () => null
  const paths = reserved.map(path => ({ path, own: fold(path) }))
  return ({ path, kind }) => {
    const folded = fold(path)
    const isInTheWay = (own: string): boolean => kind !== 'directory' && folded !== '' && own.startsWith(`${folded}/`)
    const touched = paths.find(({ own }) => folded === own || folded.startsWith(`${own}/`) || isInTheWay(own))
    return touched === undefined ? null : refusal(path, touched.path)
  }
}

function refusal(path: string, reserved: string): Refusal {
  const sentence =
    `Nothing was changed: the archive contains "${path}", and "${reserved}" is the maintenance file of ` +
    'this project. Leave it out of the archive, or turn the maintenance off (svc maintenance off)'
  return new Refusal('conflict', 'reserved_path', sentence)
}

function fold(path: string): string {
  return path.normalize('NFC').toLowerCase()
}

/*
 * Permission bits and group of what svc puts in place: those of the archive and of the process, unless the project says
 * otherwise.
 */

/** What the policy of a project says about the permissions of its files; null: nothing. */
export interface ModePolicy {
  file: number | null
  /** Of directories that svc makes. Those that exist keep theirs. */
  directory: number | null
  /** The group of both; absent or null: that of the process. */
  group?: number | null
}

/** The rules for permissions: the project's own umask, if it has one, and its policy. */
export interface ModeRules {
  umask: number | null
  modes?: ModePolicy | undefined
}

const read = 0o444
const execute = 0o111
const fileDefault = 0o666
const directoryDefault = 0o777

/** Returns the permission bits of an entry; null: the umask of the process decides. `given`: those of the archive. */
export function modeUnder({ umask, modes }: ModeRules, kind: Item['kind'], given: number | null): number | null {
  const own = (kind === 'directory' ? modes?.directory : modes?.file) ?? null
  if (kind === 'symlink') return given
  if (own !== null) return kind === 'file' && ((given ?? 0) & execute) !== 0 ? own | ((own & read) >> 2) : own
  return umask === null ? given : (given ?? (kind === 'directory' ? directoryDefault : fileDefault)) & ~umask
}

/** Returns the group of an entry; undefined: that of the process. The group of a link has no meaning. */
export function groupUnder({ modes }: Pick<ModeRules, 'modes'>, kind: Item['kind']): number | undefined {
  return kind === 'symlink' ? undefined : (modes?.group ?? undefined)
}
