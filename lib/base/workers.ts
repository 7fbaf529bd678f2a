/*
 * Worker threads that start when there is work and are kept idle for later work, because starting a thread takes longer
 * than most of its work. An idle thread does not keep the process running.
 */
import { basename } from 'node:path'
import { type MessagePort, parentPort, type ResourceLimits, type TransferListItem, Worker } from 'node:worker_threads'
import { createGate } from './async.js'
import { type PackedError, packError, unpackError } from './errors.js'

/** Limits of a pool. */
export interface PoolOptions extends ThreadOptions {
  /** Maximum number of threads that `use` keeps busy. Default: no limit. */
  maxBusy?: number
  /** Maximum number of idle threads. Default: no limit. */
  maxIdle?: number
  /** Time after which an idle thread ends. Default: it stays until the pool is closed. */
  idleMs?: number
}

interface UseOptions {
  /** Rejects with the signal's reason while the call is queued. */
  signal?: AbortSignal
  /** Puts the call at the front of the queue. */
  isFirst?: boolean
}

interface WorkOptions<T> extends UseOptions {
  /** Whether the thread ends after this result: its memory stays as large as its largest work. Default: it stays. */
  endsAfter?: (result: T) => boolean
}

export interface WorkerPool<Request, Answer, Part = never> {
  /** Returns an unused thread, idle or new, ignoring `maxBusy`. The caller must release it. */
  take(): WorkerThread<Request, Answer, Part>
  /** Takes a thread back. Drops it if it was closed or terminated, or has died. */
  release(thread: WorkerThread<Request, Answer, Part>): Promise<void>
  /** Waits for a thread, in the order of the calls, and releases it when `work` has settled. */
  use<T>(work: (thread: WorkerThread<Request, Answer, Part>) => Promise<T>, options?: WorkOptions<T>): Promise<T>
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
    async use(work, { signal, isFirst = false, endsAfter } = {}) {
      const leave = await gate.enter(signal, { isFirst })
      try {
        if (isClosed) throw new Error('The thread pool is closed')
        const thread = take()
        try {
          const result = await work(thread)
          if (endsAfter?.(result) && thread.isOpen) void thread.close()
          return result
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

/*
 * A worker thread that answers requests, with both sides: `startThread` for the caller, `serveThread` for the module of
 * the thread. Each request has a number, which its answer repeats.
 *
 * Errors keep their class and their fields (errors.ts). If a thread ends before it has answered, for example
 * because it ran out of memory, its open requests reject with `ThreadDied`.
 *
 * `close` does not terminate the thread: if a thread is terminated while it loads its modules, Node never closes the
 * module files that are open at that moment.
 */

/** The module of a thread, and its limits. */
export interface ThreadOptions {
  /** Calls `serveThread`. */
  module: URL
  resourceLimits?: ResourceLimits
}

interface AskOptions<Part> {
  /** Memory of the request that is transferred to the thread instead of being copied. */
  transfer?: readonly TransferListItem[]
  /** Receives the parts that the thread sends before the answer. */
  onPart?(part: Part): void
}

/** A thread. It keeps the process running only while a request is open, or while the thread is being ended. */
export interface WorkerThread<Request, Answer, Part = never> {
  /** False once the thread has died or was told to end: it takes no more requests. */
  readonly isOpen: boolean
  /**
   * Sends a request and resolves with its answer. Rejects with the error that the thread threw, or with `ThreadDied`.
   */
  ask(request: Request, options?: AskOptions<Part>): Promise<Answer>
  /** Sends a request that has no answer. If the thread throws while it handles one, the thread dies. */
  post(request: Request): void
  /** Ends the thread after its current requests. */
  close(): Promise<void>
  /** Ends the thread at once. Node cannot interrupt a system call, so this waits until the call returns. */
  terminate(): Promise<void>
  /** Lets the process end while a request is open, or while a system call delays the end of the thread. */
  abandon(): void
}

/** The thread ended before it answered. `cause` is the error that ended it, if there is one. */
export class ThreadDied extends Error {}

/** `null` closes the thread. */
type ToThread<Request> = { id: number; request: Request } | null

type FromThread<Answer, Part> =
  | { id: number; kind: 'part'; part: Part }
  | { id: number; kind: 'answer'; answer: Answer }
  | { id: number; kind: 'failed'; error: PackedError }

/** The number of requests that have no answer. */
const untracked = 0

/** Starts a thread. It accepts requests at once; they are queued until its modules are loaded. */
export function startThread<Request, Answer, Part = never>(
  options: ThreadOptions
): WorkerThread<Request, Answer, Part> {
  const { module, resourceLimits = {} } = options
  const worker = new Worker(module, { resourceLimits, execArgv: [] })
  const open = new Map<number, { settle(message: FromThread<Answer, Part>): void; reject(error: Error): void }>()
  let lastId = untracked
  let isOpen = true
  let hasExited = false
  let failure: Error | undefined

  function died(): ThreadDied {
    const reason = failure === undefined ? '' : `: ${failure.message}`
    return new ThreadDied(`The thread "${basename(module.pathname, '.js')}" ended before it answered${reason}`, {
      cause: failure
    })
  }

  worker.on('message', (message: FromThread<Answer, Part>) => open.get(message.id)?.settle(message))
  worker.unref()
  // `exit` follows.
  worker.on('error', error => {
    isOpen = false
    failure = error
  })
  const exited = new Promise<void>(resolve => {
    worker.once('exit', () => {
      isOpen = false
      hasExited = true
      for (const { reject } of open.values()) reject(died())
      open.clear()
      resolve()
    })
  })

  return {
    get isOpen() {
      return isOpen
    },
    ask: (request, { transfer = [], onPart } = {}) =>
      new Promise((resolve, reject) => {
        if (hasExited) return reject(died())
        const id = ++lastId
        worker.postMessage({ id, request } satisfies ToThread<Request>, transfer)
        worker.ref()
        open.set(id, {
          settle(message) {
            if (message.kind === 'part') return onPart?.(message.part)
            open.delete(id)
            if (open.size === 0 && isOpen) worker.unref()
            if (message.kind === 'answer') resolve(message.answer)
            else reject(unpackError(message.error))
          },
          reject
        })
      }),
    post: request => worker.postMessage({ id: untracked, request } satisfies ToThread<Request>),
    close() {
      isOpen = false
      // Otherwise the process could end before this resolves.
      worker.ref()
      worker.postMessage(null)
      return exited
    },
    terminate() {
      isOpen = false
      void worker.terminate()
      return exited
    },
    abandon: () => worker.unref()
  }
}

/**
 * Handles the requests of this thread until it is closed. `transferOf` lists the memory of an answer that is
 * transferred to the other side instead of being copied.
 */
export function serveThread<Request, Answer, Part = never>(
  handle: (request: Request, sendPart: (part: Part) => void) => Answer | Promise<Answer>,
  transferOf: (answer: Answer) => readonly TransferListItem[] = () => []
): void {
  const port = parentPort as MessagePort
  const send = (message: FromThread<Answer, Part>, transfer: readonly TransferListItem[] = []): void =>
    port.postMessage(message, transfer)
  let running = 0
  let isClosing = false

  async function serve(id: number, request: Request): Promise<void> {
    try {
      const answer = await handle(request, part => send({ id, kind: 'part', part }))
      if (id !== untracked) send({ id, kind: 'answer', answer }, transferOf(answer))
    } catch (error) {
      if (id === untracked) throw error
      send({ id, kind: 'failed', error: packError(error) })
    }
  }

  port.on('message', async (message: ToThread<Request>) => {
    if (message === null) {
      isClosing = true
    } else {
      running++
      await serve(message.id, message.request)
      running--
    }
    if (isClosing && running === 0) port.close()
  })
}
