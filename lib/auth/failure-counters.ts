/*
 * Counts failed attempts by key (§5.7): 8 failures in 10 minutes lock a key for 5 minutes. A success does not reset the
 * count, and a failure during the lock does not prolong it.
 */
/** The time in which failures count together. */
export const windowMs = 10 * 60_000 // §8
const lockMs = 5 * 60_000 // §8
const maxFailures = 8 // §8
/** Maximum number of keys. The one with the oldest failure is removed first. */
const maxKeys = 20_000

interface Counter {
  failuresAtMs: number[]
  lockedUntilMs: number
}

/** Counters of failures by key. */
export interface FailureCounters {
  /** Returns the time left of the lock of a key; 0: it is not locked. */
  lockedMs(key: string, nowMs: number): number
  /** Whether the key has a failure, or a lock, of the last 10 minutes. */
  hasFailed(key: string, nowMs: number): boolean
  /** Counts a failure. Returns whether it locked the key. */
  count(key: string, nowMs: number): boolean
}

/** Creates empty counters. */
export function createFailureCounters(): FailureCounters {
  const counters = new Map<string, Counter>()

  const lockedMs = (key: string, nowMs: number): number =>
    Math.max(0, (counters.get(key)?.lockedUntilMs ?? -Infinity) - nowMs)

  return {
    lockedMs,
    hasFailed(key, nowMs) {
      const counter = counters.get(key)
      return recentOf(counter, nowMs).length > 0 || nowMs - (counter?.lockedUntilMs ?? -Infinity) < windowMs
    },
    count(key, nowMs) {
      if (lockedMs(key, nowMs) > 0) return false
      const failuresAtMs = [...recentOf(counters.get(key), nowMs), nowMs]
      const isLocked = failuresAtMs.length >= maxFailures
      counters.delete(key)
      counters.set(
        key,
        isLocked ? { failuresAtMs: [], lockedUntilMs: nowMs + lockMs } : { failuresAtMs, lockedUntilMs: -Infinity }
      )
      if (counters.size > maxKeys) counters.delete(counters.keys().next().value as string)
      return isLocked
    }
  }
}

function recentOf(counter: Counter | undefined, nowMs: number): number[] {
  return counter?.failuresAtMs.filter(atMs => nowMs - atMs < windowMs) ?? []
}
