/*
 * The threads that search. Starting one takes as long as searching 200 MB, so idle threads are kept for a few seconds:
 * a user who searches once mostly searches again.
 */

import { Refusal } from '../../../base/errors.js'
import { createWorkerPool } from '../../../base/workers.js'
import type { LogLevel } from '../../../base/shared/log-line.js'
import { createGate, type Gate } from '../../../base/async.js'
import type { Pattern } from './pattern.js'
import type { FoundHit } from './search-block.js'

/** What a thread needs for a search. */
export interface ThreadPlan {
  fd: number
  pattern: Pattern
  context: number
  maxHits: number
  /** Whether a run reports its last hit first. */
  isNewestFirst: boolean
  /** Level filter, as in `SearchQuery`. */
  level: LogLevel | undefined
}

/**
 * Orders a thread to search these bytes of a file. `size` is the size of the file, or more than the block can reach.
 */
export interface Run {
  index: number
  from: number
  to: number
  size: number
}

/** `plan` begins a search. The runs of that search follow; each is answered when it has ended. */
export type Order =
  | { kind: 'plan'; plan: ThreadPlan; cells: Int32Array }
  | { kind: 'run'; run: Run }
  /** Asks for the index of the first line that matches, or -1. */
  | { kind: 'lines'; expression: Expression; lines: readonly string[] }

/** A regular expression of a user. It is compiled and runs in a thread only: it may never end. */
export interface Expression {
  source: string
  flags: string
}

/** What a thread has found in a run. */
export interface Found {
  index: number
  hits: FoundHit[]
  /** Number of lines: the hits and the lines around them. */
  lines: number
  isEnd: boolean
}

/**
 * The cells that a thread shares with the main thread for one search.
 * signCell: counter of progress. It increases when the thread begins the search, at each block and each hit, and
 * regularly while it waits.
 * stopCell: 1 tells the thread to leave its runs.
 * unsentCell: number of found lines that were not sent yet.
 */
export const signCell = 0
/** Cell that tells a thread to stop. */
export const stopCell = 1
/** Cell with the number of unsent lines. */
export const unsentCell = 2
/** Above this number a thread waits. So hits do not pile up here, and other requests get their turn in between. */
export const maxUnsentLines = 1000

/** A thread that works for one search. */
export interface SearchThread {
  /** Number of runs that the thread has not finished. */
  readonly runs: number
  /** Progress counter. If it does not change while the thread has runs, the expression does not terminate. */
  readonly signs: number
  search(run: Run): void
  /** Tells the thread that its hits were sent. */
  sent(found: Found): void
  /**
   * Ends the work for this search. Then the thread is idle or terminated and reads nothing of this search any more.
   * Hits that it has already reported stay.
   */
  release(): Promise<void>
}

export type SearchThreads = ReturnType<typeof createSearchThreads>

const keptMs = 5_000
/** Maximum number of idle threads: as many as all searches of a server use together. */
const maxKept = 3
/** A thread that is told to stop should finish its block within this time. */
const stopMs = 250
/**
 * Young objects die at once: twice the room takes 3 MB more and saves no time. Old objects are hits that were not sent
 * yet.
 */
const resourceLimits = { maxYoungGenerationSizeMb: 1, maxOldGenerationSizeMb: 64 }

export function createSearchThreads() {
  const pool = createWorkerPool<Order, number, Found>({
    module: new URL('./search-worker.js', import.meta.url),
    resourceLimits,
    maxIdle: maxKept,
    idleMs: keptMs
  })

  return {
    /** Returns a thread, idle or new, for one search. */
    take(plan: ThreadPlan, on: { found(found: Found): void; error(error: unknown): void }): SearchThread {
      const thread = pool.take()
      const cells = new Int32Array(new SharedArrayBuffer(3 * Int32Array.BYTES_PER_ELEMENT))
      const runs = new Set<Promise<unknown>>()
      let isReleased = false
      const onFound = (found: Found): void => {
        if (!isReleased) on.found(found)
      }
      const onError = (error: unknown): void => {
        if (!isReleased) on.error(error)
      }
      thread.ask({ kind: 'plan', plan, cells }).catch(onError)
      return {
        get runs() {
          return runs.size
        },
        get signs() {
          return Atomics.load(cells, signCell)
        },
        search(run) {
          const ended: Promise<void> = thread
            .ask({ kind: 'run', run }, { onPart: onFound })
            .finally(() => runs.delete(ended))
            .then(() => onFound({ index: run.index, hits: [], lines: 0, isEnd: true }), onError)
          runs.add(ended)
        },
        sent({ lines }) {
          Atomics.sub(cells, unsentCell, lines)
          Atomics.notify(cells, unsentCell)
        },
        async release() {
          isReleased = true
          if (runs.size > 0) await stopRuns(cells, Promise.all(runs))
          // A thread in an expression that does not terminate cannot react.
          if (runs.size > 0) await thread.terminate()
          await pool.release(thread)
        }
      }
    },

    /**
     * Returns the index of the first line that an expression matches, or -1. Refuses: 408 `search_too_slow` if it takes
     * longer than `stallMs`. Rejects with the signal's reason.
     */
    async firstMatch(
      expression: Expression,
      lines: readonly string[],
      { stallMs, signal }: { stallMs: number; signal: AbortSignal }
    ): Promise<number> {
      signal.throwIfAborted()
      const thread = pool.take()
      const stop = withdrawal(signal)
      try {
        // The thread has loaded its modules when it answers. If it were terminated before, Node would never close them.
        await thread.ask({ kind: 'lines', expression: { source: '', flags: '' }, lines: [] })
        const timer = setTimeout(() => stop.withdraw(tooSlow()), stallMs)
        try {
          return await Promise.race([thread.ask({ kind: 'lines', expression, lines }), stop.withdrawn])
        } finally {
          clearTimeout(timer)
        }
      } catch (error) {
        await thread.terminate()
        throw error
      } finally {
        stop.end()
        await pool.release(thread)
      }
    },
    close: (): Promise<void> => pool.close()
  }
}

