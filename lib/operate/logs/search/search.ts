/*
 * Searches a log (§6.4): threads read the file, and the main thread puts their hits in order and sends them.
 *
 * A run is a few blocks. Each thread (search-threads.ts) has one current and one waiting run, so it waits for the main
 * thread only if it has found more than the client takes. The number of runs whose hits wait to be sent is limited. If
 * an expression does not finish a block within `stallMs`, its thread is terminated, because nothing else can stop it.
 */
import { createGate } from '../../../base/async.js'
import { Refusal } from '../../../base/errors.js'
import type { LogLevel } from '../../../base/shared/log-line.js'
import type { LogHit } from '../../../model/log-source.js'
import type { ComingContents } from '../read/contents.js'
import { compilePattern, type Pattern, type PatternQuery } from './pattern.js'
import { blockBytes, lookAheadBytes, type FoundHit } from './search-block.js'
import {
  createHands,
  createSearchGate,
  createSearchThreads,
  type Expression,
  type Found,
  type Hands,
  type SearchThread,
  type SearchThreads
} from './search-threads.js'

/** What to search for, and where. */
export interface SearchQuery extends PatternQuery {
  /** Maximum number of hits; then the search ends. */
  maxHits: number
  /** Number of lines before and after each hit. */
  context: number
  /** Only lines that begin at or after this position are searched. */
  fromOffset: number
  /** Only lines that begin before this position are searched. Undefined means the current end of the file. */
  toOffset: number | undefined
  /** Searches from the end of the range to its start. A compressed file is fully decompressed first. */
  isNewestFirst?: boolean
  /** Only lines of this level or a more severe one. */
  level?: LogLevel | undefined
}

export type SearchEvent =
  | { event: 'hit'; data: LogHit }
  | { event: 'truncated'; data: { maxHits: number } }
  | { event: 'done'; data: { scannedBytes: number } }
  /** Text for a comment line; §6.4 has no such event. */
  | { event: 'progress'; text: string }

export type Searches = ReturnType<typeof createSearches>

export interface SearchLimits {
  /** Maximum number of concurrent searches. Others wait. */
  maxSearches?: number
  /** Maximum number of concurrent searches of one caller. */
  maxOfCaller?: number
  maxWaiting?: number
  /** Time without reading after which a search gives its place to one that waits. */
  unreadMs?: number
  stallMs?: number
  /** Maximum duration of one search. */
  maxMs?: number
}

const runBytes = 4 * blockBytes
/** Number of threads of all running searches together. Each search has at least one. */
const threadCount = 2
/** Starting a second thread takes longer than searching this many bytes. measured: bench/search */
const minSharedBytes = 16 * blockBytes
/** Maximum number of runs whose hits wait to be sent. */
const maxHeldRuns = 16
const progressMs = 500
/** Time without progress after which an expression is given up. */
const defaultStallMs = 3_000
/** Maximum number of threads that test lines of log checks. */
const lineTests = 2
const lookMs = 500

/** Refuses an invalid query: 400 with the field `q`. */
export function checkQuery(query: SearchQuery): void {
  compilePattern(query)
}

export function createSearches(limits: SearchLimits = {}) {
  const { maxSearches = 3, maxOfCaller = 2, maxWaiting = 16 } = limits
  const gate = createSearchGate({ places: maxSearches, perCaller: maxOfCaller, maxWaiting })
  const threads = createSearchThreads()
  const open = new Set<Search>()
  const testGate = createGate({ places: lineTests })

  return {
    /**
     * Sends each hit as soon as it and all hits before it are found, in the order of the file or in reverse order. Then
     * sends `truncated` if there are more than `maxHits`, then `done`. Refuses: 408 `search_too_slow`, 429
     * `too_many_searches`. `caller` is who its places are counted for. A search whose hits nobody reads gives its place
     * to one that waits.
     */
    async run(
      contents: Pick<ComingContents, 'handle' | 'reach'>,
      query: SearchQuery & { signal: AbortSignal; caller: string },
      emit: (event: SearchEvent) => Promise<void>
    ): Promise<void> {
      const pattern = compilePattern(query)
      const leave = await gate.enter(query.caller, query.signal)
      const share = (): number => Math.max(1, Math.floor(threadCount / open.size))
      const search = new Search({ contents, query, pattern, threads, share, limits, isWanted: gate.isWanted })
      open.add(search)
      try {
        await search.send(emit)
      } finally {
        await search.end()
        open.delete(search)
        leave()
      }
    },
    /** See `SearchThreads.firstMatch`. Few run at a time; others wait. */
    async firstMatch(expression: Expression, lines: readonly string[], signal: AbortSignal): Promise<number> {
      if (lines.length === 0) return -1
      const leave = await testGate.enter(signal)
      try {
        return await threads.firstMatch(expression, lines, { stallMs: limits.stallMs ?? defaultStallMs, signal })
      } finally {
        leave()
      }
    },
    async close(): Promise<void> {
      await Promise.all([...open].map(search => search.end()))
      await threads.close()
    }
  }
}

