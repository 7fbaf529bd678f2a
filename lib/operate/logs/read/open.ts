/*
 * Opens log files; no other code does. Links are resolved first, and both paths are checked against the deny list.
 * After opening, the path of the opened file is checked again, because a link may change between the check and the
 * open.
 */
import { kernelDirectories } from '../../../core/install/guard.js'
import { constants, type BigIntStats, readdirSync } from 'node:fs'
import { open, readlink, realpath, stat, type FileHandle, readdir } from 'node:fs/promises'
import { basename, dirname, join, resolve as resolvePath } from 'node:path'
import { reasonOf, Refusal } from '../../../base/errors.js'
import { foldCase, isInside } from '../../../base/files.js'

/** A log file that is open for reading. The caller closes it. */
export interface OpenedLog {
  handle: FileHandle
  /** Real path of the file, with links resolved. */
  path: string
  size: number
  mtimeMs: number
  /** When the file was made. */
  birthMs: number
  /** Identity of the file, independent of its name. */
  identity: string
}

/** Opens a log file for reading. */
export interface OpenLog {
  /**
   * Refuses: 403 `denied_path`, `not_readable`; 400 `not_a_file`; 404 `file_missing`; 503 `file_unreachable`. `field`
   * is the field that the refusals name.
   */
  (filePath: string, field?: string): Promise<OpenedLog>
}

// Non-blocking, because opening a FIFO would wait for its writer. The resolved path contains no links, so none is
// followed.
const flags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0)

/** Opens the file of a log again, with a handle of its own. Fails with ENOENT if another file has that path now. */
export async function openAgain({ path, identity }: Pick<OpenedLog, 'path' | 'identity'>): Promise<FileHandle> {
  const handle = await open(path, flags)
  const isSame = await handle.stat({ bigint: true }).then(
    stats => identityOf(stats) === identity,
    () => false
  )
  if (isSame) return handle
  await handle.close()
  throw Object.assign(new Error(`ENOENT: the file was replaced, open '${path}'`), { code: 'ENOENT' })
}

export function createOpenLog(guarded: Guarded, secrets = createSecrets(guarded)): OpenLog {
  return async (asked, field = 'filePath') => {
    const named = { asked, field }
    secrets.checkPath(asked, named)
    const path = await resolve(asked, place => secrets.checkPath(place, named)).catch(error => {
      throw explain(error, asked, field)
    })
    secrets.checkPath(path, named)
    const handle = await open(path, flags).catch(error => {
      throw explain(error, asked, field)
    })
    try {
      const stats = await secrets.checkOpened(handle, path, named)
      if (!stats.isFile()) throw notAFile(asked, field)
      const { size, mtimeMs } = stats
      return {
        handle,
        path,
        size: Number(size),
        mtimeMs: Number(mtimeMs),
        birthMs: birthOf(stats),
        identity: identityOf(stats)
      }
    } catch (error) {
      await handle.close()
      throw error
    }
  }
}

/**
 * Returns an identity of the file. Inode numbers are bigint because some file systems use more bits than a double has.
 */
export function identityOf({ dev, ino }: { dev: bigint; ino: bigint }): string {
  return `${dev}:${ino}`
}

/** Returns when a file was made. File systems that do not keep this time say 0: its last change is not earlier. */
export function birthOf({ birthtimeMs, ctimeMs }: { birthtimeMs: bigint; ctimeMs: bigint }): number {
  return Number(birthtimeMs === 0n ? ctimeMs : birthtimeMs)
}

/**
 * Resolves the real path. If the file is missing, the longest existing part and the target of a link are checked too.
 */
async function resolve(path: string, look: (place: string) => void): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    const parent = await realpath(dirname(path)).catch(() => null)
    if (parent !== null) look(join(parent, basename(path)))
    const target = await readlink(path).catch(() => null)
    if (target !== null) look(resolvePath(dirname(path), target))
    throw error
  }
}

function notAFile(path: string, field: string): Refusal {
  return new Refusal('invalid', 'not_a_file', `Cannot read "${path}": not a regular file`, { field })
}

