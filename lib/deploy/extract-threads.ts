/*
 * The threads that extract: at most two, shared by all deployments, started when there is work and kept warm for a
 * while, because starting one takes 25 ms and 60 ms of processor time, ten times what a small deployment itself needs.
 * Jobs begin in the order in which they came, one to a thread; one with many files starts a second thread of its own
 * (second-stage.ts). measured: bench/extract
 *
 * A thread keeps the process alive only while it works. One that dies takes its own job with it and no other.
 *
 * A thread that does not answer soon after the abort of its job is terminated, and the next one takes its place. Node
 * cannot interrupt a system call (an NFS server that is gone): such a thread ends when the call does. Its job ends as
 * `stuck`, and the others continue. Node waits for its threads at exit, so a process with a stuck one ends by SIGTERM.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { PackedError } from '../base/packed-error.js'
import { deployIdOf } from '../target/journal-file.js'
import type { Recovery } from '../target/undo.js'
import type { ExtractionPaths } from './extraction-files.js'
import type { Extracted, ExtractionJob } from './extraction.js'

/** What is to be done to a target. Everything in it is data, so that another process could do it as well. */
export type Job =
  | ({ kind: 'extract'; extraction: ExtractionJob } & ExtractionPaths)
  /** Puts back what an extraction left that was cut short. */
  | { kind: 'recover'; journalPath: string }

/** What a thread is sent. */
export interface Task {
  job: Job
  /** One cell, not 0 once the job is to be given up: a thread that works synchronously reads no messages. */
  stop: Int32Array
}

/** What it answers. */
export type Answer =
  | { kind: 'extracted'; extracted: Extracted }
  | { kind: 'recovered'; recovery: Recovery }
  | { kind: 'failed'; error: PackedError }

/** How a job ended: with an answer, with the end of its thread, or with a thread that does not end. */
export type Outcome = Answer | { kind: 'died' } | { kind: 'stuck' }

/** Carries jobs out. */
export interface Executor {
  /**
   * Runs a job. Aborted before its turn it rejects with the signal's reason; after that, the outcome says how the job
   * ended. After `died` and `stuck` an extraction has left its journal; after `stuck` a call of it may still take effect.
   */
  run(job: Job, signal: AbortSignal): Promise<Outcome>
  /** Whether a thread is stuck that extracts a deployment, or puts its target back. */
  isStuck(deployId: string): boolean
}

export interface ExtractThreads extends Executor {
  /** Ends the threads that have nothing to do. */
  close(): Promise<void>
}

const maxThreads = 2
/** A thread that had no work for so long ends, and its memory goes back. */
const defaultIdleMs = 10_000
/** How long a thread has to answer an abort, and then to end. */
const defaultGraceMs = 5_000
const endMs = 1_000

/** A thread's young objects are few and die at once; the usual 48 MB would only be filled with them. */
const maxYoungGenerationSizeMb = 3
/**
 * The old ones are the table of contents, with which 200,000 entries need about 90 MB; without a limit the heap grows
 * past twice that before it is collected. measured: bench/extract
 */
const defaultHeapMb = 192

interface Waiting {
  task: Task
  resolve(outcome: Outcome): void
  /** Its turn has come. */
  begun(thread: Thread): void
}

interface Thread {
  worker: Worker
  current: Waiting | null
  idle: NodeJS.Timeout | undefined
}

export interface ThreadOptions {
  idleMs?: number
  /** What a thread may have for its objects before it dies. */
  heapMb?: number
  /** How long a thread has to answer an abort. */
  graceMs?: number
}

/** Threads that start when there is work. */
export function createExtractThreads(
  { idleMs = defaultIdleMs, heapMb = defaultHeapMb, graceMs = defaultGraceMs }: ThreadOptions = {}
): ExtractThreads {
  const resourceLimits = { maxYoungGenerationSizeMb, maxOldGenerationSizeMb: heapMb }
  const threads = new Set<Thread>()
  const stuck = new Map<Thread, Job>()
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
      if (stuck.delete(thread) && stuck.size === 0) process.off('exit', endBySignal)
      thread.current?.resolve({ kind: 'died' })
      thread.current = null
      dispatch()
    })
    return thread
  }

  function rest(thread: Thread, answer: Answer): void {
    thread.current?.resolve(answer)
    thread.current = null
    // One that answers while it is being terminated takes no more jobs.
    if (!threads.has(thread)) return
    thread.worker.unref()
    thread.idle = setTimeout(end, idleMs, thread).unref()
    dispatch()
  }

  async function end(thread: Thread): Promise<void> {
    clearTimeout(thread.idle)
    threads.delete(thread)
    await thread.worker.terminate()
  }

  /** Ends a thread that does not answer; where it cannot be ended, its job is over all the same. */
  async function terminate(thread: Thread): Promise<void> {
    const { current } = thread
    const ended = end(thread)
    await Promise.race([ended, sleep(endMs)])
    if (thread.current === current && current !== null) {
      if (stuck.size === 0) process.once('exit', endBySignal)
      stuck.set(thread, current.task.job)
      thread.current = null
      thread.worker.unref()
      current.resolve({ kind: 'stuck' })
    }
    dispatch()
  }

  function dispatch(): void {
    while (queue.length > 0) {
      const free = idleThreads()[0] ?? (threads.size < maxThreads ? start() : null)
      if (free === null) return
      clearTimeout(free.idle)
      free.current = queue.shift() as Waiting
      free.current.begun(free)
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
      let thread: Thread | null = null
      let grace: NodeJS.Timeout | undefined
      const onAbort = (): void => {
        if (thread !== null) {
          Atomics.store(stop, 0, 1)
          grace = setTimeout(terminate, graceMs, thread)
          return
        }
        queue.splice(queue.indexOf(waiting), 1)
        reject(signal.reason)
      }
      const waiting: Waiting = {
        task: { job, stop },
        begun: by => { thread = by },
        resolve(outcome) {
          clearTimeout(grace)
          signal.removeEventListener('abort', onAbort)
          resolve(outcome)
        }
      }
      if (signal.aborted) return reject(signal.reason)
      signal.addEventListener('abort', onAbort, { once: true })
      // What is to be put back is waited for, by a cancel or the next deployment.
      if (job.kind === 'recover') queue.unshift(waiting)
      else queue.push(waiting)
      dispatch()
    }),
    isStuck: deployId => [...stuck.values()].some(job => deployIdOf(job.journalPath) === deployId),
    async close() {
      await Promise.all(idleThreads().map(end))
    }
  }
}

/** At exit everything has been done: only the threads would be waited for, and one of them does not end. */
function endBySignal(): void {
  process.removeAllListeners('SIGTERM')
  process.kill(process.pid, 'SIGTERM')
}
