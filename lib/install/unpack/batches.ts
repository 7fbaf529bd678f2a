/* Groups the files of an archive into batches: the unit of work of a thread. */
import { isSmall } from '../../archive/entry-data.js'
import type { ArchiveEntry } from '../../archive/read.js'

/** Limits of a batch. Its bytes are a few read windows of the archive. */
const batchFiles = 64
const batchBytes = 2 * 1024 * 1024

/** A file of an archive, with its index there. */
export interface NumberedEntry {
  index: number
  entry: ArchiveEntry
}

/** Yields small files in batches, in the order of the archive, and each large file alone. Skips all other entries. */
export function* batchesOf(entries: readonly ArchiveEntry[]): Generator<NumberedEntry[]> {
  let batch: NumberedEntry[] = []
  let bytes = 0
  for (const [index, entry] of entries.entries()) {
    if (entry.kind !== 'file') continue
    if (!isSmall(entry)) {
      yield [{ index, entry }]
      continue
    }
    batch.push({ index, entry })
    bytes += entry.size + entry.compressedSize
    if (batch.length < batchFiles && bytes < batchBytes) continue
    yield batch
    batch = []
    bytes = 0
  }
  yield batch
}
