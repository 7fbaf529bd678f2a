/*
 * Reads the directory of a zip, and checks it as a whole before anything is done with the zip.
 *
 * yauzl parses the structures (APPNOTE 4.3.12 to 4.3.16: end record, ZIP64 records, central directory, extra fields).
 * The central directory is authoritative, as the format says, and local headers only locate data (entry-data.ts). yauzl
 * gets a custom reader that answers at once from a window of the file: its own reader reads every header with two
 * asynchronous calls, which costs 100 us per entry; this one costs 4 us. All of this is synchronous, with a pause now
 * and then; for a deployment it runs in a worker thread.
 *
 * Checked here, naming the entry: the name (names.ts), encryption, compression method, sizes against each other and
 * against the file, kinds that a deployment cannot contain, the number of entries, the declared uncompressed size, and
 * that no two entries share bytes. Shared bytes are the principle of a "better zip bomb": overlapping entries inflate
 * the same kilobytes again and again, each within its own limits.
 *
 * Differences from other programs
 *   - bytes before the first entry (self-extracting zips) are accepted only if the offsets include them;
 *   - names without the UTF-8 flag are CP437, as the format says, and a valid Info-ZIP Unicode Path field has priority.
 *     But a name written on UNIX that is valid UTF-8 is read as UTF-8: `zip` writes the bytes of the file system
 *     with neither flag nor field, and `unzip` reads them unchanged;
 *   - a comment that contains an end record, and bytes after the end record, are refused: svc does not guess.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
// Not `import * as yauzl`: Node would search it for export names, in every process and thread, which takes longer than all else.
import yauzl = require('yauzl')
import { OpenFile, type ReadableFile } from '../../base/files.js'
import { Refusal } from '../../base/errors.js'
import { localBytes, signatures } from '../../base/shared/zip-records.js'
import { extractedTooLarge, quoteName, readName, refuse, tooLarge, tooManyEntries } from './names.js'

/** An entry of an archive, checked. */
export interface ArchiveEntry {
  /** Relative path with `/` between segments, without `.` and empty segments, without trailing slash (names.ts). */
  path: string
  kind: 'file' | 'directory' | 'symlink'
  /** Declared uncompressed size in bytes. */
  size: number
  compressedSize: number
  /** 0 stored or 8 deflated; other methods are refused. */
  method: number
  /** Signed: a larger number would take memory of its own, for each of 200,000 entries. */
  crc32: number
  /** Permission bits (0o777), or null if the archive does not contain them. Never setuid, setgid or sticky. */
  mode: number | null
  /** Milliseconds since 1970, or null if the archive has no time. */
  mtimeMs: number | null
  /** Offset of the local header. */
  headerOffset: number
  /** Offset at which its bytes must end: the next local header, or the central directory. */
  limitOffset: number
  /** Present if a data descriptor follows its bytes. */
  isStreamed?: true
}

/** An open archive. */
export interface Archive {
  /** Sorted by the position of their bytes in the file. */
  readonly entries: readonly ArchiveEntry[]
  /** Sum of the declared sizes. */
  readonly totalBytes: number
  /** Closed only by `close`. */
  readonly file: ReadableFile
  readonly fileSize: number
  /** Where its entries are, if it is presented from several files (pack-set.ts). */
  readonly packs?: PackedEntries
  close(): void
}

/** The files that contain the entries of an archive. */
export interface PackedEntries {
  readonly packs: readonly Pack[]
  /** Returns the number of the pack that contains an entry, and the number of the entry in it. */
  placeOf(at: number): { pack: number; ordinal: number }
}

/** A file with entries of several archives. */
export interface Pack {
  /** The deployment that it is named after. */
  name: string
  file: ReadableFile
  entries: readonly ArchiveEntry[]
  /** Returns the entry with a number; undefined: the pack does not contain it. */
  entryOf(ordinal: number): ArchiveEntry | undefined
  /** Returns the number of the entry at a position of `entries`. */
  numberAt(at: number): number
}

