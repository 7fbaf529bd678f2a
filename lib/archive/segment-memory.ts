/*
 * Packs a segment in one go, for a thread that does nothing else (segment-worker.ts). Each file is read into its final
 * place in the zip, and replaced there by its deflated contents. This needs no stream, no turn of the event loop, and
 * no memory except that of the segment. measured: bench/pack
 */
import { deflateRawSync, type ZlibOptions } from 'node:zlib'
import { crc32 } from '../base/digests.js'
import { type Entry, isWorthDeflating, newEntry, readInto, type ZipSource } from './source.js'
import {
  deflated,
  directoryHeaderBytes,
  directoryOf,
  endBytes,
  localHeaderBytes,
  maxUint32,
  writeLocalHeader
} from '../shared/zip-records.js'

/**
 * Returns a zip of sources without `onRead`, in memory that can be transferred to another thread. Refuses
 * (`unavailable`): file_vanished, file_changed, file_unreadable, naming the file.
 */
export function packInMemory(sources: readonly ZipSource[], level: number): Buffer<ArrayBuffer> {
  const entries = sources.map(source => newEntry(source, 0, maxUint32))
  const room = Buffer.from(new ArrayBuffer(entries.reduce((sum, entry) => sum + maxEntryBytes(entry), endBytes)))
  let end = 0
  for (const entry of entries) {
    entry.offset = end
    end = writeEntry(entry, room, level)
  }
  const directory = directoryOf(entries, end, maxUint32)
  room.set(directory, end)
  return room.subarray(0, end + directory.length)
}

/** Returns the size of an entry whose contents are not compressed. */
function maxEntryBytes(entry: Entry): number {
  return localHeaderBytes(entry) + entry.bytes + directoryHeaderBytes(entry)
}

/** Writes an entry in its place, and returns its end. */
function writeEntry(entry: Entry, room: Buffer, level: number): number {
  const { source, bytes, offset } = entry
  const start = offset + localHeaderBytes(entry)
  // The extra byte, which shows that a file has grown, is available: the directory is written last.
  readInto(room.subarray(start, start + bytes + 1), source)
  const contents = room.subarray(start, start + bytes)
  entry.crc = crc32(contents)
  const packed =
    level > 0 && isWorthDeflating(source) ? deflateRawSync(contents, { level, ...tablesFor(bytes) }) : contents
  if (packed.length < bytes) {
    entry.method = deflated
    packed.copy(contents)
  }
  entry.packedBytes = Math.min(packed.length, bytes)
  writeLocalHeader(entry, room, offset)
  return start + entry.packedBytes
}

/** Incompressible contents grow a little. With room for that, zlib need not join two buffers. */
const spareBytes = 1024
/** Part of its window that zlib keeps free (MIN_LOOKAHEAD). */
const lookaheadBytes = 262

/**
 * Returns tables of the size that the file fills: a larger window, or room for more symbols in a block, would change
 * nothing. The default of 256 KiB would be cleared for each file, and V8 collects garbage more often with larger
 * buffers.
 */
function tablesFor(bytes: number): ZlibOptions {
  const windowBits = Math.max(9, Math.min(15, Math.ceil(Math.log2(bytes + lookaheadBytes))))
  return { windowBits, memLevel: Math.min(8, windowBits - 6), chunkSize: bytes + spareBytes }
}
