/* Staging the files of an archive, in the order of their bytes; small ones whole, large ones piece by piece. */
import { createEntryReader, isSmall, type EntryReader } from '../archive/entry-data.js'
import type { Archive, ArchiveEntry } from '../archive/read.js'
import type { Stage } from '../target/stage.js'

/** Stages every file; links and directories are not its business. `check` throws when it is to be given up. */
export async function stageEntries(archive: Archive, stage: Stage, check: () => void): Promise<void> {
  const reader = createEntryReader(archive)
  for (const [index, entry] of archive.entries.entries()) {
    if (entry.kind !== 'file') continue
    check()
    if (isSmall(entry)) stage.file(index, reader.readWhole(entry))
    else await stageLargeFile(entry, index, stage, reader, check)
  }
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
