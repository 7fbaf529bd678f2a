import type { Clock } from '../../lib/base/clock.js'

export interface SetClock extends Clock {
  advance(ms: number): void
}

/** A clock that only tests move. */
export function setClock(nowMs = Date.parse('2030-01-01T00:00:00Z')): SetClock {
  return {
    now: () => nowMs,
    advance: ms => void (nowMs += ms)
  }
}
