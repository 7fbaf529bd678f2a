/* The digests of an archive that shares contents (pack-set.ts), before there is anything to open. */
import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { localHeader } from '../../base/shared/zip-records.js'
import {
  createPackReader,
  directoryPieces,
  type PackEntries,
  type PackReader,
  type PlacedEntry,
  placedEntries,
  recordOf,
  wholePieceBytes
} from './pack-set.js'
import type { ArchiveEntry, Pack } from './read.js'

/**
 * Returns the length of the zip that an index stands for, its SHA-256, and that of its directory. Nothing is kept of its
 * entries.
 */
export async function digestPackSet(
  index: PackEntries,
  packs: readonly Pack[]
): Promise<{ bytes: number; sha256: string; directorySha256: string }> {
  const [whole, directory] = [createHash('sha256'), createHash('sha256')]
  let bytes = 0
  for (const piece of contentPieces(index, packs)) {
    whole.update(piece)
    bytes += piece.length
    await nextTurn()
  }
  for (const piece of directoryPieces(entriesOnly(placedEntries(index, packs, '')))) {
    for (const hash of [whole, directory]) hash.update(piece)
    bytes += piece.length
    await nextTurn()
  }
  return { bytes, sha256: whole.digest('hex'), directorySha256: directory.digest('hex') }
}

function* entriesOnly(placed: Iterable<PlacedEntry>): Generator<ArchiveEntry> {
  for (const { entry } of placed) yield entry
}

/** Yields the local headers and the packed bytes of entries of packs. A piece is valid until the next one. */
function* contentPieces(index: PackEntries, packs: readonly Pack[]): Generator<Uint8Array> {
  const readers = packs.map(createPackReader)
  const block = Buffer.allocUnsafeSlow(wholePieceBytes)
  let filled = 0
  for (const { entry, pack, ordinal } of placedEntries(index, packs, '')) {
    const header = localHeader(recordOf(entry))
    const packed = (packs[pack] as Pack).entryOf(ordinal) as ArchiveEntry
    const length = header.length + entry.compressedSize
    for (let done = 0; done < length; ) {
      if (filled === block.length) {
        yield block
        filled = 0
      }
      const into = block.subarray(filled, filled + (done < header.length ? header.length : length) - done)
      if (done < header.length) into.set(header.subarray(done, done + into.length))
      else (readers[pack] as PackReader).read(packed, done - header.length, into)
      filled += into.length
      done += into.length
    }
  }
  yield block.subarray(0, filled)
}
