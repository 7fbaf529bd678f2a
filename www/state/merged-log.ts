/*
 * Several logs merged by the times in their lines. A line without a time, or with an earlier one than the line before
 * it, stays with the line before it, so each file keeps its order whatever its clock did. A time in the future is taken
 * for text. A log without any times is at the end. New lines wait a moment for older lines of the other logs that
 * arrive later.
 *
 * The view begins where every log has lines: before that, the others would look silent. So the log whose loaded lines
 * begin last is paged in next. After a jump the same applies to the end: the view ends where the first log ends.
 */
import { timeOfLine } from '../shared/log-line.js'
import { Announcer, type LogLine, type LogText } from './held-lines.js'
import { serverNow, type Client } from '../server/client.js'
import type { LogHit } from '../../lib/model/log-source.js'
import { LogSearch, type LogSearching, type SearchState, type Sought } from './log-search.js'

export interface MergedNeeds {
  parts: readonly LogText[]
  signal: AbortSignal
  /** Time that new lines wait for those of other logs. The server reports them at most half a second apart. */
  holdMs?: number
}

interface Timed {
  line: LogLine
  timeMs: number
}

/** The merged range of a part: the lines from `first` to before `end`, by their numbers in the part. */
interface Taken {
  epoch: number
  first: number
  end: number
  lastMs: number
}

const maxLines = 100_000
/** Maximum number of lines for paging, which leaves space for new lines. */
const maxPagedLines = 80_000

/** Several logs as one log text. */
export class MergedLog extends Announcer implements LogText {
  readonly lines: LogLine[] = []
  readonly #needs: MergedNeeds
  readonly #times: number[] = []
  #taken: Taken[] = []
  #held: Timed[] = []
  #timer: ReturnType<typeof setTimeout> | undefined
  firstNumber = 0
  epoch = 0
  arrivedLines = 0
  #hasDropped = false
  /** Whether the view reaches the end of all parts. */
  #isComplete = true

