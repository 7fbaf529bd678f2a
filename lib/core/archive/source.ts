/* A source that becomes an entry of a zip: its name, its mode, and whether deflating it is worth the time. */
import { createHash } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readFileSync, readSync, type Stats } from 'node:fs'
import { open } from 'node:fs/promises'
import { extname } from 'node:path'
import { placeOfDescriptor } from '../../base/files.js'
import { hasCode, reasonOf, Refusal } from '../../base/errors.js'
import { plainName } from './names.js'
import { sha256 } from '../../base/digests.js'
import { packedMode } from '../../base/shared/tree-text.js'
import { compressedTypes, defaultZip64FromBytes, newRecord, type ZipRecord } from '../../base/shared/zip-records.js'

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
  /** What else a walk saw of the file: all of it changes when another file takes its place. */
  seen?: { ctimeMs: number; ino: number; dev: number }
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

/**
 * Refuses (`invalid`, `name_not_packable`) a name that two readers would interpret differently, or that leads outside.
 */
export function checkSourceName({ path }: ZipSource): void {
  const why = complaintAbout(path)
  if (why === '') return
  throw new Refusal('invalid', 'name_not_packable', `Cannot pack "${path.slice(0, 200)}": ${why}`, { field: path })
}

function complaintAbout(path: string): string {
  if (plainName.test(path)) return ''
  if (path.includes('\\')) return 'its name contains a backslash, which is a separator on other systems'
  if (path.includes('\ufffd')) return 'its name is not valid UTF-8'
  const isInside = path !== '' && !/^\/|^[a-z]:|\0|\/$/i.test(path) && !path.split('/').includes('..')
  if (!isInside) return 'it is not a path within an archive'
  return Buffer.byteLength(path) < maxNameBytes ? '' : 'its path is too long'
}

/** Whether deflating the source may make it smaller. */
export function isWorthDeflating({ path, kind, bytes }: Pick<ZipSource, 'path' | 'kind' | 'bytes'>): boolean {
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

/*
 * Reads the bytes of a source, whole or block by block. Refuses, by its name, a file that has changed since it was
 * found.
 */

/** Flags for reading. Non-blocking: opening a pipe that has replaced a file would otherwise wait for a writer. */
export const readOnly = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)

/** Returns the contents of a file. Refuses (`unavailable`): file_vanished, file_changed, file_unreadable. */
export function readWhole(entry: ZipSource): Buffer {
  const { path, source, bytes, isGrowing, onRead } = entry
  if (typeof source !== 'string') {
    onRead?.(source)
    return Buffer.from(source.buffer, source.byteOffset, source.length)
  }
  return withFile(entry, file => {
    const found = readFileSync(file)
    const whole = isGrowing ? found.subarray(0, bytes) : found
    if (whole.length !== bytes) throw sourceChanged(path)
    onRead?.(whole)
    return whole
  })
}

/**
 * Reads the contents of a source without `onRead` into `room`, which is one byte larger than the contents. Refuses like
 * `readWhole`.
 */
export function readInto(room: Uint8Array, entry: ZipSource): void {
  const { path, kind, source, bytes, isGrowing } = entry
  if (kind === 'directory') return
  if (typeof source !== 'string') return room.set(source)
  if (kind === 'symlink') return void Buffer.from(room.buffer, room.byteOffset, room.length).write(source)
  withFile(entry, file => {
    // The extra byte shows that the file has grown.
    const most = isGrowing ? bytes : bytes + 1
    // Almost always one call: if it returns less than requested, it has returned everything.
    let length = readSync(file, room, 0, most, null)
    for (let more = length; length < bytes && more > 0; length += more)
      more = readSync(file, room, length, most - length, null)
    if (length !== bytes) throw sourceChanged(path)
  })
}

/** Opens a file and calls `use`, which reads it. Refuses like `readWhole`. */
export function withFile<T>(entry: ZipSource, use: (file: number) => T): T {
  const { path, source } = entry
  let file: number | null = null
  try {
    file = openSync(source as string, readOnly)
    const endReading = watchOpened(file, entry)
    const result = use(file)
    endReading()
    return result
  } catch (error) {
    throw sourceUnreadable(path, error)
  } finally {
    if (file !== null) closeSync(file)
  }
}

/** Memory of its own, which can be transferred to a thread. */
type Block = Buffer<ArrayBuffer>

/**
 * Yields the contents block by block, each in a buffer from `buffer`, and passes them to `onRead`. Refuses like
 * `readWhole`.
 */
