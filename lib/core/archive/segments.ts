/*
 * The threads that pack. They pack segments, which they also read, and pieces of large files
 *, and digest sources for a tree (source.ts). They use synchronous calls only, which takes a third
 * less time than streams and the thread pool. measured: bench/pack
 */

import { cpus } from 'node:os'
import { constants, deflateRawSync, type ZlibOptions } from 'node:zlib'
import { createWorkerPool } from '../../base/workers.js'
import { crc32 } from '../../base/digests.js'
import {
  deflated,
  descriptorOf,
  directoryHeaderBytes,
  directoryOf,
  endBytes,
  localHeader,
  localHeaderBytes,
  maxUint32,
  stored,
  writeLocalHeader
} from '../../base/shared/zip-records.js'
import {
  blocksOf,
  type DigestTask,
  type Entry,
  isWorthDeflating,
  newEntry,
  readInto,
  type ZipSource
} from './source.js'

/** A segment for a thread to pack. */
export interface SegmentTask {
  kind: 'segment'
  /** Sources without `onRead`. */
  sources: readonly ZipSource[]
  level: number
}

/** A task of a thread. */
export type PackTask = SegmentTask | PieceTask | DigestTask

/** The threads that pack. */
export type SegmentThreads = ReturnType<typeof createSegmentThreads>

/** Each thread has one or two segments in memory. */
const maxThreads = 2
/** Young objects of a thread are short-lived; the default of 48 MB would only be filled with garbage. */
const maxYoungGenerationSizeMb = 4

/** Creates threads that start when there is work for them. */
export function createSegmentThreads() {
  const count = Math.max(1, Math.min(maxThreads, cpus().length))
  const pool = createWorkerPool<PackTask, Uint8Array<ArrayBuffer>>({
    module: new URL('./segment-worker.js', import.meta.url),
    resourceLimits: { maxYoungGenerationSizeMb },
    maxBusy: count
  })
  return {
    /** Maximum number of tasks in progress. */
    count,
    /**
     * Runs `packInMemory`, `packPiece` or `digestSources` in a thread. Tasks begin in the order of the calls. The bytes
     * of a piece are transferred to the thread.
     */
    pack: (task: PackTask): Promise<Uint8Array<ArrayBuffer>> =>
      pool.use(thread => thread.ask(task, { transfer: task.kind === 'piece' ? [task.bytes.buffer] : [] })),
    /** Ends the threads, each after the task in progress. Queued tasks reject. */
    close: (): Promise<void> => pool.close({ waitForBusy: true })
  }
}

/*
 * Cuts a large source into pieces that threads deflate in parallel, as pigz does. A piece is deflated with the 32 KiB
 * before it as its dictionary, and ends on a whole byte (Z_SYNC_FLUSH). So the pieces one after the other, followed by
 * an empty last block, equal the result of one deflation except for a few bytes (RFC 1951). measured: bench/pack
 *
 * Memory use is a few pieces, whatever the size of the source.
 */

/** Smaller pieces take more memory: they leave more garbage. measured: bench/pack */
const pieceBytes = 1024 * 1024
/** Size of deflate's window. */
const windowBytes = 32 * 1024
/** Incompressible data grows by less than this. */
const spareBytes = 8 * 1024
const roomBytes = pieceBytes + spareBytes
/**
 * Size of the buffer that zlib allocates for a piece. Most of it is never touched, but the garbage collector counts it,
 * and therefore runs after a few pieces: 20 MB less. measured: bench/pack
 */
const chunkBytes = 4 * roomBytes
/** A last block without contents. */
const emptyBlock = Buffer.from([0x03, 0x00])

/** A piece for a thread to deflate. */
export interface PieceTask {
  kind: 'piece'
  /** The bytes, at the beginning of memory that also has room for the deflated ones. */
  bytes: Uint8Array<ArrayBuffer>
  /** The bytes before the piece; empty if there are none. */
  dictionary: Uint8Array
  level: number
}

/** Deflates a piece in place. */
export function packPiece({ bytes, dictionary, level }: PieceTask): Uint8Array<ArrayBuffer> {
  const options = { level, chunkSize: chunkBytes, finishFlush: constants.Z_SYNC_FLUSH }
  const packed = deflateRawSync(bytes, dictionary.length === 0 ? options : { ...options, dictionary })
  const room = new Uint8Array(bytes.buffer)
  room.set(packed)
  return room.subarray(0, packed.length)
}

