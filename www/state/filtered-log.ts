import { levelOfLine, reachesLevel } from './log-level.js'
import type { LogLevel } from './log-level.js'
import { Announcer } from './log-text.js'
import type { LogLine, LogText } from './log-text.js'

/*
 * A log, of which only the lines of a level or worse are held. A line that says no level, as one of a stack trace, has
 * that of the line before it in its log; lines before the first that says one are left out. Where few of the lines that
 * are held are shown, earlier ones are asked for, up to a limit: a search finds what lies before it.
 */

export interface FilteredNeeds {
  text: LogText
  least: LogLevel
  signal: AbortSignal
}

/** Fewer than this are shown: more of the log is asked for, unless so many lines of it are held. */
const wantedLines = 200
const maxLoadedLines = 60_000

export class FilteredLog extends Announcer implements LogText {
  readonly #needs: FilteredNeeds
  #lines: LogLine[] = []
  /** The numbers of these lines in the whole log. */
  #origins: number[] = []
  #firstNumber = 0
  #epoch = 0
  #arrived = 0
  #textEpoch = Number.NaN
  /** The lines of the whole log that were looked at, by their numbers. */
  #from = 0
  #end = 0
  #last: LogLine | undefined
  /** The level of each source at the end. */
  #levels = new Map<number | undefined, LogLevel>()

  constructor(needs: FilteredNeeds) {
    super()
    this.#needs = needs
    needs.text.addEventListener('change', () => {
      this.#read()
      this.announce()
    }, { signal: needs.signal })
    this.#read()
  }

  get lines(): readonly LogLine[] {
    return this.#lines
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

  get isAtEnd(): boolean {
    return this.#needs.text.isAtEnd
  }

  get head(): LogText['head'] {
    return this.#needs.text.head
  }

  reach(edge: 'start' | 'end'): void {
    this.#needs.text.reach?.(edge)
  }

  toEnd(): void {
    this.#needs.text.toEnd?.()
  }

  async toStart(): Promise<number> {
    await this.#needs.text.toStart?.()
    this.#read()
    return this.#firstNumber
  }

  async seek(atMs: number): Promise<number | null> {
    const found = await this.#needs.text.seek(atMs)
    return found === null ? null : this.numberOf(found)
  }

  /** The number here of a line of the whole log, or of the next one that is shown. */
  numberOf(origin: number): number {
    this.#read()
    const found = this.#origins.findIndex(each => each >= origin)
    return this.#firstNumber + (found === -1 ? Math.max(0, this.#origins.length - 1) : found)
  }

  /** The number in the whole log of a line that is shown here. */
  originOf(number: number): number {
    return this.#origins[number - this.#firstNumber] ?? number
  }

  #read(): void {
    const { text } = this.#needs
    const end = text.firstNumber + text.lines.length
    if (text.epoch !== this.#textEpoch || text.firstNumber >= this.#end || end <= this.#from) this.#begin()
    if (text.firstNumber > this.#from) this.#dropHead()
    // The last line was unfinished, and is another one now.
    if (end < this.#end || text.lines[this.#end - 1 - text.firstNumber] !== this.#last) this.#dropTail(Math.min(end, this.#end - 1))
    if (text.firstNumber < this.#from) this.#takeBefore()
    if (end > this.#end) this.#takeAfter(end)
    this.#last = text.lines[this.#end - 1 - text.firstNumber]
    const isFew = this.#lines.length < wantedLines && text.lines.length < maxLoadedLines
    if (isFew && text.head === 'more' && text.isAtEnd) text.reach?.('start')
  }

  #begin(): void {
    const { text } = this.#needs
    this.#textEpoch = text.epoch
    this.#from = this.#end = text.firstNumber
    this.#last = undefined
    this.#lines = []
    this.#origins = []
    this.#firstNumber = 0
    this.#levels.clear()
    this.#epoch++
  }

  #dropHead(): void {
    const { firstNumber } = this.#needs.text
    const found = this.#origins.findIndex(origin => origin >= firstNumber)
    const count = found === -1 ? this.#origins.length : found
    this.#origins.splice(0, count)
    this.#lines.splice(0, count)
    this.#firstNumber += count
    this.#from = firstNumber
  }

  #dropTail(end: number): void {
    while ((this.#origins.at(-1) ?? -Infinity) >= end) {
      this.#origins.pop()
      this.#lines.pop()
    }
    this.#end = Math.max(this.#from, end)
  }

  #takeBefore(): void {
    const { text } = this.#needs
    const { lines, origins } = this.#shown(text.firstNumber, this.#from, new Map())
    this.#lines.unshift(...lines)
    this.#origins.unshift(...origins)
    this.#firstNumber -= lines.length
    this.#from = text.firstNumber
  }

  #takeAfter(end: number): void {
    const { lines, origins } = this.#shown(this.#end, end, this.#levels)
    for (const line of lines) this.#lines.push(line)
    for (const origin of origins) this.#origins.push(origin)
    if (this.#last !== undefined) this.#arrived += lines.length
    this.#end = end
  }

  #shown(from: number, end: number, levels: Map<number | undefined, LogLevel>): { lines: LogLine[]; origins: number[] } {
    const { text, least } = this.#needs
    const lines: LogLine[] = []
    const origins: number[] = []
    for (let number = from; number < end; number++) {
      const line = text.lines[number - text.firstNumber] as LogLine
      const said = line.isNote === true ? null : levelOfLine(line.text)
      if (said !== null) levels.set(line.source, said)
      const level = levels.get(line.source)
      if (line.isNote !== true && (level === undefined || !reachesLevel(level, least))) continue
      lines.push(line)
      origins.push(number)
    }
    return { lines, origins }
  }
}
