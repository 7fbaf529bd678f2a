/* Staging the files of an archive, in the order of their bytes; small ones whole, large ones piece by piece. */
import { createEntryReader, isSmall, type EntryReader } from '../archive/entry-data.js'
import type { Archive, ArchiveEntry } from '../archive/read.js'
import type { Stage } from '../target/stage.js'
import type { SecondStage } from './second-stage.js'

/** Files that one thread takes at a time; together no more than some windows of the archive. */
const batchFiles = 64
const batchBytes = 2 * 1024 * 1024

/** A file of an archive, with its number there. */
export interface NumberedEntry { index: number; entry: ArchiveEntry }

/**
 * Stages every file; links and directories are not its business. `check` throws when it is to be given up. Of small
 * files `second` gets as many batches as it has time for; it works no longer when this settles.
 */
export async function stageEntries(
  archive: Archive, stage: Stage, check: () => void, second: SecondStage | null = null
): Promise<void> {
  const reader = createEntryReader(archive)
  try {
    for (const batch of batchesOf(archive.entries)) {
      check()
      if (second?.isStopped()) break
      if (second?.take(batch)) continue
      for (const { index, entry } of batch) {
        check()
        if (isSmall(entry)) stage.file(index, reader.readWhole(entry))
        else await stageLargeFile(entry, index, stage, reader, check)
      }
    }
  } catch (error) {
    second?.stop()
    await second?.settled().catch(() => {})
    throw error
  }
  await second?.settled()
}

/** Small files by the batch, in order; each large one by itself. */
function* batchesOf(entries: readonly ArchiveEntry[]): Generator<NumberedEntry[]> {
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

async function stageLargeFile(
  entry: ArchiveEntry, index: number, stage: Stage, reader: EntryReader, check: () => void
): Promise<void> {
  const file = stage.largeFile(index)
  try {
    await reader.readPieces(entry, piece => {
      check()
      file.write(piece)
    })
  } catch (error) {
    file.drop()
    throw error
  }
  file.finish()
}
