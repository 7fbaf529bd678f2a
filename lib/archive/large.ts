/*
 * Cuts a large source into pieces that threads deflate in parallel, as pigz does. A piece is deflated with the 32 KiB
 * before it as its dictionary, and ends on a whole byte (Z_SYNC_FLUSH). So the pieces one after the other, followed by
 * an empty last block, equal the result of one deflation except for a few bytes (RFC 1951). measured: bench/pack
 *
 * Memory use is a few pieces, whatever the size of the source.
 */
import { constants, deflateRawSync } from 'node:zlib'
import { crc32 } from '../base/digests.js'
import { deflated, descriptorOf, directoryOf, localHeader, localHeaderBytes, stored } from '../shared/zip-records.js'
import { blocksOf, type Entry, isWorthDeflating, newEntry, type ZipSource } from './source.js'

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
