/*
 * A segment packed at once, for a thread that does nothing else (segment-worker.ts): each file is read to where its
 * contents will stand, and replaced there by what it is deflated to. It takes no stream, no turn of the event loop, and
 * no memory but that of the segment. measured: bench/pack
 */
import { deflateRawSync, type ZlibOptions } from 'node:zlib'
import { crc32 } from '../base/crc32.js'
import { isWorthDeflating, type ZipSource } from './source.js'
import { readInto } from './source-bytes.js'
import { begin, deflated, directoryHeaderBytes, directoryOf, endBytes, localHeaderBytes, maxUint32, writeLocalHeader, type Entry } from './zip-records.js'

/**
 * A zip of sources without `onRead`, in memory that may be handed to another thread. Refuses (`unavailable`):
 * file_vanished, file_changed, file_unreadable, naming the file.
 */
export function packInMemory(sources: readonly ZipSource[], level: number): Buffer<ArrayBuffer> {
  const entries = sources.map(source => begin(source, 0, maxUint32))
  const room = Buffer.from(new ArrayBuffer(entries.reduce((sum, entry) => sum + mostBytes(entry), endBytes)))
  let end = 0
  for (const entry of entries) {
    entry.offset = end
    end = writeEntry(entry, room, level)
  }
  const directory = directoryOf(entries, end, maxUint32)
  directory.copy(room, end)
  return room.subarray(0, end + directory.length)
}

/** What an entry takes that does not get smaller. */
function mostBytes(entry: Entry): number {
  return localHeaderBytes(entry) + entry.bytes + directoryHeaderBytes(entry)
}

/** Writes an entry to its place, and returns where it ends. */
function writeEntry(entry: Entry, room: Buffer, level: number): number {
  const { source, bytes, offset } = entry
  const start = offset + localHeaderBytes(entry)
  // The byte more, which tells that a file has grown, is there: the directory comes last.
  readInto(room.subarray(start, start + bytes + 1), source)
  const contents = room.subarray(start, start + bytes)
  entry.crc = crc32(contents)
  const packed = level > 0 && isWorthDeflating(source) ? deflateRawSync(contents, { level, ...tablesFor(bytes) }) : contents
  if (packed.length < bytes) {
    entry.method = deflated
    packed.copy(contents)
  }
  entry.packedBytes = Math.min(packed.length, bytes)
  writeLocalHeader(entry, room, offset)
  return start + entry.packedBytes
}

/** What does not get smaller grows a little: with room for it, zlib need not join two buffers. */
const spareBytes = 1024
/** What zlib keeps free of its window (MIN_LOOKAHEAD). */
const lookaheadBytes = 262

/**
 * Tables as large as the file fills: a larger window, or room for more symbols in a block, would change nothing. The
 * usual 256 KiB are cleared for each file, and V8 collects garbage more often the more a file has.
 */
function tablesFor(bytes: number): ZlibOptions {
  const windowBits = Math.max(9, Math.min(15, Math.ceil(Math.log2(bytes + lookaheadBytes))))
  return { windowBits, memLevel: Math.min(8, windowBits - 6), chunkSize: bytes + spareBytes }
}
