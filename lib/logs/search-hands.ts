/*
 * The threads at work for one search. Alone it has two; where several search at the same time, each has its share of them
 * and one at least: more would only take memory, and turns at the cores from whoever waits for an answer. One that is
 * too many is let go when it has come to the end of its runs.
 */
import type { SearchThread } from './search-threads.js'

export interface Hands {
  /** One that may be given another run: one without work before one that has some; undefined: all have enough. */
  free(options: { isLarge: boolean }): SearchThread | undefined
  /** Whether one of them has met an expression that does not end; asked now and then. */
  isStalled(): boolean
  /** Lets go of all: the file may be closed after it. */
  release(): Promise<void>
}

interface HandsNeeds {
  /** Gives a thread, warm or new. */
  take(): SearchThread
  /** How many threads this search may have now, 1 at least. */
  share(): number
  /** Without a sign of life for longer, a thread has met an expression that does not end. */
  stallMs: number
}

/** A thread, and when it was last seen to go on; undefined: not yet, it may still be starting. */
interface Hand {
  thread: SearchThread
  seen: number
  seenAtMs: number | undefined
}

/** Runs a thread has at once: the next one waits for it, and not it for us. */
const runsPerThread = 2

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
      const least = hands.slice(0, count).map(({ thread }) => thread).sort((a, b) => a.runs - b.runs)[0]
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
