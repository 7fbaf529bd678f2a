/*
 * The bytes of one entry: found through its local header (APPNOTE 4.3.7), inflated, and compared with the size and
 * the CRC-32 the central directory declares. Sizes in the local header are ignored, so entries with a data descriptor
 * (bit 3, sizes zero here) need no case of their own.
 *
 * Small entries (`maxWholeBytes`) are read and inflated whole, with synchronous calls: entries that lie together in
 * the file come out of one read of a window, and inflating one takes 15 us where a stream takes 750 us. Larger ones
 * go through a stream whose inflating runs in the thread pool while the caller hashes and writes.
 *
 * Nobody is believed about how much an entry inflates to: inflating stops at the declared size and one byte more.
 */
import { pipeline } from 'node:stream/promises'
import { createInflateRaw, inflateRawSync } from 'node:zlib'
import { crc32 } from '../base/crc32.js'
import type { OpenFile } from '../base/open-file.js'
import { Refusal } from '../base/refusal.js'
import { refuse } from './names.js'
import { localHeaderBytes, type Archive, type ArchiveEntry } from './read.js'

/** Entries up to this many bytes, inflated, are held in memory whole. measured: bench/extract */
export const maxWholeBytes = 512 * 1024
/** What one read of neighbouring entries brings in. */
const windowBytes = 512 * 1024
/**
 * Piece in which large entries are read and inflated. zlib allocates each anew, and it waits for the collector: with 64
 * KiB the process is 20 MB smaller, and takes a quarter longer. measured: bench/extract
 */
const pieceBytes = 256 * 1024

export interface EntryReader {
  /**
   * The contents of an entry for which `isSmall` holds. Valid until the next call. Refuses (`invalid`): damaged_zip,
   * damaged_entry, size_mismatch, crc_mismatch, overlapping_entries, truncated_zip.
   */
  readWhole(entry: ArchiveEntry): Buffer
  /**
   * The contents of any entry, piece by piece, each valid only during the call; the same refusals, the last of them
   * after the last piece. If `onPiece` throws, reading ends and rejects with that error.
   */
  readPieces(entry: ArchiveEntry, onPiece: (piece: Buffer) => void): Promise<void>
  /** As `readPieces`, and a small entry comes as one piece. */
  read(entry: ArchiveEntry, onPiece: (piece: Buffer) => void): Promise<void>
}

/** Whether an entry may be held in memory whole: both sizes are the writer's claim, and both take memory. */
export function isSmall({ size, compressedSize }: Pick<ArchiveEntry, 'size' | 'compressedSize'>): boolean {
  return size <= maxWholeBytes && compressedSize <= maxWholeBytes
}

