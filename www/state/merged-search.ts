import type { LogHit } from '../../lib/model/log-source.js'
import type { LogCalls } from '../server/log-calls.js'
import { timeOfLine } from '../shared/log-line.js'
import { LogSearch, type LogSearching, type SearchState, type Sought } from './log-search.js'
import { Announcer } from './log-text.js'
import { serverNow } from './server-clock.js'

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

  async run(calls: Pick<LogCalls, 'search'>, sourceIds: readonly string[]): Promise<void> {
    const waiting = [...this.#searches.entries()]
    const runSome = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const [index, search] = next
        if (search.state === 'running') await search.run(calls, sourceIds[index] as string)
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
