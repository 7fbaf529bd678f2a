/*
 * Opens kept archives. One that shares contents with others is an index and packs (pack-index.ts), and is presented as the
 * whole zip that it stands for: `file` has its bytes, of which only headers and directory are made here. They depend on
 * nothing but index and packs, so the whole zip has the same bytes, length and SHA-256 each time and in each time zone.
 *
 * An index is believed only if the directory that follows from it and from its packs has the digest that it states. So a
 * pack that was exchanged or damaged in what describes its entries is refused here. Contents are checked where they are
 * read, as those of every archive.
 */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { hasCode } from '../../base/errors.js'
import { OpenFile, type ReadableFile } from '../../base/files.js'
import { fileType, linkType, packedMode } from '../../base/shared/tree-text.js'
import {
  defaultZip64FromBytes,
  directoryHeaderBytes,
  directoryOf,
  endOf,
  localBytes,
  localHeader,
  localHeaderBytes,
  newRecord,
  signatures,
  type ZipRecord
} from '../../base/shared/zip-records.js'
import { type ArchiveTree, treeOfArchive } from './archive-tree.js'
import { extractedTooLarge, refuse, tooManyEntries } from './names.js'
import { damagedIndex, damagedPack, type PackIndex, readIndex, readNumbers } from './pack-index.js'
import type { Archive, ArchiveEntry, ArchiveLimits, Pack } from './read.js'

/** The endings of the files that may be beside a kept archive, or in its place. */
export type PackEnding = 'index' | 'pack'

/** Returns the path of a file beside that of an archive, `<id>.zip`. */
export function besideArchive(archivePath: string, ending: PackEnding): string {
  return archivePath.replace(/\.zip$/, `.${ending}`)
}

/** Returns the files of a kept archive: the zip or its index; null if there is neither. */
export async function findKept(archivePath: string): Promise<{ path: string; isShared: boolean } | null> {
  for (const [path, isShared] of [
    [archivePath, false] as const,
    [besideArchive(archivePath, 'index'), true] as const
  ]) {
    const found = await stat(path).catch(() => null)
    if (found !== null) return { path, isShared }
  }
  return null
}

/** The open files of a kept archive: one zip, or an index and its packs. */
export type KeptFiles =
  | { kind: 'zip'; file: OpenFile }
  | { kind: 'pack'; file: OpenFile }
  | { kind: 'shared'; name: string; index: PackIndex; packs: OpenFile[] }

/** Any archive: its limits were checked when it was made. */
export const anyArchive: ArchiveLimits = { maxEntries: Infinity, maxExtractedBytes: Infinity, mayBeEmpty: true }

/**
 * Opens the kept archive at `path`, or a pack. Refuses what `openArchive` refuses, and (`invalid`) damaged_index, damaged_pack,
 * index_too_new. Throws ENOENT if there is neither a zip nor an index.
 */
export async function openKept(path: string, limits: ArchiveLimits): Promise<Archive> {
  return openKeptFiles(openFilesOf(path), limits)
}

/** Returns the tree of the archive at `path`. Refuses what `openKept` and `treeOfArchive` refuse. */
export async function treeOfKept(path: string, limits: ArchiveLimits, signal: AbortSignal): Promise<ArchiveTree> {
  const archive = await openKept(path, limits)
  try {
    return await treeOfArchive(archive, signal)
  } finally {
    archive.close()
  }
}

/** Opens the files of the kept archive at `path`. Throws like `openKept`. */
function openFilesOf(path: string): KeptFiles {
  const opened: OpenFile[] = []
  try {
    const index = openEach(path, each => void opened.push(new OpenFile(each)))
    const [file, ...packs] = opened as [OpenFile, ...OpenFile[]]
    if (index === null) return { kind: path.endsWith('.pack') ? 'pack' : 'zip', file }
    file.close()
    return { kind: 'shared', name: basename(besideArchive(path, 'index')), index, packs }
  } catch (error) {
    for (const file of opened) file.close()
    throw error
  }
}

/**
 * Calls `open` with the path of the zip of a kept archive, or with that of its index and then of each pack, and returns
 * the index. If `open` throws ENOENT, it is called with the next place where the file may be. Throws like `openKept`.
 */
