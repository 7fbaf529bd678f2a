import type { Line } from './cells.js'

/** The lines that were scrolled off the top of the screen, oldest first. */
export interface History {
  readonly length: number
  /** Number of lines dropped since the beginning, which is also the number of the oldest kept line. */
  readonly dropped: number
  /** Adds the newest line. Returns the line that was dropped for it, if any, so its memory can be reused. */
  push(line: Line): Line | undefined
  /** Returns a line by its index from the oldest. */
  at(index: number): Line
  clear(): void
  /** Returns all lines, oldest first. */
  lines(): Line[]
}

/** Creates a ring buffer of at most `capacity` lines. */
export function createHistory(capacity: number): History {
  let ring: Line[] = []
  let start = 0
  let dropped = 0
  return {
    get length() {
      return ring.length
    },
    get dropped() {
      return dropped
    },
    push(line) {
      if (capacity === 0) {
        dropped++
        return line
      }
      if (ring.length < capacity) {
        ring.push(line)
        return undefined
      }
      const oldest = ring[start] as Line
      ring[start] = line
      start = start + 1 === capacity ? 0 : start + 1
      dropped++
      return oldest
    },
    at: index => ring[(start + index) % ring.length] as Line,
    clear() {
      dropped += ring.length
      ring = []
      start = 0
    },
    lines: () => [...ring.slice(start), ...ring.slice(0, start)]
  }
}