function explain(error: NodeJS.ErrnoException, path: string, field: string): Error {
  const details = { field, cause: error }
  const sentence = `Cannot read "${path}": ${reasonOf(error)}`
  switch (error.code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return new Refusal('not_found', 'file_missing', sentence, details)
    case 'EACCES':
    case 'EPERM':
      return new Refusal('forbidden', 'not_readable', sentence, details)
    case 'ENXIO':
    case 'ENODEV':
      return notAFile(path, field)
    case 'ELOOP':
      return new Refusal('invalid', 'invalid_field', sentence, details)
    case 'ENAMETOOLONG':
      return new Refusal('invalid', 'invalid_field', sentence, details)
    case 'EIO':
    case 'ESTALE':
    case 'ETIMEDOUT':
      return new Refusal('unavailable', 'file_unreachable', sentence, details)
    default:
      return error
  }
}

/** Returns the identity and size of the file that a path names now, with links resolved, or null if there is none. */
export async function identityAt(path: string): Promise<{ identity: string; key: string; size: number } | null> {
  const stats = await stat(path, { bigint: true }).catch(() => null)
  if (stats === null) return null
  const identity = identityOf(stats)
  return { identity, key: `${identity} ${stats.size} ${Number(stats.mtimeMs)}`, size: Number(stats.size) }
}

/*
 * Decides whether a file may be shown, as a log source or as a file of a target. The path is checked against the deny
 * list. For an open file, three more things are checked: its real path, whether it belongs to svc under another
 * name, and whether it begins as a private key does, or as an export package or a backup of svc, which contain every token.
 */

/** How a refusal names the file: the path that was asked for, and the field that contained it. */
export interface Named {
  asked: string
  field: string
}

/** Checks of whether a file may be shown. */
export type Secrets = ReturnType<typeof createSecrets>

/** The files that are protected. */
interface Guarded {
  deny: Deny
  /** Paths of files that are denied under any name, including hard links. */
  secrets: readonly string[]
  /** Data directories that are denied under any name. */
  homes?: readonly string[]
}

export function createSecrets({ deny, secrets, homes = [] }: Guarded) {
  const own = createOwnFiles({ homes, files: secrets })

  function checkPath(path: string, { asked, field }: Named): void {
    const reason = deny(path)
    if (reason === null) return
    const leads = path === asked || !isAbsoluteName(asked) ? '' : `, which leads to "${path}"`
    throw denied(`Cannot read "${asked}"${leads}: ${reason}`, field)
  }

  return {
    /** Refuses a path on the deny list: 403 `denied_path`. */
    checkPath,
    /** Whether a path is on the deny list. */
    isDenied: (path: string): boolean => deny(path) !== null,
    /** Whether a directory is svc's own, under this path or under another name. `path` contains no links. */
    isOwn: own.hasPath,

    /** Refuses an open file: 403 `denied_path`. `path` is its real path at the time it was opened. */
    async checkOpened(handle: FileHandle, path: string, named: Named): Promise<BigIntStats> {
      const place = await placeOf(handle, path)
      checkPath(place, named)
      const stats = await handle.stat({ bigint: true })
      if (!stats.isFile()) return stats
      if (await own.has(place, stats))
        throw denied(
          `Cannot read "${named.asked}": it is a file of svc under another name, by a hard link or a mount`,
          named.field
        )
      const why = whySecret(await headOf(handle))
      if (why !== null) throw denied(`Cannot read "${named.asked}": ${why}`, named.field)
      return stats
    }
  }
}

/** Whether the path is absolute. A relative path is in a target, whose location the caller need not know. */
function isAbsoluteName(path: string): boolean {
  return /^(\/|[a-z]:[\\/])/i.test(path)
}

/**
 * Returns why a file that begins so is secret: a private key in PEM (RFC 7468), or an export package or a backup, a zip
 * whose first entry is below `svc-export/` or `svc-backup/` (APPNOTE 4.3.7). A copy of such a file may have any name.
 */
