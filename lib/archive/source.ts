/*
 * What becomes an entry of a zip: its name, its mode, and whether deflating it is worth the time.
 */
import { fstatSync } from 'node:fs'
import { extname } from 'node:path'
import { placeOfDescriptor } from '../base/descriptors.js'
import { Refusal } from '../base/refusal.js'

/** What is to become an entry. */
export interface ZipSource {
  /** In the archive: relative, `/` between segments, none at the end. */
  path: string
  kind: 'file' | 'directory' | 'symlink'
  /** A file: its absolute path, or its bytes. A symbolic link: where it points. Unused for a directory. */
  source: string | Uint8Array
  /** Of a file: what stat said, or the length of its bytes. */
  bytes: number
  /** Permission bits. */
  mode: number
  mtimeMs: number
  /** The file is appended to meanwhile: its first `bytes` are meant. */
  isGrowing?: boolean
  /**
   * Another user may exchange the file, or a directory above it, for something else: only a regular file that proves to
   * lie at `source`, a path without links, is read.
   */
  mayBeExchanged?: boolean
  /** Told what was read, piece by piece, in order; the pieces are valid only then. */
  onRead?: (piece: Uint8Array) => void
}

/** The last entry of a zip, which tells of all others: asked for its bytes when those have been read. */
export interface LastSource {
  path: string
  mode: number
  mtimeMs: number
  contents(): Uint8Array
}

/** Types whose bytes are compressed already: deflating them again costs time and gains nothing. */
const compressedTypes = new Set(
  ('7z aac apk avi avif br bz2 docx epub flac gif gz heic heif jar jpeg jpg jxl lz4 lzma m4a m4v mkv mov mp3 mp4 ' +
    'mpeg mpg odt ogg ogv opus png pptx rar tbz2 tgz txz war webm webp wma wmv woff woff2 xlsx xz zip zst').split(' ')
)
/** Text shorter than this gets about ten bytes smaller, and deflating it takes longer than reading it. */
const minDeflateBytes = 96
const maxNameBytes = 0xffff

const typeBits = { file: 0o100000, directory: 0o040000, symlink: 0o120000 }
const permissionBits = 0o777

/** Refuses (`invalid`, `name_not_packable`) a name in which two readers would find two paths, or one outside. */
export function checkSourceName({ path }: ZipSource): void {
  const why = complaintAbout(path)
  if (why === '') return
  throw new Refusal('invalid', 'name_not_packable', `"${path.slice(0, 200)}" cannot be packed: ${why}`, { field: path })
}

function complaintAbout(path: string): string {
  if (path.includes('\\')) return 'its name has a backslash, which other systems take for a separator'
  if (path.includes('\ufffd')) return 'its name is not valid UTF-8'
  const isInside = path !== '' && !/^\/|^[a-z]:|\0|\/$/i.test(path) && !path.split('/').includes('..')
  if (!isInside) return 'it is no path within an archive'
  return Buffer.byteLength(path) < maxNameBytes ? '' : 'its path is too long'
}

/** Type and permission bits, as Unix has them. */
export function unixMode({ kind, mode }: ZipSource): number {
  return typeBits[kind] | (kind === 'symlink' ? permissionBits : mode & permissionBits)
}

/** Whether deflating may make it smaller. */
export function isWorthDeflating({ path, kind, bytes }: ZipSource): boolean {
  return kind === 'file' && bytes > minDeflateBytes && !compressedTypes.has(extname(path).slice(1).toLowerCase())
}

/** Refuses (`unavailable`, `file_changed`). */
export function sourceChanged(path: string): Refusal {
  return say(path, 'file_changed', 'it changed while it was packed; try again when nothing writes to it')
}

/** Refuses what was opened if it is not the file that was meant; to be called before the first read. */
export function checkOpened(fd: number, { path, source, mayBeExchanged }: Pick<ZipSource, 'path' | 'source' | 'mayBeExchanged'>): void {
  if (!mayBeExchanged) return
  const place = placeOfDescriptor(fd)
  if ((place !== null && place !== source) || !fstatSync(fd).isFile()) throw sourceChanged(path)
}

/** What to throw for what happened while a source was read: `file_vanished`, `file_changed`, `file_unreadable`. */
export function sourceUnreadable(path: string, error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException
  if (error instanceof Refusal) return error
  if (code === 'ENOENT' || code === 'ENOTDIR') return say(path, 'file_vanished', 'it vanished while it was packed')
  if (code === 'EISDIR') return sourceChanged(path)
  return say(path, 'file_unreadable', code === 'EACCES' || code === 'EPERM' ? 'this user may not read it' : message)
}

function say(path: string, code: string, why: string): Refusal {
  return new Refusal('unavailable', code, `"${path}" could not be packed: ${why}`, { field: path })
}