export function openEach(path: string, open: (path: string) => void): PackIndex | null {
  try {
    open(path)
    return null
  } catch (missing) {
    if (!hasCode(missing, 'ENOENT')) throw missing
    const indexPath = besideArchive(path, 'index')
    if (indexPath === path || !existsSync(indexPath)) throw missing
    open(indexPath)
    const index = readIndex(readFileSync(indexPath), basename(indexPath))
    for (const pack of index.packs) openPackFile(path, pack, open)
    return index
  }
}

/** An archive that is not kept yet lies in another directory than the packs. */
function openPackFile(archivePath: string, name: string, open: (path: string) => void): void {
  const directory = dirname(archivePath)
  const own = besideArchive(archivePath, 'pack')
  const kept = join(dirname(directory), 'deployments')
  // Retention renames a whole archive that others need, so the second name is tried again.
  const endings = ['pack', 'zip', 'pack']
  const places =
    name === '' ? [own] : [directory, kept].flatMap(each => endings.map(end => join(each, `${name}.${end}`)))
  for (const place of places) {
    try {
      return open(place)
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error
    }
  }
  throw damagedPack(name === '' ? basename(own) : `${name}.pack`, 'it is missing')
}

/** Reads an archive of open files, which it owns from then on. Refuses like `openKept`. */
export async function openKeptFiles(files: KeptFiles, limits: ArchiveLimits): Promise<Archive> {
  if (files.kind === 'zip') return (await import('./read.js')).openArchive(files.file, limits)
  if (files.kind === 'pack') return archiveOfPack(files.file)
  const { name, index } = files
  const packs: Pack[] = []
  try {
    checkLimits(index, limits)
    for (const [at, file] of files.packs.entries()) packs.push(await openPack(file, index.packs[at] as string))
    const set = createPackSet(index, packs, { limits, name })
    if ((await set.directorySha256()) !== index.directorySha256)
      throw damagedIndex(name, 'its packs are not those that it was made with')
    return set.archive
  } catch (error) {
    for (const file of files.packs) file.close()
    throw error
  }
}

async function archiveOfPack(file: OpenFile): Promise<Archive> {
  try {
    const { entries } = await openPack(file, '')
    return { entries, totalBytes: 0, file, fileSize: file.size, close: () => file.close() }
  } catch (error) {
    file.close()
    throw error
  }
}

function checkLimits({ runs }: PackIndex, { maxEntries }: ArchiveLimits): void {
  let count = 0
  for (let at = 2; at < runs.length; at += 3) count += runs[at] as number
  if (count > maxEntries) throw tooManyEntries(count, maxEntries)
}

/** Reads the directory of a pack, whose file it does not close. Refuses (`invalid`) damaged_pack. */
export async function openPack(file: ReadableFile, name: string): Promise<Pack> {
  const numbered = readNumbers(file, name)
  const zipBytes = numbered?.zipBytes ?? file.size
  // Reading a directory closes the file when it fails, and the file has another owner.
  const zip: ReadableFile = {
    size: zipBytes,
    readSync: (into, position) => file.readSync(into.subarray(0, Math.max(0, zipBytes - position)), position),
    read: (into, position) => file.read(into.subarray(0, Math.max(0, zipBytes - position)), position),
    close: () => {}
  }
  const { openArchive } = await import('./read.js')
  let archive: Archive
  try {
    archive = await openArchive(zip, anyArchive)
  } catch (error) {
    throw damagedPack(name, error instanceof Error ? error.message : String(error), error)
  }
  const { entries } = archive
  if (numbered === null) return { name, file, entries, entryOf: ordinal => entries[ordinal], numberAt: at => at }
  const { numbers } = numbered
  if (numbers.length !== entries.length) throw damagedPack(name, 'its trailer names other entries')
  const byNumber = new Map(numbers.map((number, at) => [number, entries[at] as ArchiveEntry]))
  return { name, file, entries, entryOf: ordinal => byNumber.get(ordinal), numberAt: at => numbers[at] as number }
}

