/*
 * A second thread that stages files of the same archive. If the archive has many small files, the thread takes over
 * nearly half of the time, because inflating and hashing are most of the work. The first thread offers it one batch at
 * a time, and stages a batch itself if the second thread is busy. So neither waits, and a second thread that is slow to
 * start costs nothing.
 *
 * Both threads belong to the same process, so the directories that the first holds are valid in the second, by path and
 * by descriptor. The findings about each file are in shared memory (install/record.ts). The first thread waits for the
 * second before it reads them, and before it puts a target back. measured: bench/extract
 */
import { cpus } from 'node:os'
import { isSmall } from '../../archive/entry-data.js'
import { startThread, type WorkerThread } from '../../base/workers.js'
import type { NumberedEntry } from './batches.js'

/** The parameters of an extraction for the second thread. */
export interface StageTask {
  archivePath: string
  /** The held target: its path in calls, and its descriptor. */
  root: { path: string; fd: number | null }
  /** The path of the staging directory in calls (held.ts). */
  staging: string
  umask: number
  toleranceMs: number
  records: SharedArrayBuffer
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
export interface SecondStage {
  /** Takes files to stage. Returns false if the thread is busy, or one of the files is not small. */
  take(batch: NumberedEntry[]): boolean
  /** Tells the thread to stop. */
  stop(): void
  /** Whether the thread was told to stop, or has failed. */
  isStopped(): boolean
  /** Resolves when the thread has stopped working; rejects with its error. Must be called exactly once. */
  settled(): Promise<void>
}

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

function beginIn(thread: StageThread, task: StageTask): SecondStage {
  const cells = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT))
  let given = 0
  thread.post({ kind: 'begin', task, cells })
  return {
    take(batch) {
      if (given - Atomics.load(cells, cell.done) >= maxAhead || !batch.every(({ entry }) => isSmall(entry)))
        return false
      given++
      thread.post({ kind: 'batch', batch })
      return true
    },
    stop: () => void Atomics.store(cells, cell.stop, 1),
    isStopped: () => !thread.isOpen || Atomics.load(cells, cell.stop) !== 0,
    settled: () => thread.ask({ kind: 'end' })
  }
}
