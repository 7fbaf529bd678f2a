/*
 * Worker threads that start when there is work and are kept idle for later work, because starting a thread takes longer
 * than most of its work. An idle thread does not keep the process running.
 */
import { createGate } from './gate.js'
import { startThread, type ThreadOptions, type WorkerThread } from './worker-thread.js'

/** Limits of a pool. */
export interface PoolOptions extends ThreadOptions {
  /** Maximum number of threads that `use` keeps busy. Default: no limit. */
  maxBusy?: number
  /** Maximum number of idle threads. Default: no limit. */
  maxIdle?: number
  /** Time after which an idle thread ends. Default: it stays until the pool is closed. */
  idleMs?: number
}

/** Options of one use of a thread. */
export interface UseOptions {
  /** Rejects with the signal's reason while the call is queued. */
  signal?: AbortSignal
  /** Puts the call at the front of the queue. */
  isFirst?: boolean
}

/** A pool of worker threads. */
export interface WorkerPool<Request, Answer, Part = never> {
  /** Returns an unused thread, idle or new, ignoring `maxBusy`. The caller must release it. */
  take(): WorkerThread<Request, Answer, Part>
  /** Takes a thread back. Drops it if it was closed or terminated, or has died. */
  release(thread: WorkerThread<Request, Answer, Part>): Promise<void>
  /** Waits for a thread, in the order of the calls, and releases it when `work` has settled. */
  use<T>(work: (thread: WorkerThread<Request, Answer, Part>) => Promise<T>, options?: UseOptions): Promise<T>
  /**
   * Ends idle threads now. Busy threads end when they are released, or with `waitForBusy` after their current requests.
   * Queued calls of `use` reject.
   */
  close(options?: { waitForBusy?: boolean }): Promise<void>
}

/** Creates a pool without threads; the first work starts one. */
export function createWorkerPool<Request, Answer, Part = never>(
  options: PoolOptions
): WorkerPool<Request, Answer, Part> {
  type Thread = WorkerThread<Request, Answer, Part>
  const { maxBusy = Infinity, maxIdle = Infinity, idleMs } = options
  const gate = createGate({ places: maxBusy })
  const busy = new Set<Thread>()
  const idle = new Map<Thread, NodeJS.Timeout | undefined>()
  let isClosed = false

  /** Returns the thread that became idle last, so that the others reach the end of their idle time. */
  function takeIdle(): Thread | undefined {
    for (const [thread, timer] of [...idle].reverse()) {
      clearTimeout(timer)
      idle.delete(thread)
      if (thread.isOpen) return thread
    }
    return undefined
  }

  function take(): Thread {
    const thread = takeIdle() ?? startThread<Request, Answer, Part>(options)
    busy.add(thread)
    return thread
  }

  function endIdle(thread: Thread): Promise<void> {
    clearTimeout(idle.get(thread))
    idle.delete(thread)
    return thread.close()
  }

  async function release(thread: Thread): Promise<void> {
    busy.delete(thread)
    if (!thread.isOpen) return
    if (isClosed || idle.size >= maxIdle) return await thread.close()
    idle.set(thread, idleMs === undefined ? undefined : setTimeout(() => void endIdle(thread), idleMs).unref())
  }

  return {
    take,
    release,
    async use(work, { signal, isFirst = false } = {}) {
      const leave = await gate.enter(signal, { isFirst })
      try {
        if (isClosed) throw new Error('The thread pool is closed')
        const thread = take()
        try {
          return await work(thread)
        } finally {
          await release(thread)
        }
      } finally {
        leave()
      }
    },
    async close({ waitForBusy = false } = {}) {
      isClosed = true
      const ending = [...idle.keys()].map(endIdle)
      if (waitForBusy) ending.push(...[...busy].map(thread => thread.close()))
      await Promise.all(ending)
    }
  }
}
