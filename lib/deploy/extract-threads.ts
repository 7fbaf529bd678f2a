/*
 * The threads that extract: at most two, shared by all deployments, started when there is work and kept warm for a
 * while, because starting one takes 25 ms and 60 ms of processor time, ten times what a small deployment itself needs.
 * Jobs begin in the order in which they came, one to a thread; two threads for one job were slower on small files.
 * measured: bench/extract
 *
 * A thread keeps the process alive only while it works. One that dies takes its own job with it and no other.
 */
import { Worker } from 'node:worker_threads'
import type { PackedError } from '../base/packed-error.js'
import type { Extracted, ExtractionJob } from './extraction.js'

/** What a thread is sent. */
export interface Task {
  job: ExtractionJob
  /** One cell, not 0 once the job is to be given up: a thread that works synchronously reads no messages. */
  stop: Int32Array
}

/** What it answers. */
export type Answer =
  | { kind: 'extracted'; extracted: Extracted }
  | { kind: 'failed'; error: PackedError }

export interface ExtractThreads {
  /**
   * Runs a job; resolves with null when its thread died without an answer. Aborted before its turn it rejects with the
   * signal's reason; after that, the answer says what came of it.
   */
  run(job: ExtractionJob, signal: AbortSignal): Promise<Answer | null>
  /** Ends the threads that have nothing to do. */
  close(): Promise<void>
}

const maxThreads = 2
/** A thread that had no work for so long ends, and its memory goes back. */
const defaultIdleMs = 10_000

/** A thread's young objects are few and die at once; the usual 48 MB would only be filled with them. */
const maxYoungGenerationSizeMb = 3
/**
 * The old ones are the table of contents, with which 200,000 entries need about 90 MB; without a limit the heap grows
 * past twice that before it is collected. measured: bench/extract
 */
const defaultHeapMb = 192

interface Waiting {
  task: Task
  resolve(answer: Answer | null): void
  /** Its turn has come. */
  begun(): void
}

interface Thread {
  worker: Worker
  current: Waiting | null
  idle: NodeJS.Timeout | undefined
}

/** Threads that start when there is work. `heapMb` is what one may have for its objects before it dies. */
export function createExtractThreads(
  { idleMs = defaultIdleMs, heapMb = defaultHeapMb }: { idleMs?: number; heapMb?: number } = {}
): ExtractThreads {
  const resourceLimits = { maxYoungGenerationSizeMb, maxOldGenerationSizeMb: heapMb }
  const threads = new Set<Thread>()
  const queue: Waiting[] = []

  function start(): Thread {
    const worker = new Worker(new URL('./extract-worker.js', import.meta.url), { resourceLimits, execArgv: [] })
    const thread: Thread = { worker, current: null, idle: undefined }
    threads.add(thread)
    worker.on('message', (answer: Answer) => rest(thread, answer))
    // What it died of (out of memory, a bug), the missing answer says well enough; `exit` follows.
    worker.on('error', () => {})
    worker.once('exit', () => {
      threads.delete(thread)
      thread.current?.resolve(null)
      dispatch()
    })
    return thread
  }

  function rest(thread: Thread, answer: Answer): void {
    thread.current?.resolve(answer)
    thread.current = null
    thread.worker.unref()
    thread.idle = setTimeout(end, idleMs, thread).unref()
    dispatch()
  }

  async function end(thread: Thread): Promise<void> {
    clearTimeout(thread.idle)
    threads.delete(thread)
    await thread.worker.terminate()
  }

  function dispatch(): void {
    while (queue.length > 0) {
      const free = idleThreads()[0] ?? (threads.size < maxThreads ? start() : null)
      if (free === null) return
      clearTimeout(free.idle)
      free.current = queue.shift() as Waiting
      free.current.begun()
      free.worker.ref()
      free.worker.postMessage(free.current.task)
    }
  }

  function idleThreads(): Thread[] {
    return [...threads].filter(thread => thread.current === null)
  }

  return {
    run: (job, signal) => new Promise((resolve, reject) => {
      const stop = new Int32Array(new SharedArrayBuffer(4))
      let hasBegun = false
      const onAbort = (): void => {
        if (hasBegun) return void Atomics.store(stop, 0, 1)
        queue.splice(queue.indexOf(waiting), 1)
        reject(signal.reason)
      }
      const waiting: Waiting = {
        task: { job, stop },
        begun: () => { hasBegun = true },
        resolve(answer) {
          signal.removeEventListener('abort', onAbort)
          resolve(answer)
        }
      }
      if (signal.aborted) return reject(signal.reason)
      signal.addEventListener('abort', onAbort, { once: true })
      queue.push(waiting)
      dispatch()
    }),
    async close() {
      await Promise.all(idleThreads().map(end))
    }
  }
}