const typeBits = 0o170000
const directoryType = 0o040000
const permissionBits = 0o777
const maxSeconds = 2 ** 31 - 1

/** Returns the whole seconds of a time that a zip can contain. */
export function secondsOf(mtimeMs: number | null): number {
  return Math.max(-maxSeconds - 1, Math.min(maxSeconds, Math.floor((mtimeMs ?? 0) / 1000)))
}

function kindOf(mode: number): ArchiveEntry['kind'] {
  const type = mode & typeBits
  return type === directoryType ? 'directory' : type === linkType ? 'symlink' : 'file'
}

/** Number of entries whose headers are made at a time. */
const entriesInTurn = 1_000

/** The part of an index that says what the entries are. */
export type PackEntries = Pick<PackIndex, 'runs' | 'paths' | 'modes' | 'times'>

/** Presents entries of packs as one zip. Closing it closes the packs. */
function createPackSet(
  index: PackEntries,
  packs: readonly Pack[],
  { limits = anyArchive, name }: { limits?: ArchiveLimits; name: string }
) {
  const entries: ArchiveEntry[] = []
  const [packOf, ordinalOf]: [number[], number[]] = [[], []]
  let [totalBytes, directoryBytes] = [0, 0]
  for (const { entry, pack, ordinal, directoryHeader } of placedEntries(index, packs, name)) {
    entries.push(entry)
    packOf.push(pack)
    ordinalOf.push(ordinal)
    totalBytes += entry.size
    directoryBytes += directoryHeader
  }
  if (totalBytes > limits.maxExtractedBytes) throw extractedTooLarge(limits.maxExtractedBytes)
  const directoryAt = entries.at(-1)?.limitOffset ?? 0
  const end = endOf({ entries: entries.length, offset: directoryAt, bytes: directoryBytes })
  const fileSize = directoryAt + directoryBytes + end.length

  const readers = packs.map(createPackReader)
  const file = createWholeFile({
    size: fileSize,
    entries,
    directoryAt,
    directory: () => directoryPieces(entries),
    readPacked: (at, from, into) => {
      const pack = packOf[at] as number
      const entry = (packs[pack] as Pack).entryOf(ordinalOf[at] as number) as ArchiveEntry
      ;(readers[pack] as PackReader).read(entry, from, into)
    },
    close: () => packs.forEach(({ file }) => file.close())
  })
  const archive: Archive = {
    entries,
    totalBytes,
    file,
    fileSize,
    packs: { packs, placeOf: at => ({ pack: packOf[at] as number, ordinal: ordinalOf[at] as number }) },
    close: () => file.close()
  }
  return {
    archive,
    async directorySha256(): Promise<string> {
      const hash = createHash('sha256')
      for (const piece of directoryPieces(entries)) {
        hash.update(piece)
        await nextTurn()
      }
      return hash.digest('hex')
    }
  }
}

/** Yields the directory of entries, and its end. */
export function* directoryPieces(entries: Iterable<ArchiveEntry>): Generator<Uint8Array> {
  let [count, offset, bytes] = [0, 0, 0]
  let records: ZipRecord[] = []
  const takeRecords = (): Uint8Array => {
    const length = records.reduce((sum, record) => sum + directoryHeaderBytes(record), 0)
    const piece = directoryOf(records, 0).subarray(0, length)
    bytes += length
    records = []
    return piece
  }
  for (const entry of entries) {
    count++
    offset = entry.limitOffset
    if (records.push(recordOf(entry)) === entriesInTurn) yield takeRecords()
  }
  yield takeRecords()
  yield endOf({ entries: count, offset, bytes })
}

/** An entry of an index, as it is in the zip. */
export interface PlacedEntry {
  entry: ArchiveEntry
  /** Where its contents are. */
  pack: number
  ordinal: number
  /** The length of its header in the directory. */
  directoryHeader: number
}

