/* Stages the files of an archive in the order of their bytes; small files whole, large ones piece by piece. */
import { createEntryReader, isSmall, type EntryReader } from '../../archive/entry-data.js'
import type { Archive } from '../../archive/read.js'
import { batchesOf, type NumberedEntry } from './batches.js'
import type { Stage } from './stage.js'
import type { SecondStage } from './second-stage.js'

/** Lets other work of the thread come first, if a promise is returned. */
export type Pause = () => Promise<void> | undefined

/** What staging needs besides the archive. */
export interface StagingNeeds {
  stage: Stage
  /** Throws if the staging must be abandoned. */
  check(): void
  pause?: Pause | undefined
  /** Takes as many batches of small files as it has time for. */
  second?: SecondStage | null | undefined
}

/**
 * Stages every file of an archive, but not its links and directories. When this settles, `second` has finished its
 * work.
 */
export async function stageEntries(archive: Archive, { stage, check, pause, second }: StagingNeeds): Promise<void> {
  const reader = createEntryReader(archive)
  try {
    for (const batch of batchesOf(archive.entries)) {
      check()
      if (second?.isStopped()) break
      if (second?.take(batch)) continue
      for (const { index, entry } of batch) {
        const paused = pause?.()
        if (paused !== undefined) await paused
        check()
        if (isSmall(entry)) stage.file(index, reader.readWhole(entry))
        else await stageLargeFile({ index, entry }, reader, { stage, check })
      }
    }
  } catch (error) {
    second?.stop()
    await second?.settled().catch(() => {})
    throw error
  }
  await second?.settled()
}

async function stageLargeFile(
  { index, entry }: NumberedEntry,
  reader: EntryReader,
  { stage, check }: StagingNeeds
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