function whySecret(head: string): string | null {
  if (/^-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY-----/.test(head)) return 'it is a private key'
  if (head.startsWith('PK\x03\x04') && /^svc-(export|backup)\//.test(head.slice(30)))
    return 'it is a package or a backup of svc, which contains every token'
  return null
}

async function headOf(handle: FileHandle): Promise<string> {
  const { buffer, bytesRead } = await handle
    .read(Buffer.alloc(48), 0, 48, 0)
    .catch(() => ({ buffer: Buffer.alloc(0), bytesRead: 0 }))
  return buffer.toString('latin1', 0, bytesRead)
}

async function placeOf(handle: FileHandle, path: string): Promise<string> {
  if (process.platform !== 'linux') return path
  const place = await readlink(`/proc/self/fd/${handle.fd}`).catch(() => path)
  return place.endsWith(' (deleted)') ? path : place
}

function denied(sentence: string, field: string): Refusal {
  return new Refusal('forbidden', 'denied_path', sentence, { field })
}

/*
 * The deny list (decisions §5): files that are never shown, neither as a log nor as a file of a target. A log source
 * can name any file that svc may read, so files with secrets are excluded. The rules check only a path. The code that
 * opens a file checks the given path, the path that its links lead to, and what it opened, every time.
 */

/** Returns why a path is denied, or null if it is allowed. */
type Deny = (path: string) => string | null

/** Files of the system. macOS keeps these directories in /private and links to them. */
const systemFile = new RegExp(
  '^(/private)?(/etc/(shadow|gshadow|sudoers|master\\.passwd|security/opasswd|krb5\\.keytab|ssl/private/|wireguard/' +
    '|letsencrypt/(live|archive|keys|accounts)/|NetworkManager/system-connections/|ppp/\\w+-secrets)' +
    '|/var/spool/cron/|/var/backups/g?shadow|/(var/)?run/(secrets|credentials)/)'
)

/** Directories that contain keys and tokens, wherever they are. `/` separates segments. */
const secretDirectories = [
  '.ssh',
  '.gnupg',
  '.aws',
  '.azure',
  '.kube',
  '.docker',
  '.password-store',
  '.config/gcloud',
  '.config/gh',
  '.config/hub',
  '.config/rclone',
  '.terraform.d'
]

/** Patterns of file names, without regard to case: users write names such as `Site.PEM` too. */
const secretNames: Array<[pattern: RegExp, what: string]> = [
  [
    /\.(pem|key|p8|p12|pfx|pkcs12|jks|keystore|ppk|kdbx|keytab)((\.(bak|old|orig|save|swp|\d+))|~)?$/i,
    'it may contain a private key'
  ],
  [/^(id_|ssh_host_.*_key)/i, 'it may contain a private key'],
  [/^\.env|\.env$/i, 'it may contain passwords'],
  [
    /^[._](npmrc|netrc)$|^\.(pgpass|git-credentials|pypirc|my\.cnf|mylogin\.cnf|htpasswd|s3cfg|boto|dockercfg|yarnrc\.yml|terraformrc|vault-token)$/i,
    'it may contain passwords'
  ],
  [/^(credentials(\.toml)?|.*\.tfstate(\.backup)?)$/i, 'it may contain passwords'],
  [
    /^(\..*hist(ory|file)?|fish_history|\.lesshst|\.viminfo|\.dbshell)$/i,
    'it contains commands and the passwords typed in them'
  ],
  [/^svc\.db|^svc-(export|backup)-.*\.zip$/i, 'it contains tokens of svc']
]

/** Creates the deny list of a server. `home` contains the names of its data directory, of which only outputs are shown. */
export function createDeny(home: readonly string[]): Deny {
  const homes = home.map(foldCase)
  return path => {
    const folded = foldCase(path)
    const name = basename(folded)
    if (homes.some(home => isOfHome(home, folded))) return 'it belongs to svc'
    if (systemFile.test(folded)) return 'it contains passwords or permissions of the system'
    const places = `/${folded.split(/[\\/]/).join('/')}/`
    const secret = secretDirectories.find(directory => places.includes(`/${directory}/`))
    if (secret !== undefined) return `it is in a ${secret} directory`
    const kernel = kernelDirectories.find(directory => isInside(directory, folded))
    if (kernel !== undefined) return `${kernel} contains no logs`
    return secretNames.find(([pattern]) => pattern.test(name))?.[1] ?? null
  }
}

/*
 * svc's own files, under whatever name they are opened: its data directories, except the outputs in them, and the files
 * with secrets that lie elsewhere. Their names say little: a hard link, a bind mount, a renamed directory or a file system
 * without regard to case gives a file another one. So the device and the inode of the open file and of the directories
 * above it decide.
 */

/** A device and an inode. */
interface Identity {
  dev: bigint
  ino: bigint
}

/** Directories of a data directory that contain many files: they are listed only for a file with several names. */
const largeDirectories = ['deployments', 'tmp']
/** How old the last change of a directory must be before its list is kept: times have the steps of the kernel's clock. */
const settledMs = 2000
const maxDepth = 4

/** Whether a path in a data directory, with `/` between segments, is an output: what scripts and the server printed. */
function isOutput(relative: string): boolean {
  return /^(node\/)?(deployments\/[^/]+\.log|pm2\/[^/]*\.log[^/]*)$/.test(relative)
}

/** Whether a path belongs to the data directory, or to one that a restore moved aside. Both are folded (foldCase). */
function isOfHome(home: string, path: string): boolean {
  if (isInside(home, path)) return !isOutput(path.slice(home.length).replaceAll('\\', '/').replace(/^\/+/, ''))
  return path.startsWith(`${home}.before-`)
}

/** Creates the knowledge of these data directories and files. They need not exist. */
export function createOwnFiles({ homes, files }: { homes: readonly string[]; files: readonly string[] }) {
  const lists = new Map<
    string,
    { key: string; names: Array<{ name: string; isDirectory: boolean }>; ids: Set<string> }
  >()
  /** Directories that were ever seen, by identity: a data directory that was moved away stays one. */
  const directories = new Map<string, string>()

  /** Reads the identities of the files in a directory, again only if its entries have changed. */
  async function listOf(path: string, relative: string) {
    const stats = await stat(path, { bigint: true }).catch(() => null)
    if (!stats?.isDirectory()) return null
    directories.set(idOf(stats), relative)
    const key = `${idOf(stats)} ${stats.mtimeNs} ${stats.ctimeNs}`
    const known = lists.get(path)
    if (known?.key === key) return known
    const entries = await readdir(path, { withFileTypes: true }).catch(() => [])
    const names = entries.map(entry => ({ name: entry.name, isDirectory: entry.isDirectory() }))
    const ids = new Set<string>()
    for (const { name, isDirectory } of names) {
      if (isDirectory || isOutput(inside(relative, name))) continue
      const found = await stat(join(path, name), { bigint: true }).catch(() => null)
      if (found?.isFile()) ids.add(idOf(found))
    }
    const list = { key, names, ids }
    if (Date.now() - Number(stats.mtimeMs) > settledMs) lists.set(path, list)
    else lists.delete(path)
    return list
  }

  async function contains(
    path: string,
    given: { relative: string; id: string; hasOtherNames: boolean }
  ): Promise<boolean> {
    const { relative, id, hasOtherNames } = given
    if (!hasOtherNames && largeDirectories.includes(relative)) {
      const stats = await stat(path, { bigint: true }).catch(() => null)
      if (stats?.isDirectory()) directories.set(idOf(stats), relative)
      return false
    }
    const list = await listOf(path, relative)
    if (list === null) return false
    if (list.ids.has(id)) return true
    if (relative.split('/').length >= maxDepth) return false
    for (const { name, isDirectory } of list.names) {
      // The directories of svc itself may be links to another disk.
      if (!isDirectory && !(relative === '' && [...largeDirectories, 'keys', 'pm2'].includes(name))) continue
      if (await contains(join(path, name), { ...given, relative: inside(relative, name) })) return true
    }
    return false
  }

  /** Whether a directory at or above this one is a data directory, or in one. */
  async function isBelow(path: string): Promise<boolean> {
    for (let at = path, below = ''; ; at = dirname(at)) {
      const stats = await stat(at, { bigint: true }).catch(() => null)
      const relative = stats === null ? undefined : directories.get(idOf(stats))
      if (relative !== undefined) return !isOutput(inside(relative, below))
      if (dirname(at) === at) return false
      below = inside(basename(at), below)
    }
  }

  const roots = (): string[] => homes.flatMap(home => [home, ...movedAside(home)])

  return {
    /** Whether the path, which contains no links, is of svc under any name. */
    async hasPath(path: string): Promise<boolean> {
      for (const root of roots()) await contains(root, { relative: '', id: '', hasOtherNames: false })
      return isBelow(path)
    },
    /** Whether an open file is svc's own. `path` is its real path. */
    async has(path: string, stats: Identity & { nlink: bigint }): Promise<boolean> {
      const id = idOf(stats)
      const given = { relative: '', id, hasOtherNames: stats.nlink > 1n }
      for (const root of roots()) if (await contains(root, given)) return true
      for (const file of files) {
        const own = await stat(file, { bigint: true }).catch(() => null)
        if (own !== null && idOf(own) === id) return true
      }
      return isBelow(path)
    }
  }
}

const idOf = ({ dev, ino }: Identity): string => `${dev}:${ino}`
const inside = (directory: string, name: string): string => [directory, name].filter(Boolean).join('/')

/** Returns the data directories that restores have moved aside. */
function movedAside(home: string): string[] {
  try {
    const start = `${foldCase(basename(home))}.before-`
    return readdirSync(dirname(home))
      .filter(name => foldCase(name).startsWith(start))
      .map(name => join(dirname(home), name))
  } catch {
    return []
  }
}