/** Yields the entries that an index names. Refuses what it cannot mean. */
export function* placedEntries(index: PackEntries, packs: readonly Pack[], name: string): Generator<PlacedEntry> {
  const { runs } = index
  const paths = new Map(index.paths)
  const modes = new Map(index.modes)
  const times = timesOf(index)
  let [position, offset] = [0, 0]
  for (let at = 0; at < runs.length; at += 3) {
    const [pack, first, count] = runs.slice(at, at + 3) as [number, number, number]
    const from = packs[pack]
    if (from === undefined) throw damagedIndex(name, 'it names a pack that it does not list')
    for (let ordinal = first; ordinal < first + count; ordinal++) {
      const found = from.entryOf(ordinal)
      if (found === undefined) throw damagedPack(from.name, `it lacks the entry ${ordinal}`)
      const mode = modes.get(position) ?? packedMode(found)
      const seconds = times.get(position) ?? secondsOf(found.mtimeMs)
      const path = paths.get(position) ?? found.path
      const kind = kindOf(mode)
      // Only its lengths are needed: the record itself (`recordOf`) holds a copy of the name.
      const nameOf = { length: Buffer.byteLength(path) + (kind === 'directory' ? 1 : 0) }
      const isFar = offset >= defaultZip64FromBytes
      const header = { name: nameOf, needsZip64: found.size >= defaultZip64FromBytes, isFar }
      const limitOffset = offset + localHeaderBytes(header) + found.compressedSize
      const entry: ArchiveEntry = {
        path,
        kind,
        size: found.size,
        compressedSize: found.compressedSize,
        method: found.method,
        crc32: found.crc32,
        mode: (mode & permissionBits) === 0 ? null : mode & permissionBits,
        mtimeMs: seconds * 1000,
        headerOffset: offset,
        limitOffset
      }
      yield { entry, pack, ordinal, directoryHeader: directoryHeaderBytes(header) }
      offset = limitOffset
      position++
    }
  }
}

function timesOf({ times }: PackEntries): Map<number, number> {
  const found = new Map<number, number>()
  let [position, seconds] = [0, 0]
  for (let at = 0; at < times.length; at += 2) {
    position += times[at] as number
    seconds += times[at + 1] as number
    found.set(position, seconds)
  }
  return found
}

export function recordOf(entry: ArchiveEntry): ZipRecord {
  const { path, kind, mtimeMs, size, headerOffset } = entry
  const name = Buffer.from(kind === 'directory' ? `${path}/` : path)
  // The mode of an entry without permissions is the type alone.
  const mode = entry.mode === null ? typeOf[kind] : packedMode(entry)
  const given = { name, mtimeMs: mtimeMs ?? 0, attributes: mode * 0x10000, bytes: size, offset: headerOffset }
  const record = newRecord(given, defaultZip64FromBytes)
  record.method = entry.method
  record.crc = entry.crc32 >>> 0
  record.packedBytes = entry.compressedSize
  record.isUtc = true
  return record
}

const typeOf = { directory: directoryType, file: fileType, symlink: linkType }

/** Number of bytes of a pack that are read at once. measured: bench/second-push */
const blockBytes = 256 * 1024

export type PackReader = ReturnType<typeof createPackReader>

/** Reads packed bytes of a pack. Neighbouring entries come from one read. */
export function createPackReader({ file, name }: Pack) {
  let block: Buffer | null = null
  let start = 0
  let length = 0

  function read(position: number, into: Uint8Array): void {
    if (into.length > blockBytes) {
      if (file.readSync(into, position) < into.length) throw damagedPack(name, 'it is cut off')
      return
    }
    block ??= Buffer.allocUnsafeSlow(blockBytes)
    if (position < start || position + into.length > start + length) {
      start = position
      length = file.readSync(block, position)
      if (length < into.length) throw damagedPack(name, 'it is cut off')
    }
    into.set(block.subarray(position - start, position - start + into.length))
  }

  const header = Buffer.alloc(localBytes)
  return {
    /** Fills `into` with the packed bytes of an entry from `from` on. Refuses damaged_zip, overlapping_entries. */
    read(entry: ArchiveEntry, from: number, into: Uint8Array): void {
      read(entry.headerOffset, header)
      if (header.readUInt32LE(0) !== signatures.local)
        throw refuse('damaged_zip', entry.path, `its local header is missing in the pack "${name}"`)
      const at = entry.headerOffset + localBytes + header.readUInt16LE(26) + header.readUInt16LE(28)
      if (at + entry.compressedSize > entry.limitOffset)
        throw refuse('overlapping_entries', entry.path, 'its bytes overlap those of the next entry')
      read(at + from, into)
    }
  }
}