interface Plan {
  contents: Pick<ComingContents, 'handle' | 'reach'>
  query: SearchQuery & { signal: AbortSignal }
  pattern: Pattern
  threads: SearchThreads
  /** Returns how many threads the search may have now. */
  share(): number
  /** Whether another search waits for its place. */
  isWanted(): boolean
  limits: SearchLimits
}

/** The hits of a run that were not sent yet. */
interface HeldRun {
  found: Found[]
  thread: SearchThread
  isEnded: boolean
}

class Search {
  readonly #plan: Plan
  readonly #hands: Hands
  readonly #held = new Map<number, HeldRun>()
  readonly #from: number
  /** End of the range. Infinity until the end of a file that is being decompressed is known. */
  #to: number
  #size = 0
  #isWhole = false
  #isAsking = false
  #broken: { error: unknown } | undefined
  /** Index of the run whose hits are being sent, and of the next run to give to a thread. */
  #first = 0
  #next = 0
  #failure: unknown
  /** The event that is being sent. */
  #telling: { sinceMs: number; giveUp(reason: unknown): void } | undefined
  #wake = (): void => {}
  #startedAtMs = performance.now()
  #look: NodeJS.Timeout | undefined
  #ending: Promise<unknown> | undefined

  constructor(plan: Plan) {
    this.#plan = plan
    this.#from = plan.query.fromOffset
    this.#to = plan.query.toOffset ?? Infinity
    this.#hands = createHands({
      take: () => this.#takeThread(),
      share: plan.share,
      stallMs: plan.limits.stallMs ?? defaultStallMs
    })
  }

  async send(emit: (event: SearchEvent) => Promise<void>): Promise<void> {
    const {
      query: { maxHits, signal }
    } = this.#plan
    const from = this.#from
    const tell = (event: SearchEvent): Promise<void> => this.#tell(emit, event)
    signal.throwIfAborted()
    const onAbort = (): void => this.#fail(signal.reason)
    signal.addEventListener('abort', onAbort)
    try {
      this.#look = setInterval(() => this.#checkLife(), lookMs)
      const { isNewestFirst = false } = this.#plan.query
      let count = 0
      let end = from
      let toldAtMs = performance.now()
      for (; ; this.#first++) {
        this.#giveOut()
        const run = await this.#runOf(this.#first)
        if (run === null) break
        for await (const hit of this.#hitsOf(run)) {
          if (count++ === maxHits) {
            await tell({ event: 'truncated', data: { maxHits } })
            return await tell({ event: 'done', data: { scannedBytes: isNewestFirst ? this.#to - end : end - from } })
          }
          end = isNewestFirst ? hit.offset : hit.end
          await tell({
            event: 'hit',
            data: { offset: hit.offset, text: hit.text, before: hit.before, after: hit.after }
          })
        }
        this.#held.delete(this.#first)
        if (performance.now() - toldAtMs < progressMs) continue
        toldAtMs = performance.now()
        await tell({ event: 'progress', text: this.#progress() })
      }
      await tell({ event: 'done', data: { scannedBytes: Math.max(0, this.#to - from) } })
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Sends an event, unless the search fails while nobody reads it. */
  #tell(emit: (event: SearchEvent) => Promise<void>, event: SearchEvent): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#telling = { sinceMs: performance.now(), giveUp: reject }
      void emit(event)
        .then(resolve, reject)
        .finally(() => (this.#telling = undefined))
    })
  }

  /** Releases the threads. Afterwards the file may be closed. */
  end(): Promise<unknown> {
    clearInterval(this.#look)
    this.#fail(new Error('The search was ended'))
    this.#ending ??= this.#hands.release()
    return this.#ending
  }

  #progress(): string {
    const done = (this.#first + 1) * runBytes
    const all = this.#to - this.#from
    return `progress ${Math.min(done, all)}/${Number.isFinite(all) ? all : '?'}`
  }

  #take(found: Found): void {
    const held = this.#held.get(found.index)
    if (held === undefined) return
    held.found.push(found)
    held.isEnded = found.isEnd
    if (found.isEnd) this.#giveOut()
    if (found.index === this.#first) this.#wake()
  }

  #giveOut(): void {
    const { isNewestFirst = false } = this.#plan.query
    while (this.#failure === undefined && this.#next - this.#first < maxHeldRuns) {
      if (isNewestFirst && !this.#isWhole) return this.#ask(Infinity)
      const done = this.#next * runBytes
      if (this.#from + done >= this.#to) return
      const { from, to } = isNewestFirst
        ? { from: Math.max(this.#from, this.#to - done - runBytes), to: this.#to - done }
        : { from: this.#from + done, to: Math.min(this.#to, this.#from + done + runBytes) }
      // More than a block can reach. Otherwise the end of the available bytes could be mistaken for the end of the
      // file.
      if (!this.#isWhole && this.#size <= to + lookAheadBytes) return this.#ask(to + lookAheadBytes + 1)
      const thread = this.#hands.free({ isLarge: this.#isWhole && this.#to - this.#from >= minSharedBytes })
      if (thread === undefined) return
      const index = this.#next++
      this.#held.set(index, { found: [], thread, isEnded: false })
      thread.search({ index, from, to, size: this.#size })
    }
  }

  /** Waits for more of the file, then continues. Available bytes are searched even if decompression fails later. */
  #ask(wanted: number): void {
    if (this.#isAsking) return
    this.#isAsking = true
    this.#plan.contents.reach(wanted).then(
      ({ size, isWhole }) => {
        this.#isAsking = false
        this.#size = size
        this.#isWhole = isWhole
        if (isWhole) this.#to = Math.min(this.#to, size)
        this.#giveOut()
        this.#wake()
      },
      error => {
        this.#broken = { error }
        this.#wake()
      }
    )
  }

  #takeThread(): SearchThread {
    const { contents, query, pattern, threads } = this.#plan
    const { context, maxHits, isNewestFirst = false, level } = query
    const plan = { fd: contents.handle.fd, pattern, context, maxHits: maxHits + 1, isNewestFirst, level }
    return threads.take(plan, { found: found => this.#take(found), error: error => this.#fail(error) })
  }

  /** Returns a run after it was given to a thread, or null if the file has no such run. */
  async #runOf(index: number): Promise<HeldRun | null> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure
      const held = this.#held.get(index)
      if (held !== undefined) return held
      if (this.#broken !== undefined) throw this.#broken.error
      if (this.#from + index * runBytes >= this.#to) return null
      await this.#woken()
    }
  }

  async *#hitsOf(held: HeldRun): AsyncGenerator<FoundHit> {
    for (;;) {
      for (let found = held.found.shift(); found !== undefined; found = held.found.shift()) {
        for (const hit of found.hits) yield hit
        held.thread.sent(found)
      }
      if (this.#failure !== undefined) throw this.#failure
      if (held.isEnded) return
      await this.#woken()
    }
  }

  #woken(): Promise<void> {
    return new Promise(resolve => {
      this.#wake = resolve
    })
  }

  #fail(reason: unknown): void {
    this.#failure ??= reason
    this.#telling?.giveUp(reason)
    this.#wake()
  }

  #checkLife(): void {
    const { maxMs = 10 * 60_000, unreadMs = 10_000 } = this.#plan.limits
    const unreadSinceMs = this.#telling?.sinceMs ?? Infinity
    if (performance.now() - unreadSinceMs > unreadMs && this.#plan.isWanted())
      this.#fail(tooSlow('its hits were not read for a while, and another search waits. Search again'))
    if (this.#hands.isStalled()) {
      this.#fail(tooSlow('the expression takes too long on one part of the file. Use a simpler expression'))
    }
    if (performance.now() - this.#startedAtMs > maxMs)
      this.#fail(tooSlow('it exceeded the time limit. Search a smaller part of the file'))
  }
}

function tooSlow(reason: string): Refusal {
  return new Refusal('timed_out', 'search_too_slow', `Search stopped: ${reason}`)
}
