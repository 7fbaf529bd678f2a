/*
 * The table of contents of a zip, read and checked as a whole before anything is done with it.
 *
 * yauzl parses the structures (APPNOTE 4.3.12 to 4.3.16: end record, ZIP64 records, central directory, extra fields);
 * the central directory is the authority, as the format says, and local headers only locate data (entry-data.ts).
 * yauzl is given a reader of our own that answers at once from a window of the file: its own reads every header with
 * two asynchronous calls, which costs 100 us an entry; this one costs 4 us. All of this is synchronous work, with a
 * pause now and then; that of a deployment is done in a worker thread.
 *
 * Checked here, with the entry named: the name (names.ts), encryption, compression method, sizes against each other
 * and against the file, kinds that a deployment cannot hold, the number of entries, what they declare to inflate to,
 * and that no two of them share bytes. The last is what a "better zip bomb" is made of: entries that overlap inflate
 * the same kilobytes again and again, each within its own limits.
 *
 * Differences from what other programs accept
 *   - bytes before the first entry (self-extracting zips) only where the offsets count them;
 *   - names without the UTF-8 flag are CP437, as the format says, and the Info-ZIP Unicode Path field wins where it is
 *     whole; but a name written on UNIX that is valid UTF-8 is read as that, because `zip` writes the bytes of the file
 *     system and neither flag nor field, and `unzip` takes them as they are;
 *   - a comment that holds an end record, or bytes after the end record, are refused, not guessed about.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import * as yauzl from 'yauzl'
import { OpenFile } from '../base/open-file.js'
import { Refusal } from '../base/refusal.js'
import { quoteName, readName, refuse } from './names.js'

export interface ArchiveEntry {
  /** Relative, `/` between segments, no `.` or empty ones, no trailing slash (names.ts). */
  path: string
  kind: 'file' | 'directory' | 'symlink'
  /** Bytes once inflated, as declared. */
  size: number
  compressedSize: number
  /** 0 stored, 8 deflated; nothing else gets here. */
  method: number
  /** Signed: a larger number would take memory of its own, 200,000 times. */
  crc32: number
  /** Permission bits (0o777); null where the archive does not say. Never setuid, setgid, sticky. */
  mode: number | null
  /** Milliseconds since the epoch; null where the archive does not say. */
  mtimeMs: number | null
  /** Where its local header begins. */
  headerOffset: number
  /** Where its bytes must have ended: the next local header, or the central directory. */
  limitOffset: number
}

export interface Archive {
  /** In the order of their bytes in the file. */
  readonly entries: readonly ArchiveEntry[]
  /** Sum of the declared sizes. */
  readonly totalBytes: number
  /** Closed by `close`, and by nothing else. */
  readonly file: OpenFile
  readonly fileSize: number
  close(): void
}

export interface ArchiveLimits {
  /** Entries, directories included. */
  maxEntries: number
  /** Sum of the bytes all entries inflate to. */
  maxExtractedBytes: number
}

/**
 * All names together, with their extra fields: they are held in memory. 200,000 of 160 bytes; and for each entry what the
 * longest name may have, because 64 KiB of extra fields are 16,000 of them to look at. measured: bench/hostile
 */
const maxNameBytes = 32 * 1024 * 1024
const maxNameBytesOfEach = 4 * 1024
/** Window of the central directory held in memory; about 2,000 entries. */
const windowBytes = 256 * 1024
/** Entries that are read without a pause: packages are opened where requests are answered. About 10 ms. */
const entriesInTurn = 2_000
/** Fixed part of a local file header (APPNOTE 4.3.7). */
export const localHeaderBytes = 30

const encryptedFlags = 0x2041 // bit 0 encrypted, bit 6 strong encryption, bit 13 masked headers
const utf8Flag = 0x800 // bit 11
const unixHosts = new Set([3, 19]) // "version made by", APPNOTE 4.4.2.2: UNIX, OS X (Darwin)
const typeMask = 0o170000
const typeOf = { directory: 0o040000, file: 0o100000, symlink: 0o120000 }

/**
 * Opens a zip, or reads one that is open and owns it from now on, and checks its table of contents. Refuses (`invalid`): not_a_zip, truncated_zip, empty_zip, damaged_zip,
 * multi_disk_zip, encrypted_entry, unsupported_method, unsupported_entry, size_mismatch, overlapping_entries,
 * and what names.ts refuses; (`too_large`): too_many_entries, names_too_large,
 * extracted_too_large.
 */
