/*
 * The threads that search. Starting one takes as long as searching 200 MB, so one that has nothing to do is kept for
 * some seconds: whoever searches mostly searches again. It keeps no process alive, and an idle server has none.
 */
import { Worker } from 'node:worker_threads'
import type { LogLevel } from '../model/log-level.js'
import type { Pattern } from './pattern.js'
import type { FoundHit } from './search-block.js'

/** What a thread must know of a search. */
export interface ThreadPlan {
  fd: number
  pattern: Pattern
  context: number
  maxHits: number
  /** Of a run: the last hit is given first. */
  isNewestFirst: boolean
  /** As in `SearchQuery`. */
  level: LogLevel | undefined
}

/** Thread, search these bytes of a file that is `size` long, or longer than a block can see. */
export interface Run {
  index: number
  from: number
  to: number
  size: number
}

export type Order = { plan: ThreadPlan } | { run: Run }

/** What a thread has found of a run. */
export interface Found {
  index: number
  hits: FoundHit[]
  /** Those of the hits and those around them. */
  lines: number
  isEnd: boolean
}

/**
 * The cells a thread shares with us: signs of life, one when it is loaded, one for each block it begins, each hit, and
 * now and then while it waits; whether it is to leave its runs as they are; and how many lines it has found that were
 * not sent yet.
 */
export const signCell = 0
export const stopCell = 1
export const unsentCell = 2
/** Above it a thread waits: what is found is not held here, and whoever asks for something else has his turn between. */
export const maxUnsentLines = 1000

export interface SearchThread {
  /** Runs given to it and not ended. */
  readonly runs: number
  /** Of life: a thread that gives none while it has runs has met an expression that does not end. */
  readonly signs: number
  search(run: Run): void
  /** What it has found was sent. */
  sent(found: Found): void
  /** It may be used by others then, or has ended, and reads nothing of this search's any more. What it found stays. */
  release(): Promise<void>
}

export interface SearchThreads {
  /** A thread, warm or new, for one search. */
  take(plan: ThreadPlan, on: { found(found: Found): void; error(error: unknown): void }): SearchThread
  close(): Promise<void>
}

interface Thread {
  worker: Worker
  cells: Int32Array
  runs: number
  isEnded: boolean
  idle: NodeJS.Timeout | undefined
  onFound(found: Found): void
  onError(error: unknown): void
  onDrained(): void
}

const keptMs = 5_000
/** As many as the searches of a server have together: none is started while one that can be had is being ended. */
const maxKept = 3
/** In which a thread that is told to stop should have come to the end of its block. */
const stopMs = 250
/** What is young dies at once: twice the room takes 3 MB more and no time less. The old is what was found and not yet sent. */
const resourceLimits = { maxYoungGenerationSizeMb: 1, maxOldGenerationSizeMb: 64 }

export function createSearchThreads(): SearchThreads {
  const kept: Thread[] = []
  let isClosed = false

  function start(): Thread {
    const cells = new Int32Array(new SharedArrayBuffer(3 * Int32Array.BYTES_PER_ELEMENT))
    const worker = new Worker(new URL('./search-worker.js', import.meta.url), { workerData: cells, resourceLimits, execArgv: [] })
    const thread: Thread = { worker, cells, runs: 0, isEnded: false, idle: undefined, ...nobody }
    worker.on('message', (found: Found) => {
      if (found.isEnd) thread.runs--
      thread.onFound(found)
      if (thread.runs === 0) thread.onDrained()
    })
    worker.on('error', error => {
      thread.isEnded = true
      forget(thread)
      thread.onError(error)
      thread.onDrained()
    })
    return thread
  }

  function forget(thread: Thread): void {
    clearTimeout(thread.idle)
    const at = kept.indexOf(thread)
    if (at !== -1) kept.splice(at, 1)
  }

  async function end(thread: Thread): Promise<void> {
    forget(thread)
    await thread.worker.terminate()
  }

  async function release(thread: Thread): Promise<void> {
    thread.onFound = thread.onError = () => {}
    if (thread.runs > 0 && !thread.isEnded) await drained(thread)
    if (thread.runs > 0 || thread.isEnded || isClosed || kept.length >= maxKept) return await end(thread)
    kept.push(thread)
    thread.worker.unref()
    thread.idle = setTimeout(() => void end(thread), keptMs)
    thread.idle.unref()
  }

  return {
    take(plan, { found, error }) {
      const thread = kept.pop() ?? start()
      clearTimeout(thread.idle)
      thread.worker.ref()
      Object.assign(thread, { ...nobody, onFound: found, onError: error })
      Atomics.store(thread.cells, stopCell, 0)
      Atomics.store(thread.cells, unsentCell, 0)
      thread.worker.postMessage({ plan } satisfies Order)
      let isReleased = false
      return {
        get runs() { return thread.runs },
        get signs() { return Atomics.load(thread.cells, signCell) },
        search(run) {
          thread.runs++
          thread.worker.postMessage({ run } satisfies Order)
        },
        sent({ lines }) {
          // What it found before it was let go: it is another search that counts now.
          if (isReleased) return
          Atomics.sub(thread.cells, unsentCell, lines)
          Atomics.notify(thread.cells, unsentCell)
        },
        release() {
          isReleased = true
          return release(thread)
        }
      }
    },
    async close() {
      isClosed = true
      await Promise.all([...kept].map(end))
    }
  }
}

const nobody = { onFound: () => {}, onError: () => {}, onDrained: () => {} }

/** Waits until a thread has left its runs, but not for ever: an expression without end does not hear. */
async function drained(thread: Thread): Promise<void> {
  Atomics.store(thread.cells, stopCell, 1)
  Atomics.notify(thread.cells, unsentCell)
  await new Promise<void>(resolve => {
    const look = (): void => {
      // It still loads its modules: terminated now, Node would leave them open for good.
      if (Atomics.load(thread.cells, signCell) === 0) timer = setTimeout(look, stopMs)
      else resolve()
    }
    let timer = setTimeout(look, stopMs)
    thread.onDrained = () => {
      clearTimeout(timer)
      resolve()
    }
  })
}
