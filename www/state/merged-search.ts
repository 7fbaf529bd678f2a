import type { LogHit } from '../../lib/model/log-source.js'
import type { LogCalls } from '../server/log-calls.js'
import { timeOfLine } from './line-time.js'
import { LogSearch } from './log-search.js'
import type { LogSearching, SearchState, Sought } from './log-search.js'
import { Announcer } from './log-text.js'

/** A hit in one of several files. */
export interface MergedHit extends LogHit {
  source: number
  /** When its line was written, or the one before it that says so; null: none of those that came with it does. */
  timeMs: number | null
}

/** The same search in several files; hits in the order of their times, those without one at the end. Dispatches `change`. */
export class MergedSearch extends Announcer implements LogSearching {
  readonly sought: Sought
  readonly hits: MergedHit[] = []
  readonly #searches: readonly LogSearch[]
  readonly #names: readonly string[]
  readonly #taken: number[]

  /** `names`: of the files, for what stands in the way. */
  constructor(sought: Sought, names: readonly string[]) {
    super()
    this.sought = sought
    this.#names = names
    this.#searches = names.map(() => new LogSearch(sought))
    this.#taken = names.map(() => 0)
    for (const [source, search] of this.#searches.entries()) search.addEventListener('change', () => this.#take(source))
  }

  async run(calls: Pick<LogCalls, 'search'>, sourceIds: readonly string[]): Promise<void> {
    await Promise.all(this.#searches.map((search, index) => search.run(calls, sourceIds[index] as string)))
  }

  cancel(): void {
    for (const search of this.#searches) search.cancel()
  }

  get state(): SearchState {
    const states = this.#searches.map(({ state }) => state)
    const order: readonly SearchState[] = ['running', 'failed', 'cancelled', 'cut']
    return order.find(state => states.includes(state)) ?? 'done'
  }

  get problem(): string | null {
    const problems = this.#searches.flatMap(({ problem }, index) => (problem === null ? [] : [`${this.#names[index]}: ${problem}`]))
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

  /** Hits of one file come in its order, so the place is mostly near the end. */
  #put(hit: MergedHit): void {
    let place = this.hits.length
    while (place > 0 && isLater(this.hits[place - 1] as MergedHit, hit)) place--
    this.hits.splice(place, 0, hit)
  }
}

const isLater = (one: MergedHit, other: MergedHit): boolean => (one.timeMs ?? Infinity) > (other.timeMs ?? Infinity)

function timeOf({ text, before }: LogHit): number | null {
  const nowMs = Date.now()
  for (const line of [text, ...[...before].reverse()]) {
    const timeMs = timeOfLine(line, nowMs)
    if (timeMs !== null) return timeMs
  }
  return null
}