export async function openArchive(path: string | OpenFile, limits: ArchiveLimits): Promise<Archive> {
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

async function openZip(file: OpenFile, fileSize: number): Promise<yauzl.ZipFile> {
  if (fileSize === 0) throw broken('not_a_zip', 'it is empty (0 bytes)')
  try {
    return await yauzl.fromRandomAccessReaderPromise(new WindowReader(file), fileSize, {
      autoClose: false, decodeStrings: false, validateEntrySizes: false
    })
  } catch (error) {
    throw explain(error as Error, file)
  }
}

/** Answers yauzl's reads at once, from a window of the file. */
class WindowReader extends yauzl.RandomAccessReader {
  readonly #file: OpenFile
  readonly #window = Buffer.allocUnsafeSlow(windowBytes)
  #start = 0
  #length = 0

  constructor(file: OpenFile) {
    super()
    this.#file = file
  }

  override read(
    into: Buffer, offset: number, length: number, position: number,
    callback: (error: Error | null, bytesRead?: number) => void
  ): void {
    let bytesRead: number
    try {
      bytesRead = this.#copy(into, offset, length, position)
    } catch (error) {
      callback(error as Error)
      return
    }
    callback(null, bytesRead)
  }

  #copy(into: Buffer, offset: number, length: number, position: number): number {
    if (!Number.isSafeInteger(position)) return 0
    if (length > windowBytes) return this.#file.readSync(into.subarray(offset, offset + length), position)
    if (position < this.#start || position + length > this.#start + this.#length) {
      this.#start = position
      this.#length = this.#file.readSync(this.#window, position)
    }
    const from = position - this.#start
    return this.#window.copy(into, offset, from, Math.min(from + length, this.#length))
  }
}

async function readEntries(zip: yauzl.ZipFile, limits: ArchiveLimits, file: OpenFile): Promise<ArchiveEntry[]> {
  if (zip.entryCount === 0) throw broken('empty_zip', 'it has no entries')
  if (zip.entryCount > limits.maxEntries) {
    throw tooLarge('too_many_entries', `it has ${zip.entryCount} entries, at most ${limits.maxEntries} are allowed`)
  }
  const entries: ArchiveEntry[] = []
  let nameBytes = 0
  let raw = undefined as yauzl.Entry | undefined
  let failure: Error | undefined
  zip.on('entry', entry => { raw = entry })
  zip.on('error', error => { failure = error })
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
      throw tooLarge('names_too_large', `the names and extra fields of its entries alone take more than ${maxBytes} bytes`)
    }
    const entry = readEntry(found)
    if (entry !== null) entries.push(entry)
  }
  if (signatureAt(file, zip.readEntryCursor as unknown as number) === 0x02014b50) {
    throw broken('damaged_zip', `it has more entries than the ${zip.entryCount} it declares`)
  }
  if (entries.length === 0) throw broken('empty_zip', 'it has no entries')
  return entries
}

/** An entry of the central directory (APPNOTE 4.3.12), checked by itself; null for the target directory itself. */
function readEntry(raw: yauzl.Entry): ArchiveEntry | null {
  const isUnix = unixHosts.has(raw.versionMadeBy >>> 8)
  const flags = isUnix && isUtf8(raw.fileNameRaw) ? raw.generalPurposeBitFlag | utf8Flag : raw.generalPurposeBitFlag
  const name = yauzl.getFileNameLowLevel(flags, raw.fileNameRaw, raw.extraFields, true)
  const path = readName(name, { windows: process.platform === 'win32' })
  const unixMode = isUnix ? raw.externalFileAttributes >>> 16 : 0
  const kind = kindOf(name, unixMode)
  if (raw.generalPurposeBitFlag & encryptedFlags) {
    throw refuse('encrypted_entry', name, 'it is encrypted, and svc has no password')
  }
  if (raw.compressionMethod !== 0 && raw.compressionMethod !== 8) {
    throw refuse('unsupported_method', name,
      `its compression method is ${raw.compressionMethod}, only 0 (stored) and 8 (deflate) are supported`)
  }
  if (raw.compressionMethod === 0 && raw.compressedSize !== raw.uncompressedSize) {
    throw refuse('size_mismatch', name, 'it is stored, but its two sizes differ')
  }
  if (kind === 'directory' && raw.uncompressedSize > 0) {
    throw refuse('unsupported_entry', name, 'it is a directory, but has contents')
  }
  if (path === '') {
    if (kind === 'directory') return null
    throw refuse('empty_name', name, 'it names the target directory itself')
  }
  return {
    path, kind,
    size: raw.uncompressedSize,
    compressedSize: raw.compressedSize,
    method: raw.compressionMethod,
    crc32: raw.crc32 | 0,
    mode: (unixMode & 0o777) === 0 ? null : unixMode & 0o777,
    mtimeMs: mtimeOf(raw),
    headerOffset: raw.relativeOffsetOfLocalHeader,
    limitOffset: 0
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
    case typeOf.file: return 'file'
    case typeOf.directory: return 'directory'
    case typeOf.symlink: return 'symlink'
    default: throw refuse('unsupported_entry', name, 'it is neither a file, a directory nor a symbolic link')
  }
}

