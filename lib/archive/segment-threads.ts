/*
 * The threads that pack. They pack segments, which they also read (segment-memory.ts), and pieces of large files
 * (large.ts), and digest sources for a tree (source.ts). They use synchronous calls only, which takes a third
 * less time than streams and the thread pool. measured: bench/pack
 */
import { cpus } from 'node:os'
import { createWorkerPool } from '../base/workers.js'
import type { PieceTask } from './large.js'
import type { DigestTask, ZipSource } from './source.js'

/** A segment for a thread to pack. */
export interface SegmentTask {
  kind: 'segment'
  /** Sources without `onRead`. */
  sources: readonly ZipSource[]
  level: number
}

/** A task of a thread. */
export type PackTask = SegmentTask | PieceTask | DigestTask

/** The threads that pack. */
export interface SegmentThreads {
  /** Maximum number of tasks in progress. */
  readonly count: number
  /**
   * Runs `packInMemory`, `packPiece` or `digestSources` in a thread. Tasks begin in the order of the calls. The bytes
   * of a piece are transferred to the thread.
   */
  pack(task: PackTask): Promise<Uint8Array<ArrayBuffer>>
  /** Ends the threads, each after the task in progress. Queued tasks reject. */
  close(): Promise<void>
}

/** Each thread has one or two segments in memory. */
const maxThreads = 2
/** Young objects of a thread are short-lived; the default of 48 MB would only be filled with garbage. */
const maxYoungGenerationSizeMb = 4

/** Creates threads that start when there is work for them. */
export function createSegmentThreads(): SegmentThreads {
  const count = Math.max(1, Math.min(maxThreads, cpus().length))
  const pool = createWorkerPool<PackTask, Uint8Array<ArrayBuffer>>({
    module: new URL('./segment-worker.js', import.meta.url),
    resourceLimits: { maxYoungGenerationSizeMb },
    maxBusy: count
  })
  return {
    count,
    pack: task => pool.use(thread => thread.ask(task, { transfer: task.kind === 'piece' ? [task.bytes.buffer] : [] })),
    close: () => pool.close({ waitForBusy: true })
  }
}
