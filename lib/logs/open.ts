/*
 * The one way to a log file. Links are resolved first, both names are held against the deny list, and the file that was
 * really opened is asked once more where it lies: a link may be turned between looking and opening.
 */
import { constants } from 'node:fs'
import { open, readlink, realpath, stat, type FileHandle } from 'node:fs/promises'
import { basename, dirname, join, resolve as resolvePath } from 'node:path'
import { Refusal } from '../base/refusal.js'
import { createSecrets } from './secrets.js'
import type { Guarded } from './secrets.js'

/** A log file, open for reading; whoever gets it closes it. */
export interface OpenedLog {
  handle: FileHandle
  /** Where links lead. */
  path: string
  size: number
  mtimeMs: number
  /** Which file it is, whatever its name. */
  identity: string
}

export interface OpenLog {
  /**
   * Refuses: 403 `denied_path`, `not_readable`; 400 `not_a_file`; 404 `file_missing`; 503 `file_unreachable`. `field`
   * is what the refusals name.
   */
  (filePath: string, field?: string): Promise<OpenedLog>
}

// Non-blocking: a FIFO would wait for its writer. The resolved path has no links left, so none is followed.
const flags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0)

/** Opens the file of a log once more, for a use of its own. Another file that has its path by now is ENOENT. */
export async function openAgain({ path, identity }: Pick<OpenedLog, 'path' | 'identity'>): Promise<FileHandle> {
  const handle = await open(path, flags)
  const isSame = await handle.stat({ bigint: true }).then(stats => identityOf(stats) === identity, () => false)
  if (isSame) return handle
  await handle.close()
  throw Object.assign(new Error(`ENOENT: another file has its place, open '${path}'`), { code: 'ENOENT' })
}

export function createOpenLog(guarded: Guarded): OpenLog {
  const secrets = createSecrets(guarded)
  return async (asked, field = 'filePath') => {
    const named = { asked, field }
    secrets.checkPath(asked, named)
    const path = await resolve(asked, place => secrets.checkPath(place, named)).catch(error => { throw explain(error, asked, field) })
    secrets.checkPath(path, named)
    const handle = await open(path, flags).catch(error => { throw explain(error, asked, field) })
    try {
      const stats = await secrets.checkOpened(handle, path, named)
      if (!stats.isFile()) throw notAFile(asked, field)
      return { handle, path, size: Number(stats.size), mtimeMs: Number(stats.mtimeMs), identity: identityOf(stats) }
    } catch (error) {
      await handle.close()
      throw error
    }
  }
}

/** Which file stands behind a name now, or null. Numbers of inodes exceed what a double holds on some file systems. */
export function identityOf({ dev, ino }: { dev: bigint; ino: bigint }): string {
  return `${dev}:${ino}`
}

/** The real path. Where the file is missing, the longest part that exists is looked at as well. */
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
  return new Refusal('invalid', 'not_a_file', `"${path}" cannot be read as a log: it is not a file`, { field })
}

function explain(error: NodeJS.ErrnoException, path: string, field: string): Error {
  const details = { field, cause: error }
  switch (error.code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return new Refusal('not_found', 'file_missing', `"${path}" does not exist`, details)
    case 'EACCES':
    case 'EPERM':
      return new Refusal('forbidden', 'not_readable', `"${path}" cannot be read: svc has no right to`, details)
    case 'ENXIO':
    case 'ENODEV':
      return notAFile(path, field)
    case 'ELOOP':
      return new Refusal('invalid', 'invalid_field', `"${path}" cannot be read: its links lead in a circle`, details)
    case 'ENAMETOOLONG':
      return new Refusal('invalid', 'invalid_field', `${field} is too long for the file system`, details)
    case 'EIO':
    case 'ESTALE':
    case 'ETIMEDOUT':
      return new Refusal('unavailable', 'file_unreachable', `"${path}" cannot be read: ${error.message}`, details)
    default:
      return error
  }
}

/** What stands behind a name now, links followed; null: nothing. */
export async function identityAt(path: string): Promise<{ identity: string; key: string; size: number } | null> {
  const stats = await stat(path, { bigint: true }).catch(() => null)
  if (stats === null) return null
  const identity = identityOf(stats)
  return { identity, key: `${identity} ${stats.size} ${Number(stats.mtimeMs)}`, size: Number(stats.size) }
}