function mtimeOf(raw: yauzl.Entry): number | null {
  if (raw.lastModFileDate === 0 && raw.extraFields.length === 0) return null
  const ms = raw.getLastModDate().getTime()
  return Number.isFinite(ms) ? ms : null
}

/**
 * Sorts the entries by their place in the file, gives each the limit of its bytes, and answers the declared total.
 * The local header's variable part is counted as empty here; entry-data.ts checks the exact end against the limit.
 */
function checkExtent(entries: ArchiveEntry[], central: number, limits: ArchiveLimits): number {
  entries.sort((a, b) => a.headerOffset - b.headerOffset)
  let totalBytes = 0
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i] as ArchiveEntry
    entry.limitOffset = entries[i + 1]?.headerOffset ?? central
    const leastEnd = entry.headerOffset + localHeaderBytes + entry.compressedSize
    if (leastEnd > central) {
      throw refuse('damaged_zip', entry.path, 'its bytes would lie beyond the end of the archive')
    }
    if (leastEnd > entry.limitOffset) {
      throw refuse('overlapping_entries', entry.path,
        `it shares bytes with ${quoteName((entries[i + 1] as ArchiveEntry).path)}`)
    }
    totalBytes += entry.size
  }
  if (totalBytes > limits.maxExtractedBytes) throw extractedTooLarge(limits.maxExtractedBytes)
  return totalBytes
}

/** What extracting would write is past the limit (setting `max_extracted_size`). */
export function extractedTooLarge(limitBytes: number): Refusal {
  const limit = limitBytes >= 1024 * 1024 ? `${Math.floor(limitBytes / 1024 / 1024)} MB` : `${limitBytes} bytes`
  return tooLarge('extracted_too_large', `it would extract to more than ${limit} (setting max_extracted_size)`)
}

function tooLarge(code: string, reason: string): Refusal {
  return new Refusal('too_large', code, `The archive cannot be extracted: ${reason}`)
}

function broken(code: string, reason: string, cause?: unknown): Refusal {
  return new Refusal('invalid', code, `The archive cannot be read: ${reason}`, { cause })
}

/** yauzl's message as a refusal. An error of the disk is none, and travels as it is. */
function explain(error: Error, file: OpenFile, index?: number): Error {
  if ('syscall' in error) return error
  const { message } = error
  if (message.startsWith('End of central directory')) {
    return signatureAt(file, 0) === 0x04034b50
      ? broken('truncated_zip', 'it is cut off, its end is missing', error)
      : broken('not_a_zip', 'it is not a zip file', error)
  }
  if (message.startsWith('multi-disk')) return broken('multi_disk_zip', 'it is one part of a split zip', error)
  const where = index === undefined ? '' : `entry ${index + 1}: `
  if (message.startsWith('strong encryption')) return broken('encrypted_entry', `${where}it is encrypted`, error)
  if (message === 'unexpected EOF') return broken('truncated_zip', `${where}it ends too early`, error)
  return broken('damaged_zip', `${where}${message}`, error)
}

function signatureAt(file: OpenFile, position: number): number | null {
  const bytes = Buffer.alloc(4)
  return file.readSync(bytes, position) === 4 ? bytes.readUInt32LE(0) : null
}
