/* Asynchronous work: counts of it, closing in order, gates, slices of time, one piece of work per object. */
import { setMaxListeners } from 'node:events'
import { performance } from 'node:perf_hooks'
import { setImmediate as turn } from 'node:timers/promises'
import { Refusal } from './errors.js'

/** Counts how often some work was started, and how often it is running now. */
export interface Activity {
  readonly total: number
  readonly now: number
  /** Counts `work` until it settles, and returns its result. */
  during<T>(work: () => Promise<T>): Promise<T>
}

/** Creates the counts, which start at 0. */
export function createActivity(): Activity {
  let total = 0
  let now = 0
  return {
    get total() {
      return total
    },
    get now() {
      return now
    },
    async during(work) {
      total++
      now++
      try {
        return await work()
      } finally {
        now--
      }
    }
  }
}

/** Registers a function to call at the end. */
export type Defer = (close: () => unknown) => void

/** Calls every function in turn, whatever an earlier one throws. Then throws the first error; later ones are dropped. */
export async function callAll(steps: Iterable<() => unknown>): Promise<void> {
  const errors: unknown[] = []
  for (const step of steps) {
    try {
      await step()
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw errors[0]
}

/**
 * Runs `work`, and then everything it deferred, in reverse order, whether it succeeded or failed. Throws the first
 * error; errors of later closes are dropped.
 */
export async function closing<T>(work: (defer: Defer) => Promise<T>): Promise<T> {
  const closes: Array<() => unknown> = []
  let result: T | undefined
  await callAll([
    async () => void (result = await work(close => void closes.push(close))),
    () => callAll(closes.reverse())
  ])
  return result as T
}

/** Limits how many callers may proceed at a time. The others are queued in the order of their calls. */
export type Gate = ReturnType<typeof createGate>

/** Limits of a gate. */
interface GateOptions {
  places: number
  /** Maximum length of the queue. Default: no limit. */
  maxWaiting?: number
  /** Creates the error for a full queue. */
  full?(): Error
}

/** Creates a gate with all places free. */
export function createGate({
  places,
  maxWaiting = Infinity,
  full = () => new Error('The queue is full')
}: GateOptions) {
  const waiting: Array<() => void> = []
  let free = places

  const leave = (): void => {
    const next = waiting.shift()
    if (next === undefined) free++
    else next()
  }

  return {
    /** Number of callers in the queue. */
    get waiting() {
      return waiting.length
    },

    /**
     * Waits for a place. Returns a function that gives the place to the next caller. An abort rejects with the signal's
     * reason; a full queue rejects with the error of `full`. With `isFirst` the caller goes to the front of the queue.
     */
    async enter(signal?: AbortSignal, { isFirst = false }: { isFirst?: boolean } = {}): Promise<() => void> {
      signal?.throwIfAborted()
      if (free > 0) {
        free--
        return leave
      }
      if (waiting.length >= maxWaiting) throw full()
      await new Promise<void>((resolve, reject) => {
        const enter = (): void => {
          signal?.removeEventListener('abort', giveUp)
          resolve()
        }
        const giveUp = (): void => {
          waiting.splice(waiting.indexOf(enter), 1)
          reject(signal?.reason as Error)
        }
        if (isFirst) waiting.unshift(enter)
        else waiting.push(enter)
        signal?.addEventListener('abort', giveUp, { once: true })
      })
      return leave
    }
  }
}

/** Shares the event loop between other work and many small pieces of work, such as writes to followers. */
export type Slices = ReturnType<typeof createSlices>

/** Maximum delay of a request by such pieces. A shorter slice costs more turns of the event loop. */
const defaultSliceMs = 4

/**
 * Creates slices: pieces run for `sliceMs` in a row. Later ones wait, in order, until the event loop has handled the
 * events that have arrived (measured: test/bench/followers).
 */
export function createSlices({ sliceMs = defaultSliceMs } = {}) {
  let waiting: Array<() => void> = []
  let isOpen = false
  let isDraining = false
  let untilMs = 0

  function open(): void {
    isOpen = true
    untilMs = performance.now() + sliceMs
    setImmediate(() => {
      isOpen = false
      if (waiting.length > 0) void drain()
    })
  }

  async function drain(): Promise<void> {
    isDraining = true
    while (waiting.length > 0) {
      await turn()
      untilMs = performance.now() + sliceMs
      let released = 0
      while (released < waiting.length && performance.now() < untilMs) {
        waiting[released++]?.()
        // Lets the piece run before its time is checked.
        await null
      }
      waiting = waiting.slice(released)
    }
    isDraining = false
  }

  return {
    /**
     * Must be called before each piece. Undefined means that the piece may run at once, before any `await`. A promise
     * resolves when the piece may run.
     */
    turn(): Promise<void> | undefined {
      if (!isDraining && waiting.length === 0) {
        if (!isOpen) open()
        if (performance.now() < untilMs) return undefined
      }
      return new Promise(resolve => waiting.push(resolve))
    }
  }
}

/** Returns a function that calls `make` once for each object and keeps the result for as long as the object lives. */
export function perObject<K extends object, V>(make: (key: K) => V): (key: K) => V {
  const made = new WeakMap<K, { value: V }>()
  return key => {
    const known = made.get(key)
    if (known !== undefined) return known.value
    const value = make(key)
    made.set(key, { value })
    return value
  }
}

/** Creates a controller whose signal many may wait for at once: from the eleventh on, Node warns of a leak. */
export function abortForMany(): AbortController {
  const controller = new AbortController()
  setMaxListeners(0, controller.signal)
  return controller
}

/**
 * Runs `use` with a signal that aborts with the first of some signals, or after `withinMs`, with its reason. Afterwards
 * nothing listens any more: `AbortSignal.any` does not exist before Node 18.17, and on a signal that lives as long as
 * the process it keeps every result (Node 20).
 */
export async function withAnySignal<T>(
  { signals, withinMs }: { signals: readonly AbortSignal[]; withinMs?: number },
  use: (signal: AbortSignal) => Promise<T>
): Promise<T> {
  const own = new AbortController()
  const abort = ({ target }: { target: EventTarget | null }): void => own.abort((target as AbortSignal).reason)
  for (const signal of signals) {
    if (signal.aborted) abort({ target: signal })
    signal.addEventListener('abort', abort)
  }
  const late = new DOMException('The operation was aborted due to timeout', 'TimeoutError')
  const timer = withinMs === undefined ? undefined : setTimeout(() => own.abort(late), withinMs)
  try {
    return await use(own.signal)
  } finally {
    clearTimeout(timer)
    for (const signal of signals) signal.removeEventListener('abort', abort)
  }
}

/** Reads a source to its end. Throws what `tooLong` returns, once there are more than `maxBytes`. */
export async function readAtMost(
  source: AsyncIterable<unknown>,
  { maxBytes, tooLong }: { maxBytes: number; tooLong: () => Error }
): Promise<Buffer> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of source as AsyncIterable<Buffer>) {
    bytes += piece.length
    if (bytes > maxBytes) throw tooLong()
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

const minBytes = 512

/** Bytes that arrive in pieces and are needed as a whole. */
export type Gathered = ReturnType<typeof gather>

/**
 * Gathers pieces in a buffer that doubles, so that each byte is copied only a few times: a list of 8,000 pieces of one
 * byte would take megabytes. `announcedBytes` is the expected size, or 0. `hold` takes memory before it is used, the
 * announced size at once; what it throws, this throws.
 */
export function gather(announcedBytes: number, hold: (bytes: number) => void) {
  let buffer: Buffer = Buffer.alloc(0)
  let length = 0
  let heldBytes = announcedBytes > 0 ? announcedBytes : minBytes
  hold(heldBytes)

  function enlarge(least: number): void {
    const size = least <= announcedBytes ? announcedBytes : Math.max(least, 2 * buffer.length, minBytes)
    if (size > heldBytes) hold(size - heldBytes)
    heldBytes = Math.max(heldBytes, size)
    const larger = Buffer.allocUnsafe(size)
    buffer.copy(larger, 0, 0, length)
    buffer = larger
  }

  return {
    get length() {
      return length
    },
    add(piece: Buffer): void {
      if (length === 0 && piece.length === announcedBytes) buffer = piece
      else {
        if (length + piece.length > buffer.length) enlarge(length + piece.length)
        piece.copy(buffer, length)
      }
      length += piece.length
    },

    /** Returns what has arrived. */
    bytes: (): Buffer => buffer.subarray(0, length)
  }
}

/** Applies `work` to each of some ids. A refusal for one of them does not stop the others, and is listed. */
export async function applyToEach(
  ids: Iterable<string>,
  work: (id: string) => Promise<unknown>
): Promise<{ done: number; failed: Array<{ id: string; error: string }> }> {
  const outcome = { done: 0, failed: [] as Array<{ id: string; error: string }> }
  for (const id of new Set(ids)) {
    try {
      await work(id)
      outcome.done++
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      outcome.failed.push({ id, error: error.message })
    }
  }
  return outcome
}

/** A part of the program that is loaded when it is first needed. */
export interface Door<T> {
  /** Returns the part. It is made once; if that fails, the next call tries again. */
  (): Promise<T>
  /** Returns the part if it was made; otherwise undefined. */
  opened(): T | undefined
  /** Returns the part if it was made, or is being made; otherwise undefined. It loads nothing. */
  asked(): Promise<T> | undefined
}

/** Time after which a part is loaded that nobody has needed, in milliseconds. */
const idleMs = 1000

/**
 * Creates a door. `load` imports a file and makes the part, so that a start need not wait for it. A second later it is loaded
 * without being needed, because an update may replace the files while the program runs.
 */
export function createDoor<T>(load: () => Promise<T>): Door<T> {
  let part: T | undefined
  let loading: Promise<T> | undefined

  async function open(): Promise<T> {
    try {
      return (part = await load())
    } catch (error) {
      loading = undefined
      throw error
    }
  }

  const door = (): Promise<T> => (loading ??= open())
  // Who needs it then is told of the failure.
  setTimeout(() => void door().catch(() => {}), idleMs).unref()
  return Object.assign(door, { opened: () => part, asked: () => loading })
}
