import type { Said } from '../events.js'
import type { Template } from '../../dom/html.js'
import type { LogLevel } from '../../shared/log-line.js'
import { FilteredLog } from '../../state/filtered-log.js'
import type { LogText } from '../../state/log-text.js'
import { levelChoice, noneWords } from './log-level-choice.js'
import type { SvcLog } from './svc-log.js'

/** The dependencies of a LevelFilter. */
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