interface WholeFile {
  size: number
  entries: readonly ArchiveEntry[]
  directoryAt: number
  directory(): Iterator<Uint8Array>
  /** Fills `into` with the packed bytes of the entry at a position, from an offset on. */
  readPacked(at: number, from: number, into: Uint8Array): void
  close(): void
}

/** Presents the bytes of a zip. */
function createWholeFile({ size, entries, directoryAt, directory, readPacked, close }: WholeFile): ReadableFile {
  let last = { at: -1, header: new Uint8Array() }
  let isClosed = false

  function headerOf(at: number): Uint8Array {
    if (last.at !== at) last = { at, header: localHeader(recordOf(entries[at] as ArchiveEntry)) }
    return last.header
  }

  function entryAt(position: number): number {
    let [low, high] = [0, entries.length - 1]
    while (low < high) {
      const middle = (low + high + 1) >>> 1
      if ((entries[middle] as ArchiveEntry).headerOffset <= position) low = middle
      else high = middle - 1
    }
    return low
  }

  function readSync(into: Uint8Array, position: number): number {
    if (isClosed)
      throw Object.assign(new Error('EBADF: the archive was closed, read'), { code: 'EBADF', syscall: 'read' })
    const length = Math.max(0, Math.min(into.length, size - position))
    let done = 0
    for (let at = entryAt(position); done < length && position + done < directoryAt; at++) {
      const { headerOffset, limitOffset } = entries[at] as ArchiveEntry
      const header = headerOf(at)
      const inHeader = position + done - headerOffset
      if (inHeader < header.length) {
        const part = header.subarray(inHeader, inHeader + length - done)
        into.set(part, done)
        done += part.length
      }
      const dataAt = headerOffset + header.length
      const bytes = Math.min(limitOffset - (position + done), length - done)
      if (bytes > 0 && position + done >= dataAt) {
        readPacked(at, position + done - dataAt, into.subarray(done, done + bytes))
        done += bytes
      }
    }
    if (done < length) readDirectory(into.subarray(done, length), position + done - directoryAt)
    return length
  }

  /** The part of the directory that was read last, and what follows it: readers go from its beginning to its end. */
  const beginDirectory = () => ({ at: 0, bytes: new Uint8Array() as Uint8Array, next: directory() })
  let part = beginDirectory()

  function readDirectory(into: Uint8Array, position: number): void {
    if (position < part.at) part = beginDirectory()
    for (let done = 0; done < into.length; ) {
      const from = position + done - part.at
      if (from >= part.bytes.length) {
        part.at += part.bytes.length
        part.bytes = part.next.next().value as Uint8Array
        continue
      }
      const some = part.bytes.subarray(from, from + into.length - done)
      into.set(some, done)
      done += some.length
    }
  }

  return {
    size,
    readSync,
    read: async (into, position) => readSync(into, position),
    close() {
      if (!isClosed) close()
      isClosed = true
    }
  }
}

/** Yields the bytes of a file. A piece is valid until the next one. */
export async function* piecesOf(file: ReadableFile): AsyncGenerator<Buffer> {
  const piece = Buffer.allocUnsafeSlow(wholePieceBytes)
  for (let at = 0; at < file.size; ) {
    const length = await file.read(piece, at)
    if (length === 0) throw Object.assign(new Error('The archive ends too early'), { code: 'EIO' })
    at += length
    yield piece.subarray(0, length)
    await nextTurn()
  }
}

export const wholePieceBytes = 1024 * 1024

/** Writes the whole zip of a kept archive to a new file. Throws like `openKept`. */
export async function writeWhole(archivePath: string, to: string): Promise<void> {
  const archive = await openKept(archivePath, anyArchive)
  try {
    const file = await open(to, 'w', 0o600)
    try {
      for await (const piece of piecesOf(archive.file)) await file.writeFile(piece)
    } finally {
      await file.close()
    }
  } finally {
    archive.close()
  }
}