/** Reads the data of an archive's entries; keeps a window of the file, so one for each thread. */
export function createEntryReader(archive: Pick<Archive, 'file' | 'fileSize'>): EntryReader {
  const window = Buffer.allocUnsafeSlow(Math.min(windowBytes, archive.fileSize))
  let windowStart = 0
  let windowLength = 0
  let spare = Buffer.alloc(0)

  /** `length` bytes at `position`, from the window where it has them. */
  function bytesAt(position: number, length: number, entry: ArchiveEntry): Buffer {
    if (length > window.length) {
      if (spare.length < length) spare = Buffer.allocUnsafeSlow(length)
      const bytes = spare.subarray(0, length)
      if (archive.file.readSync(bytes, position) < length) throw cutOff(entry)
      return bytes
    }
    if (position < windowStart || position + length > windowStart + windowLength) {
      windowStart = position
      windowLength = archive.file.readSync(window, position)
      if (windowLength < length) throw cutOff(entry)
    }
    return window.subarray(position - windowStart, position - windowStart + length)
  }

  function dataOffset(entry: ArchiveEntry): number {
    // Asking for the data along with the header keeps both in one window.
    const header = bytesAt(entry.headerOffset, localHeaderBytes, entry)
    if (header.readUInt32LE(0) !== 0x04034b50) {
      throw refuse('damaged_zip', entry.path, 'its local header is not where the archive says')
    }
    const offset = entry.headerOffset + localHeaderBytes + header.readUInt16LE(26) + header.readUInt16LE(28)
    if (offset + entry.compressedSize > entry.limitOffset) {
      throw refuse('overlapping_entries', entry.path, 'its bytes run into those of the next entry')
    }
    return offset
  }

  function readWhole(entry: ArchiveEntry): Buffer {
    const raw = bytesAt(dataOffset(entry), entry.compressedSize, entry)
    const contents = entry.method === 0 ? raw : inflate(raw, entry)
    check(entry, contents.length, crc32(contents))
    return contents
  }

  async function readPieces(entry: ArchiveEntry, onPiece: (piece: Buffer) => void): Promise<void> {
    const blocks = blocksOf(archive.file, dataOffset(entry), entry)
    let length = 0
    let crc = 0
    // A pipeline whose end fails often reports that it was aborted; so the reason is kept here.
    let failure: unknown
    const take = async (pieces: AsyncIterable<Buffer>): Promise<void> => {
      try {
        for await (const piece of pieces) {
          length += piece.length
          if (length > entry.size) throw tooLong(entry)
          crc = crc32(piece, crc)
          onPiece(piece)
        }
      } catch (error) {
        failure ??= error
        throw error
      }
    }
    const inflating = entry.method === 0 ? null : createInflateRaw({ chunkSize: pieceBytes })
    inflating?.once('error', error => { failure ??= error })
    const flowing = inflating === null ? take(blocks) : pipeline(blocks, inflating, take)
    await flowing.catch(error => { throw explain((failure ?? error) as Error, entry) })
    check(entry, length, crc)
  }

  return {
    readWhole,
    readPieces,
    read: async (entry, onPiece) => (isSmall(entry) ? onPiece(readWhole(entry)) : readPieces(entry, onPiece))
  }
}

/** The bytes of an entry as they are in the file, block by block. Refuses truncated_zip. */
async function* blocksOf(file: OpenFile, start: number, entry: ArchiveEntry): AsyncGenerator<Buffer> {
  for (let done = 0; done < entry.compressedSize;) {
    const block = Buffer.allocUnsafeSlow(Math.min(pieceBytes, entry.compressedSize - done))
    if ((await file.read(block, start + done)) < block.length) throw cutOff(entry)
    done += block.length
    yield block
  }
}

/** One call with room for the declared size and a byte more, so that zlib neither grows nor joins buffers. */
function inflate(raw: Buffer, entry: ArchiveEntry): Buffer {
  try {
    return inflateRawSync(raw, { chunkSize: Math.max(64, entry.size + 1), maxOutputLength: Math.max(1, entry.size) })
  } catch (error) {
    throw explain(error as Error, entry)
  }
}

function explain(error: Error, entry: ArchiveEntry): Error {
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ERR_BUFFER_TOO_LARGE') return tooLong(entry)
  if (error instanceof Refusal || code === undefined || !code.startsWith('Z_')) return error
  return refuse('damaged_entry', entry.path, `its compressed data is damaged (${error.message})`, error)
}

function check(entry: ArchiveEntry, length: number, crc: number): void {
  if (length > entry.size) throw tooLong(entry)
  if (length < entry.size) {
    throw refuse('size_mismatch', entry.path, `it inflates to ${length} bytes, the archive declares ${entry.size}`)
  }
  if ((crc | 0) !== entry.crc32) throw refuse('crc_mismatch', entry.path, 'its CRC-32 does not match its contents')
}

function tooLong(entry: ArchiveEntry): Refusal {
  return refuse('size_mismatch', entry.path, `it inflates to more than the ${entry.size} bytes the archive declares`)
}

function cutOff(entry: ArchiveEntry): Refusal {
  return refuse('truncated_zip', entry.path, 'the archive ends within it')
}