export async function* blocksOf(entry: ZipSource, buffer: () => Promise<Block>): AsyncGenerator<Block> {
  const { onRead } = entry
  for await (const block of typeof entry.source === 'string'
    ? blocksOfFile(entry, buffer)
    : blocksOfBytes(entry.source, buffer)) {
    onRead?.(block)
    yield block
  }
}

async function* blocksOfBytes(bytes: Uint8Array, buffer: () => Promise<Block>): AsyncGenerator<Block> {
  for (let at = 0; at < bytes.length; ) {
    const block = await buffer()
    const length = Math.min(block.length, bytes.length - at)
    block.set(bytes.subarray(at, at + length))
    at += length
    yield block.subarray(0, length)
  }
}

async function* blocksOfFile(entry: ZipSource, buffer: () => Promise<Block>): AsyncGenerator<Block> {
  const { path, source, bytes, isGrowing } = entry
  const refuse = (error: unknown): never => {
    throw sourceUnreadable(path, error)
  }
  const opened = await open(source as string, readOnly).catch(refuse)
  try {
    const endReading = watchOpened(opened.fd, entry)
    for (let at = 0; ; ) {
      const block = await buffer()
      const length = isGrowing ? Math.min(block.length, bytes - at) : block.length
      const { bytesRead } = await opened.read(block, 0, length, null).catch(refuse)
      at += bytesRead
      if (at > bytes || (bytesRead === 0 && at !== bytes)) throw sourceChanged(path)
      if (bytesRead === 0) return endReading()
      yield block.subarray(0, bytesRead)
    }
  } finally {
    await opened.close()
  }
}

/* Digests of sources, for a tree (archive-tree.ts). A thread computes them with synchronous calls. */

/** Sources for a thread to digest. */
export interface DigestTask {
  kind: 'digest'
  /** Files whose contents are on the disk, and symbolic links. */
  sources: readonly ZipSource[]
}

/** Length of a SHA-256 in bytes. */
export const digestBytes = 32
/** Number of bytes read at a time. */
const pieceBytes = 256 * 1024

/**
 * Returns the SHA-256 of each source, one after the other, in memory that can be transferred to another thread. Refuses
 * (`unavailable`): file_vanished, file_changed, file_unreadable, naming the file.
 */
export function digestSources(sources: readonly ZipSource[]): Uint8Array<ArrayBuffer> {
  const digests = new Uint8Array(new ArrayBuffer(sources.length * digestBytes))
  const piece = Buffer.allocUnsafeSlow(pieceBytes)
  for (const [at, source] of sources.entries()) digests.set(digestOf(source, piece), at * digestBytes)
  return digests
}

function digestOf(source: ZipSource, piece: Buffer): Buffer {
  if (typeof source.source !== 'string') return sha256(source.source)
  return source.kind === 'symlink' ? sha256(Buffer.from(source.source)) : digestFile(source, piece)
}

function digestFile(entry: ZipSource, piece: Buffer): Buffer {
  const { path, bytes } = entry
  return withFile(entry, fd => {
    let length = readSync(fd, piece, 0, pieceBytes, null)
    if (length === bytes && bytes < pieceBytes) return sha256(piece.subarray(0, length))
    const hash = createHash('sha256').update(piece.subarray(0, length))
    for (let more = length; more > 0 && length <= bytes; length += more) {
      more = readSync(fd, piece, 0, pieceBytes, null)
      hash.update(piece.subarray(0, more))
    }
    if (length !== bytes) throw sourceChanged(path)
    return hash.digest()
  })
}

/** An entry that is being written, with the source of its contents. */
export interface Entry extends ZipRecord {
  source: ZipSource
}

/**
 * Returns the entry of a source whose contents are not written yet. Sizes and offsets from `zip64FromBytes` on use
 * zip64.
 */
export function newEntry(source: ZipSource, offset: number, zip64FromBytes = defaultZip64FromBytes): Entry {
  const name = Buffer.from(source.kind === 'directory' ? `${source.path}/` : source.path)
  const attributes = (packedMode(source) << 16) >>> 0
  const given = { name, mtimeMs: source.mtimeMs, attributes, bytes: bytesOf(source), offset }
  return Object.assign(newRecord(given, zip64FromBytes), { source })
}

function bytesOf(source: ZipSource): number {
  if (source.kind === 'symlink') return Buffer.byteLength(source.source)
  return source.kind === 'directory' ? 0 : source.bytes
}