export interface ArchiveLimits {
  /** Maximum number of entries, including directories. */
  maxEntries: number
  /** Maximum sum of the uncompressed sizes of all entries. */
  maxExtractedBytes: number
  /** Whether an archive without entries is valid; default: false. */
  mayBeEmpty?: boolean
}

/**
 * Maximum size of all names together with their extra fields, which are held in memory: 200,000 of 160 bytes. Also
 * limited per entry to the size of the longest name, because 64 KiB can contain 16,000 extra fields that have to be
 * searched. measured: bench/hostile
 */
const maxNameBytes = 32 * 1024 * 1024
const maxNameBytesOfEach = 4 * 1024
/** Window of the central directory in memory; about 2,000 entries. */
const windowBytes = 256 * 1024
/**
 * Number of entries that are read without a pause, about 10 ms: packages are opened in the thread that answers
 * requests.
 */
const entriesInTurn = 2_000

const encryptedFlags = 0x2041 // bit 0 encrypted, bit 6 strong encryption, bit 13 masked headers
const utf8Flag = 0x800 // bit 11
const descriptorFlag = 0x8 // bit 3
const unixHosts = new Set([3, 19]) // "version made by", APPNOTE 4.4.2.2: UNIX, OS X (Darwin)
const typeMask = 0o170000
const typeOf = { directory: 0o040000, file: 0o100000, symlink: 0o120000 }

/**
 * Opens a zip, or reads an open one, which it owns from then on. Checks its directory. Refuses (`invalid`): not_a_zip,
 * truncated_zip, empty_zip, damaged_zip, multi_disk_zip, encrypted_entry, unsupported_method, unsupported_entry,
 * size_mismatch, overlapping_entries, and what names.ts refuses; (`too_large`): too_many_entries, names_too_large,
 * extracted_too_large.
 */
export async function openArchive(path: string | ReadableFile, limits: ArchiveLimits): Promise<Archive> {
  const file = typeof path === 'string' ? new OpenFile(path) : path
  try {
    const fileSize = file.size
    const zip = await openZip(file, fileSize)
    const central = zip.readEntryCursor as unknown as number
    const entries = await readEntries(zip, limits, file)
    const totalBytes = checkExtent(entries, central, limits)
    return { entries, totalBytes, file, fileSize, close: () => file.close() }
  } catch (error) {
    file.close()
    throw error
  }
}

async function openZip(file: ReadableFile, fileSize: number): Promise<yauzl.ZipFile> {
  if (fileSize === 0) throw broken('not_a_zip', 'it is empty (0 bytes)')
  try {
    return await yauzl.fromRandomAccessReaderPromise(new WindowReader(file), fileSize, {
      autoClose: false,
      decodeStrings: false,
      validateEntrySizes: false
    })
  } catch (error) {
    throw explain(error as Error, file)
  }
}

/** Answers yauzl's reads at once, from a window of the file. */
class WindowReader extends yauzl.RandomAccessReader {
  readonly #file: ReadableFile
  readonly #window = Buffer.allocUnsafeSlow(windowBytes)
  #start = 0
  #length = 0

  constructor(file: ReadableFile) {
    super()
    this.#file = file
  }

  // biome-ignore lint/complexity/useMaxParams: yauzl calls it with these
  override read(
    into: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | null, bytesRead?: number) => void
  ): void {
    let bytesRead = 0
    try {
      if (Number.isSafeInteger(position) && length > windowBytes) {
        bytesRead = this.#file.readSync(into.subarray(offset, offset + length), position)
      } else if (Number.isSafeInteger(position)) {
        const from = this.#show(position, length)
        bytesRead = this.#window.copy(into, offset, from, Math.min(from + length, this.#length))
      }
    } catch (error) {
      callback(error as Error)
      return
    }
    callback(null, bytesRead)
  }

  /** Moves the window if it does not contain these bytes. Returns their offset in it. */
  #show(position: number, length: number): number {
    if (position < this.#start || position + length > this.#start + this.#length) {
      this.#start = position
      this.#length = this.#file.readSync(this.#window, position)
    }
    return position - this.#start
  }
}

