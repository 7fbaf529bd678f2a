import { countOf } from '../base/text.js'
import { elapsedOf, type Clock } from '../base/clock.js'
import { Refusal } from '../base/errors.js'

/** Limits requests per minute, by key and in total. */
export interface RateLimit {
  /** Counts a request. Refuses: 429 `rate_limited` with the seconds until the next minute. */
  take(key: string): void
}

const minuteMs = 60_000

/**
 * Creates a limit of `perKey` and `ofAll` requests per minute. Its memory is bounded by `ofAll` and cleared each
 * minute.
 */
export function createRateLimit({ clock, perKey, ofAll }: { clock: Clock; perKey: number; ofAll: number }): RateLimit {
  let minute = -1
  let all = 0
  const counts = new Map<string, number>()

  return {
    take(key) {
      const nowMs = elapsedOf(clock)
      const current = Math.floor(nowMs / minuteMs)
      if (current !== minute) {
        minute = current
        all = 0
        counts.clear()
      }
      const count = counts.get(key) ?? 0
      if (count >= perKey || all >= ofAll) throw tooMany(minuteMs - (nowMs % minuteMs))
      all++
      counts.set(key, count + 1)
    }
  }
}

function tooMany(remainingMs: number): Refusal {
  const retryAfterSeconds = Math.max(1, Math.ceil(remainingMs / 1000))
  const sentence = `Too many requests in this minute. Try again in ${countOf(retryAfterSeconds, 'second')}`
  return new Refusal('too_many', 'rate_limited', sentence, { retryAfterSeconds })
}
