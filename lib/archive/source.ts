/* A source that becomes an entry of a zip: its name, its mode, and whether deflating it is worth the time. */
import { fstatSync, type Stats } from 'node:fs'
import { extname } from 'node:path'
import { placeOfDescriptor } from '../base/descriptors.js'
import { Refusal } from '../base/refusal.js'
import { compressedTypes } from '../shared/compressed-types.js'
import { hasCode, reasonOf } from '../base/system-error.js'

/** A source of an entry. */
export interface ZipSource {
  /** Path in the archive: relative, `/` between segments, no trailing slash. */
  path: string
  kind: 'file' | 'directory' | 'symlink'
  /** For a file: its absolute path, or its bytes. For a symbolic link: its text. Unused for a directory. */
  source: string | Uint8Array
  /** Size of a file in bytes: the size from stat, or the length of its bytes. */
  bytes: number
  /** Permission bits. */
  mode: number
  mtimeMs: number
  /** The file may be appended to in the meantime; only its first `bytes` are packed. */
  isGrowing?: boolean
  /**
   * Another user may exchange the file, or a directory above it. It is then read only if it is a regular file that
   * really is at `source`, a path without links.
   */
  mayBeExchanged?: boolean
  /** Called with the bytes that were read, piece by piece, in order. A piece is valid only during the call. */
  onRead?: (piece: Uint8Array) => void
}

/** The last entry of a zip, which describes all others. Its bytes are requested after the others have been read. */
export interface LastSource {
  path: string
  mode: number
  mtimeMs: number
  contents(): Uint8Array
}

/** Shorter text gets only about ten bytes smaller, and deflating it takes longer than reading it. */
const minDeflateBytes = 96
const maxNameBytes = 0xffff

const typeBits = { file: 0o100000, directory: 0o040000, symlink: 0o120000 }
const permissionBits = 0o777

/**
 * Refuses (`invalid`, `name_not_packable`) a name that two readers would interpret differently, or that leads outside.
 */
export function checkSourceName({ path }: ZipSource): void {
  const why = complaintAbout(path)
  if (why === '') return
  throw new Refusal('invalid', 'name_not_packable', `Cannot pack "${path.slice(0, 200)}": ${why}`, { field: path })
}

function complaintAbout(path: string): string {
  if (path.includes('\\')) return 'its name contains a backslash, which is a separator on other systems'
  if (path.includes('\ufffd')) return 'its name is not valid UTF-8'
  const isInside = path !== '' && !/^\/|^[a-z]:|\0|\/$/i.test(path) && !path.split('/').includes('..')
  if (!isInside) return 'it is not a path within an archive'
  return Buffer.byteLength(path) < maxNameBytes ? '' : 'its path is too long'
}

/** Returns type and permission bits as in Unix. */
export function unixMode({ kind, mode }: ZipSource): number {
  return typeBits[kind] | (kind === 'symlink' ? permissionBits : mode & permissionBits)
}

/** Whether deflating the source may make it smaller. */
export function isWorthDeflating({ path, kind, bytes }: ZipSource): boolean {
  return kind === 'file' && bytes > minDeflateBytes && !compressedTypes.has(extname(path).slice(1).toLowerCase())
}

/** Returns the refusal (`unavailable`, `file_changed`) of a file that changed. */
export function sourceChanged(path: string): Refusal {
  return cannotPack(path, 'file_changed', 'it changed while it was packed. Try again when nothing writes to it')
}

/**
 * Refuses an opened file that is not the expected one. Must be called before the first read. The returned function must
 * be called after the last read: it refuses a file that was written in the meantime, even if its size is the same. What
 * was read may then be a mixture that the file never contained.
 */
export function watchOpened(fd: number, { path, source, mayBeExchanged, isGrowing }: ZipSource): () => void {
  const before = fstatSync(fd)
  if (mayBeExchanged) {
    const place = placeOfDescriptor(fd)
    if ((place !== null && place !== source) || !before.isFile()) throw sourceChanged(path)
  }
  return () => {
    if (isGrowing) return
    if (wasWritten(before, fstatSync(fd))) throw sourceChanged(path)
  }
}

/** Whether a file was written, even if its time of writing was set back. A link or a new mode changes `ctime`, too. */
function wasWritten(before: Stats, after: Stats): boolean {
  const isTouched = (['nlink', 'mode', 'uid', 'gid'] as const).some(name => before[name] !== after[name])
  return after.mtimeMs !== before.mtimeMs || (after.ctimeMs !== before.ctimeMs && !isTouched)
}

/** Returns the error to throw for a failed read of a source: `file_vanished`, `file_changed`, `file_unreadable`. */
export function sourceUnreadable(path: string, error: unknown): unknown {
  if (error instanceof Refusal) return error
  if (hasCode(error, 'ENOENT', 'ENOTDIR'))
    return cannotPack(path, 'file_vanished', 'it was removed while it was packed')
  if (hasCode(error, 'EISDIR')) return sourceChanged(path)
  return cannotPack(path, 'file_unreadable', reasonOf(error))
}

function cannotPack(path: string, code: string, why: string): Refusal {
  return new Refusal('unavailable', code, `Cannot pack "${path}": ${why}`, { field: path })
}