async function readEntries(zip: yauzl.ZipFile, limits: ArchiveLimits, file: ReadableFile): Promise<ArchiveEntry[]> {
  if (zip.entryCount === 0 && limits.mayBeEmpty) return []
  if (zip.entryCount === 0) throw broken('empty_zip', 'it contains no entries')
  if (zip.entryCount > limits.maxEntries) throw tooManyEntries(zip.entryCount, limits.maxEntries)
  const entries: ArchiveEntry[] = []
  let nameBytes = 0
  let raw = undefined as yauzl.Entry | undefined
  let failure: Error | undefined
  zip.on('entry', entry => {
    raw = entry
  })
  zip.on('error', error => {
    failure = error
  })
  for (let index = 0; index < zip.entryCount; index++) {
    if (index % entriesInTurn === entriesInTurn - 1) await nextTurn()
    raw = undefined
    zip.readEntry()
    if (failure !== undefined) throw explain(failure, file, index)
    if (raw === undefined) throw broken('empty_name', `entry ${index + 1} has no name`)
    const found: yauzl.Entry = raw
    nameBytes += found.fileNameLength + found.extraFieldLength
    const maxBytes = Math.min(maxNameBytes, (index + 1) * maxNameBytesOfEach + 1024 * 1024)
    if (nameBytes > maxBytes) {
      throw tooLarge('names_too_large', `the names and extra fields of its entries take more than ${maxBytes} bytes`)
    }
    const entry = readEntry(found)
    if (entry !== null) entries.push(entry)
  }
  if (signatureAt(file, zip.readEntryCursor as unknown as number) === signatures.central) {
    throw broken('damaged_zip', `it contains more entries than the ${zip.entryCount} that it declares`)
  }
  if (entries.length === 0) throw broken('empty_zip', 'it contains no entries')
  return entries
}

/**
 * Returns an entry of the central directory (APPNOTE 4.3.12), checked by itself. Returns null for the target directory.
 */
function readEntry(raw: yauzl.Entry): ArchiveEntry | null {
  const isUnix = unixHosts.has(raw.versionMadeBy >>> 8)
  const flags = isUnix && isUtf8(raw.fileNameRaw) ? raw.generalPurposeBitFlag | utf8Flag : raw.generalPurposeBitFlag
  const name = yauzl.getFileNameLowLevel(flags, raw.fileNameRaw, raw.extraFields, true)
  const path = readName(name, { windows: process.platform === 'win32' })
  const unixMode = isUnix ? raw.externalFileAttributes >>> 16 : 0
  const kind = kindOf(name, unixMode)
  if (raw.generalPurposeBitFlag & encryptedFlags) {
    throw refuse('encrypted_entry', name, 'it is encrypted. Pack it without a password')
  }
  if (raw.compressionMethod !== 0 && raw.compressionMethod !== 8) {
    throw refuse(
      'unsupported_method',
      name,
      `its compression method is ${raw.compressionMethod}, but only 0 (stored) and 8 (deflate) are supported`
    )
  }
  if (raw.compressionMethod === 0 && raw.compressedSize !== raw.uncompressedSize) {
    throw refuse('size_mismatch', name, 'it is stored, but its two sizes differ')
  }
  if (kind === 'directory' && raw.uncompressedSize > 0) {
    throw refuse('unsupported_entry', name, 'it is a directory, but has contents')
  }
  if (path === '') {
    if (kind === 'directory') return null
    throw refuse('empty_name', name, 'its name means the target directory itself')
  }
  return {
    path,
    kind,
    size: raw.uncompressedSize,
    compressedSize: raw.compressedSize,
    method: raw.compressionMethod,
    crc32: raw.crc32 | 0,
    mode: (unixMode & 0o777) === 0 ? null : unixMode & 0o777,
    mtimeMs: mtimeOf(raw),
    headerOffset: raw.relativeOffsetOfLocalHeader,
    limitOffset: 0,
    ...((raw.generalPurposeBitFlag & descriptorFlag) !== 0 && { isStreamed: true as const })
  }
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true })

function isUtf8(bytes: Buffer): boolean {
  try {
    strictUtf8.decode(bytes)
    return true
  } catch {
    return false
  }
}

