import type { Line } from './cells.js'

/** The lines that have left the screen at its top, oldest first. */
export interface History {
  readonly length: number
  /** How many have been given up since the beginning: the number of the oldest one that is kept. */
  readonly dropped: number
  /** Adds the newest. Gives the oldest back where it had to go, so that its memory serves the next line. */
  push(line: Line): Line | undefined
  at(index: number): Line
  clear(): void
  /** All of it, oldest first. */
  lines(): Line[]
}

/** A ring of at most `capacity` lines. */
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
