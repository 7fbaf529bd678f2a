/** What happens in a simulated fleet. */
export const happenings = [
  'poll',
  'sweep',
  'order',
  'report',
  'request',
  'ended',
  'crash',
  'start',
  'hubStart'
] as const
export type Happening = (typeof happenings)[number]

/** An event of a simulation. Which numbers it needs depends on what happens. */
export interface FleetEvent {
  happening: number
  /** Index of the node. */
  node: number
  /** The number of a rollout, or the life of the node in which a work began. */
  number: number
  attempt: number
  /** Index of an action or of an answer. */
  word: number
}

/** Events lie at most this far ahead. */
const span = 2 ** 19

/**
 * The events of a simulation by time, those of one millisecond in the order in which they were added. It keeps a list for
 * each of the next milliseconds, and an event is a row of numbers that is used again: a history has millions of them.
 */
export class Agenda {
  nowMs = 0
  readonly #firsts = new Int32Array(span).fill(-1)
  readonly #lasts = new Int32Array(span)
  /** A bit for each millisecond that has an event, so that empty ones are passed in one step. */
  readonly #filled = new Uint32Array(span / 32)
  #rows = new Int32Array(6 * 2 ** 16)
  #count = 0
  #free = -1

  /** Adds an event. */
  add(afterMs: number, event: FleetEvent): void {
    if (afterMs >= span) throw new Error(`${afterMs} ms are too far ahead`)
    const row = this.#take()
    const rows = this.#rows
    rows[row] = -1
    rows[row + 1] = event.happening
    rows[row + 2] = event.node
    rows[row + 3] = event.number
    rows[row + 4] = event.attempt
    rows[row + 5] = event.word
    const slot = (this.nowMs + afterMs) % span
    if (this.#firsts[slot] === -1) {
      this.#firsts[slot] = row
      this.#filled[slot >> 5] = (this.#filled[slot >> 5] as number) | (1 << (slot & 31))
    } else rows[this.#lasts[slot] as number] = row
    this.#lasts[slot] = row
  }

  /** Moves the time to the next event and fills it in. Returns false if there is none until an instant. */
  next(untilMs: number, event: FleetEvent): boolean {
    if (!this.#seek(untilMs)) return false
    const slot = this.nowMs % span
    const rows = this.#rows
    const row = this.#firsts[slot] as number
    const following = rows[row] as number
    this.#firsts[slot] = following
    if (following === -1) this.#filled[slot >> 5] = (this.#filled[slot >> 5] as number) & ~(1 << (slot & 31))
    event.happening = rows[row + 1] as number
    event.node = rows[row + 2] as number
    event.number = rows[row + 3] as number
    event.attempt = rows[row + 4] as number
    event.word = rows[row + 5] as number
    rows[row] = this.#free
    this.#free = row
    return true
  }

  /** Moves the time to the next millisecond with an event, at most to `untilMs`. */
  #seek(untilMs: number): boolean {
    while (this.nowMs <= untilMs) {
      const slot = this.nowMs % span
      const ahead = (this.#filled[slot >> 5] as number) >>> (slot & 31)
      if (ahead === 0) this.nowMs += 32 - (slot & 31)
      else {
        this.nowMs += 31 - Math.clz32(ahead & -ahead)
        if (this.nowMs <= untilMs) return true
      }
    }
    this.nowMs = untilMs
    return false
  }

  #take(): number {
    const row = this.#free
    if (row !== -1) {
      this.#free = this.#rows[row] as number
      return row
    }
    const end = this.#count++ * 6
    if (end >= this.#rows.length) {
      const larger = new Int32Array(2 * this.#rows.length)
      larger.set(this.#rows)
      this.#rows = larger
    }
    return end
  }
}