/** Runs `packPiece` in threads, several at a time. */
export interface PieceThreads {
  pack(piece: PieceTask): Promise<Uint8Array<ArrayBuffer>>
}

/** Options for large sources. */
export interface LargeOptions {
  level: number
  /** Sizes and offsets from here on are written in zip64 form. */
  zip64FromBytes: number
  threads: PieceThreads
}

/** The next bytes of a zip that has one entry. */
export interface LargePart {
  ready: Promise<Uint8Array>
  /** Must be called after the bytes are written: their memory is used again. */
  release: (() => void) | null
  /** Size in bytes of the part of the source. */
  bytes: number
  /** The entry, in the last part of its contents, for the end of the entry; otherwise null. */
  entry: Entry | null
}

/**
 * Packs sources one after the other: yields the local header and contents of each as an entry. Parts are packed ahead
 * if they are requested ahead. Refuses (`unavailable`): file_vanished, file_changed, file_unreadable.
 */
export function createLargePacking({
  level,
  zip64FromBytes,
  threads
}: LargeOptions): (source: ZipSource) => AsyncGenerator<LargePart> {
  // New memory for each piece would stay until garbage collection: 100 MB. measured: bench/pack
  const free: ArrayBuffer[] = []
  const takeRoom = (): ArrayBuffer => free.pop() ?? new ArrayBuffer(roomBytes)

  function pack(bytes: Uint8Array<ArrayBuffer>, dictionary: Uint8Array | null): LargePart {
    const ready =
      dictionary === null ? Promise.resolve(bytes) : threads.pack({ kind: 'piece', bytes, dictionary, level })
    const release = (): void =>
      void ready.then(
        ({ buffer }) => free.push(buffer),
        () => {}
      )
    return { ready, release, bytes: bytes.length, entry: null }
  }

  return async function* packLarge(source) {
    const isDeflated = level > 0 && isWorthDeflating(source)
    const entry: Entry = {
      ...newEntry(source, 0, zip64FromBytes),
      method: isDeflated ? deflated : stored,
      isStreamed: true
    }
    const plain = { release: null, bytes: 0 }
    yield { ...plain, ready: Promise.resolve(localHeader(entry)), entry: null }
    let before = new Uint8Array()
    for await (const bytes of blocksOf(source, async () => Buffer.from(takeRoom(), 0, pieceBytes))) {
      entry.crc = crc32(bytes, entry.crc)
      const window = Uint8Array.from(bytes.subarray(-windowBytes))
      yield pack(bytes, isDeflated ? before : null)
      before = window
    }
    yield { ...plain, ready: Promise.resolve(isDeflated ? emptyBlock : new Uint8Array()), entry }
  }
}

/**
 * Returns the data descriptor of an entry whose header and contents have `writtenBytes`, and the end of a zip with that
 * entry alone.
 */
export function endLarge(
  entry: Entry,
  writtenBytes: number,
  zip64FromBytes: number
): { descriptor: Buffer; end: Buffer } {
  const packedBytes = writtenBytes - localHeaderBytes(entry)
  const descriptor = Buffer.from(descriptorOf({ ...entry, packedBytes }).buffer)
  const end = directoryOf([{ ...entry, packedBytes }], writtenBytes + descriptor.length, zip64FromBytes)
  return { descriptor, end: Buffer.from(end.buffer) }
}

/*
 * Packs a segment in one go, for a thread that does nothing else (segment-worker.ts). Each file is read into its final
 * place in the zip, and replaced there by its deflated contents. This needs no stream, no turn of the event loop, and
 * no memory except that of the segment. measured: bench/pack
 */

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
const spareSegmentBytes = 1024
/** Part of its window that zlib keeps free (MIN_LOOKAHEAD). */
const lookaheadBytes = 262

/**
 * Returns tables of the size that the file fills: a larger window, or room for more symbols in a block, would change
 * nothing. The default of 256 KiB would be cleared for each file, and V8 collects garbage more often with larger
 * buffers.
 */
function tablesFor(bytes: number): ZlibOptions {
  const windowBits = Math.max(9, Math.min(15, Math.ceil(Math.log2(bytes + lookaheadBytes))))
  return { windowBits, memLevel: Math.min(8, windowBits - 6), chunkSize: bytes + spareSegmentBytes }
}
