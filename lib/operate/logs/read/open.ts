/*
 * Opens log files; no other code does. Links are resolved first, and both paths are checked against the deny list.
 * After opening, the path of the opened file is checked again, because a link may change between the check and the
 * open.
 */
import { constants } from 'node:fs'
import { open, readlink, realpath, stat, type FileHandle } from 'node:fs/promises'
import { basename, dirname, join, resolve as resolvePath } from 'node:path'
import { reasonOf, Refusal } from '../../../base/errors.js'
import { createSecrets, type Guarded } from './secrets.js'

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

/** Creates the function that opens log files. */
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
