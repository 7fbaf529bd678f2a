/*
 * A large source, cut into pieces that threads deflate side by side, as pigz does. A piece is deflated with the 32 KiB
 * before it as its dictionary and ends on a whole byte (Z_SYNC_FLUSH), so that the pieces one after the other, and an
 * empty last block, are what one deflation would have given but for a few bytes (RFC 1951). measured: bench/pack
 *
 * What it takes in memory is some pieces, whatever the source has.
 */
import { constants, deflateRawSync } from 'node:zlib'
import { crc32 } from '../base/crc32.js'
import type { SegmentThreads } from './segment-threads.js'
import { isWorthDeflating, type ZipSource } from './source.js'
import { blocksOf } from './source-bytes.js'
import { begin, deflated, descriptorOf, directoryOf, localHeader, localHeaderBytes, stored, type Entry } from './zip-records.js'

/** Smaller ones take more memory: they leave more behind for the collector. measured: bench/pack */
const pieceBytes = 1024 * 1024
/** How far back deflate looks. */
const windowBytes = 32 * 1024
/** Noise grows by less. */
const spareBytes = 8 * 1024
const roomBytes = pieceBytes + spareBytes
/**
 * What zlib is given for a piece. Nobody touches the rest, but the collector counts it, and comes after a few pieces:
 * 20 MB less. measured: bench/pack
 */
const chunkBytes = 4 * roomBytes
/** A last block without contents. */
const emptyBlock = Buffer.from([0x03, 0x00])

/** What a thread is asked to deflate. */
export interface PieceTask {
  kind: 'piece'
  /** At the beginning of memory that has room for them when they are packed. */
  bytes: Uint8Array<ArrayBuffer>
  /** What stands before it; empty: nothing. */
  dictionary: Uint8Array
  level: number
}

/** Deflates a piece, in its place. */
export function packPiece({ bytes, dictionary, level }: PieceTask): Uint8Array<ArrayBuffer> {
  const options = { level, chunkSize: chunkBytes, finishFlush: constants.Z_SYNC_FLUSH }
  const packed = deflateRawSync(bytes, dictionary.length === 0 ? options : { ...options, dictionary })
  const room = new Uint8Array(bytes.buffer)
  room.set(packed)
  return room.subarray(0, packed.length)
}

export interface LargeOptions {
  level: number
  /** Larger sources are told of as zip64 has them. */
  zip64FromBytes: number
  threads: SegmentThreads
}

/** The next bytes of a zip that has one entry. */
export interface LargePart {
  ready: Promise<Uint8Array>
  /** To be called when they were written: their memory is used again. */
  release: (() => void) | null
  /** Of the source. */
  bytes: number
  /** Of the last part of the contents: what the entry's end is made of. */
  entry: Entry | null
}

/**
 * Packs sources one after the other: each as an entry, its local header and contents. Parts are packed ahead of their
 * turn, if they are asked for ahead. Refuses (`unavailable`): file_vanished, file_changed, file_unreadable.
 */
export function createLargePacking({ level, zip64FromBytes, threads }: LargeOptions): (source: ZipSource) => AsyncGenerator<LargePart> {
  // Fresh memory for each piece would wait for the collector: 100 MB. measured: bench/pack
  const free: ArrayBuffer[] = []
  const takeRoom = (): ArrayBuffer => free.pop() ?? new ArrayBuffer(roomBytes)

  function pack(bytes: Uint8Array<ArrayBuffer>, dictionary: Uint8Array | null): LargePart {
    const ready = dictionary === null ? Promise.resolve(bytes) : threads.pack({ kind: 'piece', bytes, dictionary, level })
    const release = (): void => void ready.then(({ buffer }) => free.push(buffer), () => {})
    return { ready, release, bytes: bytes.length, entry: null }
  }

  return async function* packLarge(source) {
    const isDeflated = level > 0 && isWorthDeflating(source)
    const entry: Entry = { ...begin(source, 0, zip64FromBytes), method: isDeflated ? deflated : stored, isStreamed: true }
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

/** What stands behind an entry whose header and contents are `writtenBytes`, and the end of a zip that has no other. */
export function endLarge(entry: Entry, writtenBytes: number, zip64FromBytes: number): { descriptor: Buffer; end: Buffer } {
  const packedBytes = writtenBytes - localHeaderBytes(entry)
  const descriptor = descriptorOf({ ...entry, packedBytes })
  return { descriptor, end: directoryOf([{ ...entry, packedBytes }], writtenBytes + descriptor.length, zip64FromBytes) }
}
