/*
 * A second thread that stages files of the same archive. If the archive has many small files, the thread takes over
 * nearly half of the time, because inflating and hashing are most of the work. The first thread offers it one batch at
 * a time, and stages a batch itself if the second thread is busy. So neither waits, and a second thread that is slow to
 * start costs nothing.
 *
 * Both threads belong to the same process, so the directories that the first holds are valid in the second, by path and
 * by descriptor. The findings about each file are in shared memory (core/install/plan.ts). The first thread waits for
 * the second before it reads them, and before it puts a target back. measured: bench/extract
 */

import { cpus } from 'node:os'
import { createEntryReader, type EntryReader, isSmall } from '../../archive/entry-data.js'
import { startThread, type WorkerThread } from '../../../base/workers.js'
import type { Archive, ArchiveEntry } from '../../archive/read.js'
import type { Stage } from '../staging.js'

/** The parameters of an extraction for the second thread. */
export interface StageTask {
  archivePath: string
  /** The held target: its path in calls, and its descriptor. */
  root: { path: string; fd: number | null }
  /** The path of the staging directory in calls (core/install/held.ts). */
  staging: string
  umask: number
  toleranceMs: number
  records: readonly SharedArrayBuffer[]
}

/**
 * Indexes of the shared cells. `stop` is not 0 if the work must be abandoned; `done` is the number of finished batches.
 */
export const cell = { stop: 0, done: 1 } as const

/** A message to the second thread. */
export type StageMessage =
  | { kind: 'begin'; task: StageTask; cells: Int32Array }
  | { kind: 'batch'; batch: NumberedEntry[] }
  /**
   * The only message with an answer, which comes after all earlier work: nothing, or the error that stopped the thread.
   */
  | { kind: 'end' }

type StageThread = WorkerThread<StageMessage, void>

/** The second thread's part of one extraction. */
export type SecondStage = ReturnType<typeof beginIn>

/**
 * Starts the second thread's part of an extraction with this number of entries. Returns null if that would not save
 * time.
 */
export type BeginSecond = (task: Omit<StageTask, 'archivePath'>, entries: number) => SecondStage | null

/** With fewer entries, starting a thread takes longer than staging them. */
const minEntries = 1_000
/** Number of batches that are queued in the second thread, so that it is never idle. */
const maxAhead = 2
const module = new URL('./stage-worker.js', import.meta.url)
/**
 * The limit for young objects is that of extract-threads.ts. The thread has one batch of the archive in memory at a
 * time.
 */
const resourceLimits = { maxYoungGenerationSizeMb: 3, maxOldGenerationSizeMb: 64 }

/** Creates a second thread that starts when it is first needed, and ends with the current thread. */
export function createSecondThread(): { of(archivePath: string): BeginSecond } {
  let thread: StageThread | null = null

  return {
    of: archivePath => (task, entries) => {
      if (entries < minEntries || cpus().length < 2) return null
      if (thread?.isOpen !== true) thread = startThread({ module, resourceLimits })
      return beginIn(thread, { ...task, archivePath })
    }
  }
}

function beginIn(thread: StageThread, task: StageTask) {
  const cells = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT))
  let given = 0
  thread.post({ kind: 'begin', task, cells })
  return {
    /** Takes files to stage. Returns false if the thread is busy, or one of the files is not small. */
    take(batch: NumberedEntry[]): boolean {
      if (given - Atomics.load(cells, cell.done) >= maxAhead || !batch.every(({ entry }) => isSmall(entry)))
        return false
      given++
      thread.post({ kind: 'batch', batch })
      return true
    },

    /** Tells the thread to stop. */
    stop: (): void => void Atomics.store(cells, cell.stop, 1),
    /** Whether the thread was told to stop, or has failed. */
    isStopped: (): boolean => !thread.isOpen || Atomics.load(cells, cell.stop) !== 0,
    /** Resolves when the thread has stopped working; rejects with its error. Must be called exactly once. */
    settled: (): Promise<void> => thread.ask({ kind: 'end' })
  }
}

/* Stages the files of an archive in the order of their bytes; small files whole, large ones piece by piece. */

/** Lets other work of the thread come first, if a promise is returned. */
export type Pause = () => Promise<void> | undefined

export interface StagingNeeds {
  stage: Stage
  /** Whether a file still has to be staged. */
  isPending(index: number): boolean
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
export async function stageEntries(
  archive: Archive,
  { stage, isPending, check, pause, second }: StagingNeeds
): Promise<void> {
  const reader = createEntryReader(archive)
  try {
    for (const batch of batchesOf(archive.entries, isPending)) {
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
  { stage, check }: Pick<StagingNeeds, 'stage' | 'check'>
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

/* Groups the files of an archive into batches: the unit of work of a thread. */

/** Limits of a batch. Its bytes are a few read windows of the archive. */
const batchFiles = 64
const batchBytes = 2 * 1024 * 1024

/** A file of an archive, with its index there. */
export interface NumberedEntry {
  index: number
  entry: ArchiveEntry
}

/** Yields small files in batches, in the order of the archive, and each large file alone. Skips all other entries. */
export function* batchesOf(
  entries: readonly ArchiveEntry[],
  isPending: (index: number) => boolean
): Generator<NumberedEntry[]> {
  let batch: NumberedEntry[] = []
  let bytes = 0
  for (const [index, entry] of entries.entries()) {
    if (entry.kind !== 'file' || !isPending(index)) continue
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
