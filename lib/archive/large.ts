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

const pieceBytes = 512 * 1024
/** How far back deflate looks. */
const windowBytes = 32 * 1024
/** What noise grows by; and memory of its own, not of Node's pool, which no other thread can be given. */
const spareBytes = 8 * 1024
/** A last block without contents. */
const emptyBlock = Buffer.from([0x03, 0x00])

/** What a thread is asked to deflate. */
export interface PieceTask {
  kind: 'piece'
  bytes: Uint8Array<ArrayBuffer>
  /** What stands before it; empty: nothing. */
  dictionary: Uint8Array
  level: number
}

/** A piece, deflated, in memory that may be handed to another thread. */
export function packPiece({ bytes, dictionary, level }: PieceTask): Uint8Array<ArrayBuffer> {
  const options = { level, chunkSize: bytes.length + spareBytes, finishFlush: constants.Z_SYNC_FLUSH }
  return deflateRawSync(bytes, dictionary.length === 0 ? options : { ...options, dictionary }) as Uint8Array<ArrayBuffer>
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
  /** Of the source. */
  bytes: number
  /** Of the last part of the contents: what the entry's end is made of. */
  entry: Entry | null
}

/**
 * A source as an entry: its local header and contents. Each part is packed ahead of its turn, if it is asked for ahead.
 * Refuses (`unavailable`): file_vanished, file_changed, file_unreadable.
 */
export async function* packLarge(source: ZipSource, { level, zip64FromBytes, threads }: LargeOptions): AsyncGenerator<LargePart> {
  const isDeflated = level > 0 && isWorthDeflating(source)
  const entry: Entry = { ...begin(source, 0, zip64FromBytes), method: isDeflated ? deflated : stored, isStreamed: true }
  yield { ready: Promise.resolve(localHeader(entry)), bytes: 0, entry: null }
  let dictionary = new Uint8Array()
  for await (const bytes of blocksOf(source, async () => Buffer.from(new ArrayBuffer(pieceBytes)))) {
    entry.crc = crc32(bytes, entry.crc)
    const before = dictionary
    dictionary = Uint8Array.from(bytes.subarray(-windowBytes))
    const ready = isDeflated ? threads.pack({ kind: 'piece', bytes, dictionary: before, level }) : Promise.resolve(bytes)
    yield { ready, bytes: bytes.length, entry: null }
  }
  yield { ready: Promise.resolve(isDeflated ? emptyBlock : new Uint8Array()), bytes: 0, entry }
}

/** What stands behind an entry whose header and contents are `writtenBytes`, and the end of a zip that has no other. */
export function endLarge(entry: Entry, writtenBytes: number, zip64FromBytes: number): { descriptor: Buffer; end: Buffer } {
  const packedBytes = writtenBytes - localHeaderBytes(entry)
  const descriptor = descriptorOf({ ...entry, packedBytes })
  return { descriptor, end: directoryOf([{ ...entry, packedBytes }], writtenBytes + descriptor.length, zip64FromBytes) }
}