function kindOf(name: string, unixMode: number): ArchiveEntry['kind'] {
  if (name.endsWith('/')) return 'directory'
  switch (unixMode & typeMask) {
    case 0:
    case typeOf.file:
      return 'file'
    case typeOf.directory:
      return 'directory'
    case typeOf.symlink:
      return 'symlink'
    default:
      throw refuse('unsupported_entry', name, 'it is neither a file, a directory nor a symbolic link')
  }
}

function mtimeOf(raw: yauzl.Entry): number | null {
  if (raw.lastModFileDate === 0 && raw.extraFields.length === 0) return null
  const ms = raw.getLastModDate().getTime()
  return Number.isFinite(ms) ? ms : null
}

/**
 * Sorts the entries by their position in the file, sets the limit of each, and returns the declared total size. Counts
 * the variable part of the local header as empty; entry-data.ts checks the exact end against the limit.
 */
function checkExtent(entries: ArchiveEntry[], central: number, limits: ArchiveLimits): number {
  entries.sort((a, b) => a.headerOffset - b.headerOffset)
  let totalBytes = 0
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i] as ArchiveEntry
    entry.limitOffset = entries[i + 1]?.headerOffset ?? central
    const leastEnd = entry.headerOffset + localBytes + entry.compressedSize
    if (leastEnd > central) {
      throw refuse('damaged_zip', entry.path, 'its bytes would extend beyond the end of the archive')
    }
    if (leastEnd > entry.limitOffset) {
      throw refuse(
        'overlapping_entries',
        entry.path,
        `it shares bytes with ${quoteName((entries[i + 1] as ArchiveEntry).path)}`
      )
    }
    totalBytes += entry.size
  }
  if (totalBytes > limits.maxExtractedBytes) throw extractedTooLarge(limits.maxExtractedBytes)
  return totalBytes
}

function broken(code: string, reason: string, cause?: unknown): Refusal {
  return new Refusal('invalid', code, `Cannot read the archive: ${reason}`, { cause })
}

/** Returns the refusal for a message of yauzl. A disk error is not a refusal, and is returned unchanged. */
function explain(error: Error, file: ReadableFile, index?: number): Error {
  if ('syscall' in error) return error
  const { message } = error
  if (message.startsWith('End of central directory')) {
    return signatureAt(file, 0) === signatures.local
      ? broken('truncated_zip', 'it is incomplete, its end is missing', error)
      : broken('not_a_zip', 'it is not a zip file', error)
  }
  if (message.startsWith('multi-disk')) return broken('multi_disk_zip', 'it is a single volume of a split zip', error)
  const where = index === undefined ? '' : `entry ${index + 1}: `
  if (message.startsWith('strong encryption')) return broken('encrypted_entry', `${where}it is encrypted`, error)
  if (message === 'unexpected EOF') return broken('truncated_zip', `${where}it ends too early`, error)
  const [, actual, declared] = /^Invalid comment length\. Expected: (\d+)\. Found: (\d+)/.exec(message) ?? []
  if (Number(declared) > Number(actual)) return broken('truncated_zip', 'it is incomplete, its comment is cut', error)
  const [, reason = 'its structure is damaged'] = reasons.find(([begin]) => message.startsWith(begin)) ?? []
  return broken('damaged_zip', `${where}${reason}`, error)
}

/** What the messages of yauzl mean, by their beginnings. */
const reasons: ReadonlyArray<[begin: string, reason: string]> = [
  ['Invalid comment length', 'bytes follow its end, or its comment looks like one'],
  ['invalid zip64', 'its ZIP64 end record is not where it should be'],
  ['invalid central', 'its list of entries is not where its end record says'],
  ['zip64 extended', 'its ZIP64 sizes are incomplete'],
  ['extra field', 'an extra field is longer than all of them']
]

function signatureAt(file: ReadableFile, position: number): number | null {
  const bytes = Buffer.alloc(4)
  return file.readSync(bytes, position) === 4 ? bytes.readUInt32LE(0) : null
}