/** Returns a promise that rejects when the signal is aborted, or with what `withdraw` gets. */
function withdrawal(signal: AbortSignal) {
  let withdraw = (_: unknown): void => {}
  const withdrawn = new Promise<never>((_, reject) => {
    withdraw = reject
  })
  withdrawn.catch(() => {})
  const onAbort = (): void => withdraw(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  return { withdrawn, withdraw, end: () => signal.removeEventListener('abort', onAbort) }
}

function tooSlow(): Refusal {
  const sentence = 'The expression takes too long on one part of the log. Use a simpler expression'
  return new Refusal('timed_out', 'search_too_slow', sentence)
}

/** Tells a thread to leave its runs, and gives it some time to do so. */
function stopRuns(cells: Int32Array, ended: Promise<unknown>): Promise<void> {
  Atomics.store(cells, stopCell, 1)
  Atomics.notify(cells, unsentCell)
  return new Promise(resolve => {
    const look = (): void => {
      // It is still loading its modules. If it were terminated now, Node would never close them.
      if (Atomics.load(cells, signCell) === 0) timer = setTimeout(look, stopMs)
      else resolve()
    }
    let timer = setTimeout(look, stopMs)
    void ended.then(() => {
      clearTimeout(timer)
      resolve()
    })
  })
}

/*
 * The threads that work for one search. A single search has two. Several searches share the threads, with at least one
 * each: more threads would only take memory, and CPU time from requests. A surplus thread is released when it has
 * finished its runs.
 */

export type Hands = ReturnType<typeof createHands>

interface HandsNeeds {
  /** Returns a thread, idle or new. */
  take(): SearchThread
  /** Returns how many threads this search may have now, at least 1. */
  share(): number
  /** A thread that shows no progress for this long is stuck in an expression that does not terminate. */
  stallMs: number
}

/** A thread and the time of its last progress; undefined while it may still be starting. */
interface Hand {
  thread: SearchThread
  seen: number
  seenAtMs: number | undefined
}

/** Number of runs that a thread has at once, so that the next one is already waiting when it finishes one. */
const runsPerThread = 2

/** Creates the threads of one search. */
export function createHands({ take, share, stallMs }: HandsNeeds) {
  let hands: Hand[] = []
  const releases: Array<Promise<void>> = []

  function letGo(kept: (thread: SearchThread, index: number) => boolean): void {
    releases.push(...hands.filter(({ thread }, index) => !kept(thread, index)).map(({ thread }) => thread.release()))
    hands = hands.filter(({ thread }, index) => kept(thread, index))
  }

  function takeOne(): SearchThread {
    const thread = take()
    hands.push({ thread, seen: thread.signs, seenAtMs: undefined })
    return thread
  }

  return {
    /** Returns a thread that may get another run, preferably one without work, or undefined if all have enough. */
    free({ isLarge }: { isLarge: boolean }): SearchThread | undefined {
      const count = isLarge ? share() : 1
      letGo(({ runs }, index) => index < count || runs > 0)
      const least = hands
        .slice(0, count)
        .map(({ thread }) => thread)
        .sort((a, b) => a.runs - b.runs)[0]
      if (least?.runs === 0) return least
      if (hands.length < count) return takeOne()
      return least !== undefined && least.runs < runsPerThread ? least : undefined
    },

    /** Whether one of the threads is stuck in an expression that does not terminate. Called regularly. */
    isStalled(): boolean {
      const now = performance.now()
      let isOne = false
      for (const hand of hands) {
        const { runs, signs } = hand.thread
        if (signs !== hand.seen) {
          hand.seen = signs
          hand.seenAtMs = now
        } else if (runs === 0) {
          hand.seenAtMs = undefined
        } else if (hand.seenAtMs !== undefined && now - hand.seenAtMs > stallMs) isOne = true
      }
      return isOne
    },

    /** Releases all threads. Afterwards the file may be closed. */
    async release(): Promise<void> {
      letGo(() => false)
      await Promise.all(releases)
    }
  }
}

export interface SearchPlaces {
  places: number
  perCaller: number
  /** Maximum number of searches that wait, in all and of one caller. */
  maxWaiting: number
}

/** Creates a gate for searches. What waits for another search of its caller does not wait in the queue of all. */
export function createSearchGate({ places, perCaller, maxWaiting }: SearchPlaces) {
  const all = createGate({ places, maxWaiting, full })
  const callers = new Map<string, { gate: Gate; count: number }>()
  return {
    /** Whether a search waits because others have all places. */
    isWanted: (): boolean => all.waiting > 0,

    /** As of a gate. Refuses another one if too many already wait: 429 `too_many_searches`. */
    async enter(caller: string, signal: AbortSignal): Promise<() => void> {
      const own = callers.get(caller) ?? { gate: createGate({ places: perCaller, maxWaiting, full }), count: 0 }
      callers.set(caller, own)
      own.count++
      const forget = (): void => {
        if (--own.count === 0) callers.delete(caller)
      }
      let leaveOwn = (): void => {}
      try {
        leaveOwn = await own.gate.enter(signal)
        const leave = await all.enter(signal)
        return () => [leave, leaveOwn, forget].forEach(each => each())
      } catch (error) {
        leaveOwn()
        forget()
        throw error
      }
    }
  }
}

function full(): Refusal {
  const sentence = 'Cannot start the search: too many searches are queued. Try again in a moment'
  return new Refusal('too_many', 'too_many_searches', sentence, { retryAfterSeconds: 5 })
}
