import { timeOfLine } from './line-time.js'
import { Announcer } from './log-text.js'
import type { LogLine, LogText } from './log-text.js'

/*
 * Several logs as one, in the order of the times that their lines say. A line that says none belongs to the one before
 * it. Lines that are new wait a moment for those of the other logs, which may come a little later though they are older.
 *
 * Of the past, what is shown begins where every log has lines: before that, one log alone would look like silence of the
 * others. So the log whose lines reach back least is the one that is paged in next.
 */

export interface MergedNeeds {
  parts: readonly LogText[]
  signal: AbortSignal
  /** How long new lines wait for those of the others. Logs are told half a second apart at most. */
  holdMs?: number
}

interface Timed {
  line: LogLine
  timeMs: number
}

/** What was taken of a part: the lines from `first` up to `end`, by their numbers there. */
interface Taken {
  epoch: number
  first: number
  end: number
  lastMs: number
}

const maxLines = 100_000
/** Beyond this nothing more is paged in: what is new needs room, too. */
const maxPagedLines = 80_000

export class MergedLog extends Announcer implements LogText {
  readonly lines: LogLine[] = []
  readonly isAtEnd = true
  readonly #needs: MergedNeeds
  readonly #times: number[] = []
  #taken: Taken[] = []
  #held: Timed[] = []
  #timer: ReturnType<typeof setTimeout> | undefined
  #firstNumber = 0
  #epoch = 0
  #arrived = 0
  #hasDropped = false

  constructor(needs: MergedNeeds) {
    super()
    this.#needs = needs
    for (const [index, part] of needs.parts.entries()) {
      part.addEventListener('change', () => this.#changed(index), { signal: needs.signal })
    }
    needs.signal.addEventListener('abort', () => clearTimeout(this.#timer))
    this.#rebuild()
  }

  get firstNumber(): number {
    return this.#firstNumber
  }

  get epoch(): number {
    return this.#epoch
  }

  get arrivedLines(): number {
    return this.#arrived
  }

  get head(): LogText['head'] {
    if (this.#hasDropped || this.lines.length > maxPagedLines) return 'dropped'
    return this.#needs.parts.some(part => part.head === 'more') ? 'more' : 'start'
  }

  reach(edge: 'start' | 'end'): void {
    if (edge === 'end' || this.head !== 'more') return
    const { parts } = this.#needs
    const [latest] = parts.map((part, index) => ({ part, startMs: this.#startOf(index) }))
      .filter(({ part }) => part.head === 'more').sort((a, b) => b.startMs - a.startMs)
    latest?.part.reach?.('start')
  }

  async seek(atMs: number): Promise<number | null> {
    while (this.head === 'more' && (this.#times[0] ?? Infinity) > atMs && !this.#needs.signal.aborted) {
      const change = new Promise(resolve => this.addEventListener('change', resolve, { once: true }))
      const before = this.#firstNumber
      this.reach('start')
      await change
      // A failure changes something, too, but brings no lines.
      if (this.#firstNumber === before) await new Promise(resolve => setTimeout(resolve, 200))
    }
    const found = this.#times.findIndex(timeMs => timeMs >= atMs)
    return found === -1 ? null : this.#firstNumber + found
  }

  #changed(index: number): void {
    const part = this.#needs.parts[index] as LogText
    const taken = this.#taken[index] as Taken
    if (part.epoch !== taken.epoch || taken.end === taken.first) return this.#rebuild()
    if (part.firstNumber < taken.first) this.#takeBefore()
    const end = part.firstNumber + part.lines.length
    if (end > taken.end) this.#takeNew(index, end)
    this.announce()
  }

  #takeNew(index: number, end: number): void {
    const taken = this.#taken[index] as Taken
    const fresh = this.#timed(index, taken.end, end, taken.lastMs)
    taken.end = end
    taken.lastMs = fresh.at(-1)?.timeMs ?? taken.lastMs
    this.#held.push(...fresh)
    this.#timer ??= setTimeout(() => this.#release(), this.#needs.holdMs ?? 700)
  }

  #release(): void {
    this.#timer = undefined
    const held = this.#held.sort((a, b) => a.timeMs - b.timeMs)
    this.#held = []
    for (const { line, timeMs } of held) {
      this.lines.push(line)
      this.#times.push(timeMs)
    }
    this.#arrived += held.length
    if (this.lines.length > maxLines) {
      const count = Math.ceil(maxLines / 10)
      this.lines.splice(0, count)
      this.#times.splice(0, count)
      this.#firstNumber += count
      this.#hasDropped = true
    }
    this.announce()
  }

  /** All that the parts hold and every part reaches back to. */
  #rebuild(): void {
    const { parts } = this.#needs
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#held = []
    this.#hasDropped = false
    this.#firstNumber = 0
    this.#epoch++
    this.lines.length = 0
    this.#times.length = 0
    this.#taken = parts.map((part, index) => {
      const end = part.firstNumber + part.lines.length
      const times = this.#timed(index, part.firstNumber, end, -Infinity)
      return { epoch: part.epoch, first: end, end, lastMs: times.at(-1)?.timeMs ?? -Infinity }
    })
    this.#takeBefore()
    this.#firstNumber = 0
    this.announce()
  }

  /** Puts before what is shown the lines that every part reaches back to now. */
  #takeBefore(): void {
    const { parts } = this.#needs
    const floorMs = Math.max(...parts.map((part, index) => (part.head === 'more' ? this.#startOf(index) : -Infinity)))
    const earlier: Timed[] = []
    for (const [index, part] of parts.entries()) {
      const taken = this.#taken[index] as Taken
      const timed = this.#timed(index, part.firstNumber, taken.first, -Infinity)
      let count = 0
      while (count < timed.length && (timed[timed.length - 1 - count] as Timed).timeMs >= floorMs) count++
      earlier.push(...timed.slice(timed.length - count))
      taken.first -= count
    }
    earlier.sort((a, b) => a.timeMs - b.timeMs)
    this.lines.unshift(...earlier.map(({ line }) => line))
    this.#times.unshift(...earlier.map(({ timeMs }) => timeMs))
    this.#firstNumber -= earlier.length
  }

  /** When the first line that a part holds was written. */
  #startOf(index: number): number {
    const part = this.#needs.parts[index] as LogText
    const nowMs = Date.now()
    for (const { text } of part.lines) {
      const timeMs = timeOfLine(text, nowMs)
      if (timeMs !== null) return timeMs
    }
    return -Infinity
  }

  /** Lines of a part with their times: their own, or that of the line before; of the first ones, that of the next. */
  #timed(index: number, from: number, end: number, beforeMs: number): Timed[] {
    const part = this.#needs.parts[index] as LogText
    const nowMs = Date.now()
    const lines = part.lines.slice(from - part.firstNumber, end - part.firstNumber)
    const times = lines.map(({ text, isNote }) => (isNote === true ? null : timeOfLine(text, nowMs)))
    let timeMs = beforeMs === -Infinity ? (times.find(time => time !== null) ?? -Infinity) : beforeMs
    return lines.map((line, place) => {
      timeMs = times[place] ?? timeMs
      return { line: { ...line, source: index }, timeMs }
    })
  }
}
