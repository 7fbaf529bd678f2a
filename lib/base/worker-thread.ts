/*
 * A worker thread that answers requests, with both sides: `startThread` for the caller, `serveThread` for the module of
 * the thread. Each request has a number, which its answer repeats.
 *
 * Errors keep their class and their fields (packed-error.ts). If a thread ends before it has answered, for example
 * because it ran out of memory, its open requests reject with `ThreadDied`.
 *
 * `close` does not terminate the thread: if a thread is terminated while it loads its modules, Node never closes the
 * module files that are open at that moment.
 */
import { basename } from 'node:path'
import { parentPort, Worker, type MessagePort, type ResourceLimits, type TransferListItem } from 'node:worker_threads'
import { packError, unpackError, type PackedError } from './packed-error.js'

/** The module of a thread, and its limits. */
export interface ThreadOptions {
  /** Calls `serveThread`. */
  module: URL
  resourceLimits?: ResourceLimits
}

/** Options of one request. */
export interface AskOptions<Part> {
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
