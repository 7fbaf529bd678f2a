/*
 * Reads the bytes of one entry: finds them through the local header (APPNOTE 4.3.7), inflates them, and compares them
 * with the size and the CRC-32 in the central directory. Sizes in the local header are ignored, so entries with a data
 * descriptor (bit 3, sizes zero here) need no special case.
 *
 * Small entries (`maxWholeBytes`) are read and inflated whole, with synchronous calls. Neighbouring entries come from
 * one read of a window, and inflating one takes 15 us instead of the 750 us of a stream. Larger entries go through a
 * stream that inflates in the thread pool while the caller hashes and writes.
 *
 * The declared size of an entry is not trusted: inflating stops at one byte more than that size.
 */
import { pipeline } from 'node:stream/promises'
import { createInflateRaw, inflateRawSync } from 'node:zlib'
import { crc32 } from '../../base/digests.js'
import type { ReadableFile } from '../../base/files.js'
import { Refusal } from '../../base/errors.js'
import { localBytes, signatures } from '../../base/shared/zip-records.js'
import { refusalSentence, refuse } from './names.js'
import type { Archive, ArchiveEntry } from './read.js'

/** Maximum size of an entry that is held in memory whole, after inflating. measured: bench/extract */
export const maxWholeBytes = 512 * 1024
/** Number of bytes that one read of neighbouring entries brings in. */
const windowBytes = 512 * 1024
/**
 * Size of the pieces in which large entries are read and inflated. zlib allocates a new buffer for each, which stays
 * until garbage collection. With 64 KiB the process is 20 MB smaller, but a quarter slower. measured: bench/extract
 */
const pieceBytes = 256 * 1024

/** Reads the contents of entries. */
export type EntryReader = ReturnType<typeof createEntryReader>

/**
 * Whether an entry may be held in memory whole. Checks both sizes: both are claims of the writer, and both take memory.
 */
export function isSmall({ size, compressedSize }: Pick<ArchiveEntry, 'size' | 'compressedSize'>): boolean {
  return size <= maxWholeBytes && compressedSize <= maxWholeBytes
}

/** Creates a reader of an archive's entries. It keeps a window of the file in memory, so each thread needs its own. */
export function createEntryReader(archive: Pick<Archive, 'file' | 'fileSize'>) {
  const window = Buffer.allocUnsafeSlow(Math.min(windowBytes, archive.fileSize))
  let windowStart = 0
  let windowLength = 0
  let spare = Buffer.alloc(0)

  /** Returns `length` bytes at `position`, from the window if they are in it. */
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
    // Requests the data together with the header, so that both are in one window.
    const header = bytesAt(entry.headerOffset, localBytes, entry)
    if (header.readUInt32LE(0) !== signatures.local) {
      throw refuse('damaged_zip', entry.path, 'its local header is missing at the declared offset')
    }
    const offset = entry.headerOffset + localBytes + header.readUInt16LE(26) + header.readUInt16LE(28)
    if (offset + entry.compressedSize > entry.limitOffset) {
      throw refuse('overlapping_entries', entry.path, 'its bytes overlap those of the next entry')
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
    // A pipeline whose last step fails often reports an abort instead of the reason, so the reason is kept here.
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
    inflating?.once('error', error => {
      failure ??= error
    })
    const flowing = inflating === null ? take(blocks) : pipeline(blocks, inflating, take)
    await flowing.catch(error => {
      throw explain((failure ?? error) as Error, entry)
    })
    check(entry, length, crc)
  }

  return {
    /**
     * Returns the contents of an entry for which `isSmall` is true. Valid until the next call. Refuses (`invalid`):
     * damaged_zip, damaged_entry, size_mismatch, crc_mismatch, overlapping_entries, truncated_zip.
     */
    readWhole,
    /**
     * Passes the contents of any entry piece by piece. A piece is valid only during the call. Refuses the same, partly
     * only after the last piece. If `onPiece` throws, reading ends and rejects with that error.
     */
    readPieces,
    /** Like `readPieces`, but passes a small entry as one piece. */
    read: async (entry: ArchiveEntry, onPiece: (piece: Buffer) => void): Promise<void> =>
      isSmall(entry) ? onPiece(readWhole(entry)) : readPieces(entry, onPiece)
  }
}

/** Yields the bytes of an entry as they are in the file, block by block. Refuses truncated_zip. */
async function* blocksOf(file: ReadableFile, start: number, entry: ArchiveEntry): AsyncGenerator<Buffer> {
  for (let done = 0; done < entry.compressedSize; ) {
    const block = Buffer.allocUnsafeSlow(Math.min(pieceBytes, entry.compressedSize - done))
    if ((await file.read(block, start + done)) < block.length) throw cutOff(entry)
    done += block.length
    yield block
  }
}

/**
 * Inflates in one call, with room for the declared size and one byte more, so that zlib neither grows nor joins
 * buffers.
 */
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
  const sentence = refusalSentence(entry.path, `its compressed data is damaged (${error.message})`)
  return new Refusal('invalid', 'damaged_entry', sentence, { cause: error })
}

function check(entry: ArchiveEntry, length: number, crc: number): void {
  if (length > entry.size) throw tooLong(entry)
  if (length < entry.size) {
    throw refuse('size_mismatch', entry.path, `it inflates to ${length} bytes, but the archive declares ${entry.size}`)
  }
  if ((crc | 0) !== entry.crc32) throw refuse('crc_mismatch', entry.path, 'its CRC-32 does not match its contents')
}

function tooLong(entry: ArchiveEntry): Refusal {
  return refuse(
    'size_mismatch',
    entry.path,
    `it inflates to more than the ${entry.size} bytes that the archive declares`
  )
}

function cutOff(entry: ArchiveEntry): Refusal {
  return refuse('truncated_zip', entry.path, 'the archive ends in the middle of it')
}
