/*
 * The threads that pack: segments, which they read, too (segment-memory.ts), and pieces of what is large (large.ts). All
 * of it is synchronous, which costs a third of what the same takes through streams and the thread pool. measured:
 * bench/pack
 */
import { cpus } from 'node:os'
import { Worker } from 'node:worker_threads'
import { unpackError, type PackedError } from '../base/packed-error.js'
import type { PieceTask } from './large.js'
import type { ZipSource } from './source.js'

export interface SegmentTask {
  kind: 'segment'
  /** Without `onRead`. */
  sources: readonly ZipSource[]
  level: number
}

export type PackTask = SegmentTask | PieceTask

export type PackAnswer =
  | { kind: 'packed'; packed: Uint8Array<ArrayBuffer> }
  | { kind: 'failed'; error: PackedError }

export interface SegmentThreads {
  /** How many tasks are worked on at a time, at most. */
  readonly count: number
  /**
   * As `packInMemory` or `packPiece`, in a thread; begun in the order of the calls. The bytes of a piece are the thread's
   * from then on.
   */
  pack(task: PackTask): Promise<Uint8Array<ArrayBuffer>>
  /**
   * Ends the threads, each after the segment that it works on. They are not terminated: of a thread that still loads its
   * modules, Node would leave the open ones open for good.
   */
  close(): Promise<void>
}

/** Each holds a segment or two in memory. */
const maxThreads = 2
/** A thread's young objects die at once; the usual 48 MB would only be filled with them. */
const maxYoungGenerationSizeMb = 4

interface Waiting {
  task: PackTask
  resolve(packed: Uint8Array<ArrayBuffer>): void
  reject(error: unknown): void
}

/** Threads that start when there is work for them. */
export function createSegmentThreads(): SegmentThreads {
  const count = Math.max(1, Math.min(maxThreads, cpus().length))
  const busy = new Map<Worker, Waiting | null>()
  const queue: Waiting[] = []

  function start(): Worker {
    const resourceLimits = { maxYoungGenerationSizeMb }
    const worker = new Worker(new URL('./segment-worker.js', import.meta.url), { resourceLimits, execArgv: [] })
    worker.on('message', (answer: PackAnswer) => {
      const current = busy.get(worker)
      busy.set(worker, null)
      if (answer.kind === 'packed') current?.resolve(answer.packed)
      else current?.reject(unpackError(answer.error))
      dispatch()
    })
    worker.on('error', error => busy.get(worker)?.reject(error))
    worker.once('exit', () => {
      busy.get(worker)?.reject(new Error('a thread that packed files died'))
      busy.delete(worker)
    })
    return worker
  }

  function dispatch(): void {
    while (queue.length > 0) {
      const [free] = [...busy].find(([, current]) => current === null) ?? [busy.size < count ? start() : null]
      if (free === null) return
      const next = queue.shift() as Waiting
      busy.set(free, next)
      free.postMessage(next.task, next.task.kind === 'piece' ? [next.task.bytes.buffer] : [])
    }
  }

  return {
    count,
    pack: task => new Promise((resolve, reject) => {
      queue.push({ task, resolve, reject })
      dispatch()
    }),
    async close() {
      queue.length = 0
      await Promise.all([...busy.keys()].map(worker => {
        const ended = new Promise(resolve => worker.once('exit', resolve))
        worker.postMessage(null)
        return ended
      }))
    }
  }
}