  constructor(needs: MergedNeeds) {
    super()
    this.#needs = needs
    for (const [index, part] of needs.parts.entries()) {
      part.addEventListener('change', () => this.#changed(index), { signal: needs.signal })
    }
    needs.signal.addEventListener('abort', () => clearTimeout(this.#timer))
    this.#rebuild()
  }

  get isAtEnd(): boolean {
    return this.#needs.parts.every(part => part.isAtEnd)
  }

  get head(): LogText['head'] {
    if (this.#hasDropped || this.lines.length > maxPagedLines) return 'dropped'
    return this.#needs.parts.some(part => part.head === 'more') ? 'more' : 'start'
  }

  reach(edge: 'start' | 'end'): void {
    const { parts } = this.#needs
    if (edge === 'end') {
      const [first] = parts
        .map((part, index) => ({ part, endMs: this.#endOf(index) }))
        .filter(({ part }) => !part.isAtEnd)
        .sort((a, b) => a.endMs - b.endMs)
      return first?.part.reach?.('end')
    }
    if (this.head !== 'more') return
    const [latest] = parts
      .map((part, index) => ({ part, startMs: this.#startOf(index) }))
      .filter(({ part }) => part.head === 'more')
      .sort((a, b) => b.startMs - a.startMs)
    latest?.part.reach?.('start')
  }

  async seek(atMs: number): Promise<number | null> {
    while (this.head === 'more' && (this.#times[0] ?? Infinity) > atMs && !this.#needs.signal.aborted) {
      const change = new Promise(resolve => this.addEventListener('change', resolve, { once: true }))
      const before = this.firstNumber
      this.reach('start')
      await change
      // A failure is also a change, but without lines.
      if (this.firstNumber === before) await new Promise(resolve => setTimeout(resolve, 200))
    }
    const found = this.#times.findIndex(timeMs => timeMs >= atMs)
    return found === -1 ? null : this.firstNumber + found
  }

  toEnd(): void {
    for (const part of this.#needs.parts) part.toEnd?.()
  }

  /**
   * Jumps to a time in all parts. Returns the number of the line for which `isIt` is true, or of the first line at or
   * after the time. Null means that there is none.
   */
  async jump(atMs: number, isIt: (line: LogLine) => boolean): Promise<number | null> {
    const { parts } = this.#needs
    const isHeld = (this.#times[0] ?? Infinity) <= atMs && (this.#times.at(-1) ?? -Infinity) >= atMs
    if (!isHeld) {
      // A part without lines at or after the time shows its end.
      await Promise.all(
        parts.map(async part => {
          if ((await part.seek(atMs)) !== null || part.isAtEnd) return
          const change = new Promise(resolve => part.addEventListener('change', resolve, { once: true }))
          part.toEnd?.()
          await change
        })
      )
      this.#rebuild()
    }
    const from = this.#times.findIndex(timeMs => timeMs >= atMs)
    if (from === -1) return null
    const found = this.lines.findIndex((line, place) => place >= from && isIt(line))
    return this.firstNumber + (found === -1 ? from : found)
  }

  #changed(index: number): void {
    const part = this.#needs.parts[index] as LogText
    const taken = this.#taken[index] as Taken
    if (part.epoch !== taken.epoch || (taken.end === taken.first && this.#isComplete)) return this.#rebuild()
    if (part.firstNumber < taken.first) this.#takeBefore()
    const end = part.firstNumber + part.lines.length
    if (!this.#isComplete) this.#takeAfter()
    else if (end > taken.end) this.#takeNew(index, end)
    this.announce()
  }

  #takeNew(index: number, end: number): void {
    const taken = this.#taken[index] as Taken
    const fresh = this.#timed(index, { from: taken.end, end, beforeMs: taken.lastMs })
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
    this.arrivedLines += held.length
    this.#trim()
    this.announce()
  }

  #trim(): void {
    if (this.lines.length <= maxLines) return
    const count = this.lines.length - maxLines + Math.ceil(maxLines / 10)
    this.lines.splice(0, count)
    this.#times.splice(0, count)
    this.firstNumber += count
    this.#hasDropped = true
  }

  /** Merges all loaded lines from the latest start of any part on. */
  #rebuild(): void {
    const { parts } = this.#needs
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#held = []
    this.#hasDropped = false
    this.firstNumber = 0
    this.epoch++
    this.lines.length = 0
    this.#times.length = 0
    const ceilingMs = this.#ceilingMs
    this.#taken = parts.map((part, index) => {
      const timed = this.#timed(index, { from: part.firstNumber, end: part.firstNumber + part.lines.length })
      const count = timed.length - timed.findLastIndex(({ timeMs }) => timeMs <= ceilingMs) - 1
      const end = part.firstNumber + timed.length - count
      return { epoch: part.epoch, first: end, end, lastMs: timed[timed.length - count - 1]?.timeMs ?? -Infinity }
    })
    this.#isComplete = this.isAtEnd
    this.#takeBefore()
    this.firstNumber = 0
    this.announce()
  }

  /** Prepends the lines that are now loaded in every part. */
  #takeBefore(): void {
    const { parts } = this.#needs
    const floorMs = Math.max(...parts.map((part, index) => (part.head === 'more' ? this.#startOf(index) : -Infinity)))
    const earlier: Timed[] = []
    for (const [index, part] of parts.entries()) {
      const taken = this.#taken[index] as Taken
      const timed = this.#timed(index, { from: part.firstNumber, end: taken.first })
      let count = 0
      while (count < timed.length && (timed[timed.length - 1 - count] as Timed).timeMs >= floorMs) count++
      earlier.push(...timed.slice(timed.length - count))
      taken.first -= count
    }
    earlier.sort((a, b) => a.timeMs - b.timeMs)
    this.lines.unshift(...earlier.map(({ line }) => line))
    this.#times.unshift(...earlier.map(({ timeMs }) => timeMs))
    this.firstNumber -= earlier.length
  }

  /** The time up to which every part is loaded. */
  get #ceilingMs(): number {
    return Math.min(...this.#needs.parts.map((part, index) => (part.isAtEnd ? Infinity : this.#endOf(index))))
  }

  /** Appends the lines up to the time to which every part is now loaded. */
  #takeAfter(): void {
    const ceilingMs = this.#ceilingMs
    const later: Timed[] = []
    for (const [index, part] of this.#needs.parts.entries()) {
      const taken = this.#taken[index] as Taken
      const timed = this.#timed(index, {
        from: taken.end,
        end: part.firstNumber + part.lines.length,
        beforeMs: taken.lastMs
      })
      const fresh = timed.slice(0, timed.findLastIndex(({ timeMs }) => timeMs <= ceilingMs) + 1)
      taken.end += fresh.length
      taken.lastMs = fresh.at(-1)?.timeMs ?? taken.lastMs
      later.push(...fresh)
    }
    later.sort((a, b) => a.timeMs - b.timeMs)
    for (const { line, timeMs } of later) {
      this.lines.push(line)
      this.#times.push(timeMs)
    }
    this.#isComplete = this.isAtEnd
    this.#trim()
  }

  /** Returns the last time in a part, or Infinity if it has no times. Skips merged lines. */
  #endOf(index: number): number {
    const part = this.#needs.parts[index] as LogText
    const taken = this.#taken[index]
    const isKnown = taken !== undefined && taken.epoch === part.epoch
    const nowMs = serverNow()
    const lastMs = part.lines
      .slice(isKnown ? Math.max(0, taken.end - part.firstNumber) : 0)
      .reduce((last, line) => Math.max(last, timeIn(line, nowMs) ?? -Infinity), isKnown ? taken.lastMs : -Infinity)
    return lastMs === -Infinity ? Infinity : lastMs
  }

  /** Returns the time of the first loaded line of a part, or -Infinity if no line has a time. */
  #startOf(index: number): number {
    const { lines } = this.#needs.parts[index] as LogText
    const nowMs = serverNow()
    for (const line of lines) {
      const timeMs = timeIn(line, nowMs)
      if (timeMs !== null) return timeMs
    }
    return -Infinity
  }

  /**
   * Returns lines of a part with their times: their own, or that of the line before if it is later. Lines before the
   * first time get that time.
   */
  #timed(
    index: number,
    { from, end, beforeMs = -Infinity }: { from: number; end: number; beforeMs?: number }
  ): Timed[] {
    const part = this.#needs.parts[index] as LogText
    const nowMs = serverNow()
    const lines = part.lines.slice(from - part.firstNumber, end - part.firstNumber)
    const times = lines.map(line => timeIn(line, nowMs))
    const firstMs = times.find(timeMs => timeMs !== null) ?? (this.#startOf(index) === -Infinity ? nowMs : -Infinity)
    let timeMs = beforeMs === -Infinity ? firstMs : beforeMs
    return lines.map((line, place) => {
      timeMs = Math.max(timeMs, times[place] ?? -Infinity)
      return { line: { ...line, source: index }, timeMs }
    })
  }
}

/** Tolerance for a clock that is ahead. */
const aheadMs = 86_400_000

function timeIn({ text, isNote }: LogLine, nowMs: number): number | null {
  const timeMs = isNote === true ? null : timeOfLine(text, nowMs)
  return timeMs === null || timeMs > nowMs + aheadMs ? null : timeMs
}

/** A hit in one of several files. */
export interface MergedHit extends LogHit {
  source: number
  /** Time of its line, or of the nearest line before it with a time; null if there is none among its context lines. */
  timeMs: number | null
}

/** Maximum number of simultaneous searches. The server refuses more than a few, and other users search too. */
const maxRunning = 2

/**
 * The same search in several files, newest hits first, hits without a time last. Until the older hits of one file are
 * requested, older hits of the others are hidden. Dispatches `change`.
 */
export class MergedSearch extends Announcer implements LogSearching {
  readonly sought: Sought
  readonly #found: MergedHit[] = []
  readonly #searches: readonly LogSearch[]
  readonly #names: readonly string[]
  readonly #taken: number[]

  /** `names` are the names of the files, for error messages. */
  constructor(sought: Sought, names: readonly string[]) {
    super()
    this.sought = sought
    this.#names = names
    this.#searches = names.map(() => new LogSearch(sought))
    this.#taken = names.map(() => 0)
    for (const [source, search] of this.#searches.entries()) search.addEventListener('change', () => this.#take(source))
  }

  async run(client: Client, sourceIds: readonly string[]): Promise<void> {
    const waiting = [...this.#searches.entries()]
    const runSome = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const [index, search] = next
        if (search.state === 'running') await search.run(client, sourceIds[index] as string)
      }
    }
    await Promise.all(Array.from({ length: maxRunning }, runSome))
  }

  get hits(): readonly MergedHit[] {
    const floorMs = Math.max(...this.#searches.map((_, source) => this.#floorOf(source)))
    if (floorMs === -Infinity) return this.#found
    return this.#found.filter(({ timeMs }) => timeMs !== null && timeMs >= floorMs)
  }

  get hasOlder(): boolean {
    return this.#searches.some(search => search.hasOlder)
  }

  older(): void {
    const floors = this.#searches.map((_, source) => this.#floorOf(source))
    const floorMs = Math.max(...floors)
    for (const [source, search] of this.#searches.entries())
      if (search.hasOlder && floors[source] === floorMs) search.older()
  }

  /** Returns the time of the oldest hit of a file that has older ones. */
  #floorOf(source: number): number {
    const search = this.#searches[source] as LogSearch
    if (!search.hasOlder) return -Infinity
    const oldest = this.#found.findLast(hit => hit.source === source && hit.timeMs !== null)
    return oldest?.timeMs ?? -Infinity
  }

  cancel(): void {
    for (const search of this.#searches) search.cancel()
  }

  get state(): SearchState {
    const states = this.#searches.map(({ state }) => state)
    const order: readonly SearchState[] = ['running', 'cancelled', 'cut', 'failed']
    return order.find(state => states.includes(state)) ?? 'done'
  }

  get problem(): string | null {
    const problems = this.#searches.flatMap(({ problem }, index) =>
      problem === null ? [] : [`${this.#names[index]}: ${problem}`]
    )
    return problems.length === 0 ? null : problems.join('; ')
  }

  get progress(): { done: number; all: number } | null {
    const known = this.#searches.flatMap(({ progress }) => progress ?? [])
    if (known.length < this.#searches.length) return null
    return known.reduce((sum, { done, all }) => ({ done: sum.done + done, all: sum.all + all }), { done: 0, all: 0 })
  }

  #take(source: number): void {
    const { hits } = this.#searches[source] as LogSearch
    for (const hit of hits.slice(this.#taken[source])) this.#put({ ...hit, source, timeMs: timeOf(hit) })
    this.#taken[source] = hits.length
    this.announce()
  }

  /** Inserts a hit. The hits of a file arrive in order, so the place is mostly near the end. */
  #put(hit: MergedHit): void {
    let place = this.#found.length
    while (place > 0 && isLater(hit, this.#found[place - 1] as MergedHit)) place--
    this.#found.splice(place, 0, hit)
  }
}

const isLater = (one: MergedHit, other: MergedHit): boolean => (one.timeMs ?? -Infinity) > (other.timeMs ?? -Infinity)

function timeOf({ text, before }: LogHit): number | null {
  const nowMs = serverNow()
  for (const line of [text, ...[...before].reverse()]) {
    const timeMs = timeOfLine(line, nowMs)
    if (timeMs !== null) return timeMs
  }
  return null
}
