import { countOf } from '../base/count.js'
import { elapsedOf } from '../base/clock.js'
import type { Clock } from '../base/clock.js'
import { Refusal } from '../base/refusal.js'

/** Counts requests of the current minute, by key and of everybody. */
export interface RateLimit {
  /** Refuses: 429 `rate_limited` with the seconds until the minute is over. */
  take(key: string): void
}

const minuteMs = 60_000

/** `perKey` and `ofAll`: requests per minute. What is remembered is bounded by `ofAll`, and forgotten with the minute. */
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
  const sentence = `Too many requests within a minute: try again in ${countOf(retryAfterSeconds, 'second')}`
  return new Refusal('too_many', 'rate_limited', sentence, { retryAfterSeconds })
}
