import { levelOfLine, type LogLevel, logLevels, reachesLevel } from '../../shared/log-line.js'
import { Announcer, type LogLine, type LogText } from '../../state/held-lines.js'
import { html, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import type { Said } from '../element.js'
import type { SvcLog } from './svc-log.js'

/*
 * A log that is filtered by level: it contains the lines of a level or a worse one. A line without a level, such as a
 * line of a stack trace, has the level of the line before it. Lines before the first level are omitted. If only few of
 * the loaded lines match, earlier ones are loaded up to a limit; a search finds older ones.
 */

export interface FilteredNeeds {
  text: LogText
  least: LogLevel
  signal: AbortSignal
}

/** If fewer lines match, more of the log is loaded. */
const wantedLines = 200
const maxLoadedLines = 60_000

/** A view of another log, filtered by level. */
export class FilteredLog extends Announcer implements LogText {
  readonly #needs: FilteredNeeds
  lines: LogLine[] = []
  /** Numbers of the shown lines in the unfiltered log. */
  #origins: number[] = []
  firstNumber = 0
  epoch = 0
  arrivedLines = 0
  #textEpoch = Number.NaN
  /** Range of the unfiltered log that was examined, by line number. */
  #from = 0
  #end = 0
  #last: LogLine | undefined
  /** Last level of each source. */
  #levels = new Map<number | undefined, LogLevel>()

  constructor(needs: FilteredNeeds) {
    super()
    this.#needs = needs
    needs.text.addEventListener(
      'change',
      () => {
        this.#read()
        this.announce()
      },
      { signal: needs.signal }
    )
    this.#read()
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
    return this.firstNumber
  }

  async seek(atMs: number): Promise<number | null> {
    const found = await this.#needs.text.seek(atMs)
    return found === null ? null : this.numberOf(found)
  }

  /** Returns the number of a line of the unfiltered log in this view, or of the next shown line. */
  numberOf(origin: number): number {
    this.#read()
    const found = this.#origins.findIndex(each => each >= origin)
    return this.firstNumber + (found === -1 ? Math.max(0, this.#origins.length - 1) : found)
  }

  /** Returns the number of a shown line in the unfiltered log. */
  originOf(number: number): number {
    return this.#origins[number - this.firstNumber] ?? number
  }

  #read(): void {
    const { text } = this.#needs
    const end = text.firstNumber + text.lines.length
    if (text.epoch !== this.#textEpoch || text.firstNumber >= this.#end || end <= this.#from) this.#begin()
    if (text.firstNumber > this.#from) this.#dropHead()
    // The last line was incomplete and has changed.
    if (end < this.#end || text.lines[this.#end - 1 - text.firstNumber] !== this.#last)
      this.#dropTail(Math.min(end, this.#end - 1))
    if (text.firstNumber < this.#from) this.#takeBefore()
    if (end > this.#end) this.#takeAfter(end)
    this.#last = text.lines[this.#end - 1 - text.firstNumber]
    const isFew = this.lines.length < wantedLines && text.lines.length < maxLoadedLines
    if (isFew && text.head === 'more' && text.isAtEnd) text.reach?.('start')
  }

  #begin(): void {
    const { text } = this.#needs
    this.#textEpoch = text.epoch
    this.#from = this.#end = text.firstNumber
    this.#last = undefined
    this.lines = []
    this.#origins = []
    this.firstNumber = 0
    this.#levels.clear()
    this.epoch++
  }

  #dropHead(): void {
    const { firstNumber } = this.#needs.text
    const found = this.#origins.findIndex(origin => origin >= firstNumber)
    const count = found === -1 ? this.#origins.length : found
    this.#origins.splice(0, count)
    this.lines.splice(0, count)
    this.firstNumber += count
    this.#from = firstNumber
  }

  #dropTail(end: number): void {
    while ((this.#origins.at(-1) ?? -Infinity) >= end) {
      this.#origins.pop()
      this.lines.pop()
    }
    this.#end = Math.max(this.#from, end)
  }

  #takeBefore(): void {
    const { text } = this.#needs
    const { lines, origins } = this.#shown(text.firstNumber, this.#from, new Map())
    this.lines.unshift(...lines)
    this.#origins.unshift(...origins)
    this.firstNumber -= lines.length
    this.#from = text.firstNumber
  }

  #takeAfter(end: number): void {
    const { lines, origins } = this.#shown(this.#end, end, this.#levels)
    for (const line of lines) this.lines.push(line)
    for (const origin of origins) this.#origins.push(origin)
    if (this.#last !== undefined) this.arrivedLines += lines.length
    this.#end = end
  }

  #shown(
    from: number,
    end: number,
    levels: Map<number | undefined, LogLevel>
  ): { lines: LogLine[]; origins: number[] } {
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

/** The label of each level. */
const levelWords: Readonly<Record<LogLevel, string>> = {
  error: 'Errors',
  warn: 'Warnings and worse',
  info: 'Info and worse',
  debug: 'Lines with a level'
}

/** Returns a field that chooses the minimum level of lines, or all lines. */
export function levelChoice(level: LogLevel | null, choose?: (level: LogLevel | null) => void): Template {
  const changed = (event: Event): void => choose?.(levelOf((event.currentTarget as HTMLSelectElement).value))
  return html`
    <select class="level" name="level" aria-label="${t('Level')}" @change="${changed}">
      <option value="" .selected="${level === null}">${t('All levels')}</option>
      ${logLevels.map(
        each => html`
        <option value="${each}" .selected="${each === level}">${t(levelWords[each])}</option>`
      )}
    </select>`
}

/** Returns the level that a field or an address names, or null for all lines. */
export function levelOf(given: unknown): LogLevel | null {
  return logLevels.find(each => each === given) ?? null
}

/** Returns the sentence for a log without lines to show. */
export function noneWords(level: LogLevel | null): string {
  return level === null
    ? t('Nothing written yet.')
    : t('No loaded line has this level. Search with this level to look through the whole file.')
}

export interface LevelFilterNeeds {
  /** The element that contains the `svc-log`. */
  element: Element
  text: LogText
  onChange: () => void
  signal: AbortSignal
}

/**
 * Filters the lines of a log by level, and translates between the line numbers of its `svc-log` and of the whole log.
 */
export class LevelFilter {
  /** The visible lines, by line numbers of the whole log. */
  seen = { first: 0, last: 0, isFollowing: true }
  readonly #needs: LevelFilterNeeds
  #level: LogLevel | null = null
  #filtered: FilteredLog | null = null
  #filtering = new AbortController()

  constructor(needs: LevelFilterNeeds) {
    this.#needs = needs
  }

  /** The lines to show: all lines, or those of at least the chosen level. */
  get text(): LogText {
    return this.#filtered ?? this.#needs.text
  }

  /** The sentence for a log without lines to show. */
  get none(): string {
    return noneWords(this.#level)
  }

  field(): Template {
    return levelChoice(this.#level, level => this.#choose(level))
  }

  viewed({ first, last, isFollowing }: Said<'logview'>): void {
    const originOf = (number: number): number => this.#filtered?.originOf(number) ?? number
    this.seen = { first: originOf(first), last: originOf(last), isFollowing }
  }

  /** Shows a line by its number in the whole log. */
  reveal(number: number, place?: 'middle' | 'top'): void {
    const log = this.#needs.element.querySelector('svc-log') as SvcLog | null
    log?.reveal(this.#filtered?.numberOf(number) ?? number, place)
  }

  #choose(level: LogLevel | null): void {
    const { text, onChange, signal } = this.#needs
    const place = this.seen.isFollowing ? null : this.seen.first
    this.#filtering.abort()
    this.#filtering = new AbortController()
    this.#level = level
    const filtering = AbortSignal.any([signal, this.#filtering.signal])
    this.#filtered = level === null ? null : new FilteredLog({ text, least: level, signal: filtering })
    onChange()
    // The log contains the new lines after its next rendering.
    if (place !== null) setTimeout(() => this.reveal(place, 'top'))
  }
}
