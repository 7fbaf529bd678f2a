/*
 * The threads that work for one search. A single search has two. Several searches share the threads, with at least one
 * each: more threads would only take memory, and CPU time from requests. A surplus thread is released when it has
 * finished its runs.
 */
import type { SearchThread } from './search-threads.js'

/** The threads of one search. */
export interface Hands {
  /** Returns a thread that may get another run, preferably one without work, or undefined if all have enough. */
  free(options: { isLarge: boolean }): SearchThread | undefined
  /** Whether one of the threads is stuck in an expression that does not terminate. Called regularly. */
  isStalled(): boolean
  /** Releases all threads. Afterwards the file may be closed. */
  release(): Promise<void>
}

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
export function createHands({ take, share, stallMs }: HandsNeeds): Hands {
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
    free({ isLarge }) {
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
    isStalled() {
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
    async release() {
      letGo(() => false)
      await Promise.all(releases)
    }
  }
}
