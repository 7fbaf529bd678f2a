/*
 * Searching a log (§6.4): threads that share the file, this side which puts their hits in order and sends them.
 *
 * A run is some blocks. Each thread (search-hands.ts) has one run, and the next one waiting, so that it waits for us
 * only when it has found more than the client takes; no more runs are given out than may wait for their turn. An
 * expression that does not come to an end with a block within `stallMs` is stopped by ending its thread: nothing else can.
 */
import { Refusal } from '../base/refusal.js'
import type { LogLevel } from '../model/log-level.js'
import type { LogHit } from '../model/log-source.js'
import type { ComingContents } from './contents.js'
import { compilePattern, type Pattern, type PatternQuery } from './pattern.js'
import { blockBytes, lookAheadBytes, type FoundHit } from './search-block.js'
import { createSearchGate } from './search-gate.js'
import { createHands, type Hands } from './search-hands.js'
import { createSearchThreads, type Found, type SearchThread, type SearchThreads } from './search-threads.js'

export interface SearchQuery extends PatternQuery {
  /** Hits after which the search ends. */
  maxHits: number
  /** Lines before and after each hit. */
  context: number
  /** Lines that begin from here… */
  fromOffset: number
  /** …up to here; undefined: the end of the file as it is now. */
  toOffset: number | undefined
  /** From the end of the range: a compressed file is inflated to its end before. */
  isNewestFirst?: boolean
  /** Only lines of this level, or worse. */
  level?: LogLevel | undefined
}

export type SearchEvent =
  | { event: 'hit'; data: LogHit }
  | { event: 'truncated'; data: { maxHits: number } }
  | { event: 'done'; data: { scannedBytes: number } }
  /** For a comment line; §6.4 has no such event. */
  | { event: 'progress'; text: string }

export interface Searches {
  /**
   * Sends the hits in the order of the file, or in the opposite one, each as soon as it and all before it are found, then
   * `truncated` where there are more than `maxHits`, then `done`. Refuses: 408 `search_too_slow`, 429 `too_many_searches`.
   */
  run(
    contents: Pick<ComingContents, 'handle' | 'reach'>,
    query: SearchQuery & { signal: AbortSignal },
    emit: (event: SearchEvent) => Promise<void>
  ): Promise<void>
  close(): Promise<void>
}

export interface SearchLimits {
  /** At the same time; others wait. */
  maxSearches?: number
  maxWaiting?: number
  stallMs?: number
  /** Of one search in all. */
  maxMs?: number
}

const runBytes = 4 * blockBytes
/** Of all searches that run, but one for each at least. */
const threadCount = 2
/** Starting a second thread takes longer than searching this. measured: bench/search */
const minSharedBytes = 16 * blockBytes
/** Runs that may be held for their turn. */
const maxHeldRuns = 16
const progressMs = 500
const lookMs = 500

/** Refuses a query that cannot be searched for: 400 naming `q`. */
export function checkQuery(query: SearchQuery): void {
  compilePattern(query)
}

export function createSearches(limits: SearchLimits = {}): Searches {
  const { maxSearches = 3, maxWaiting = 16 } = limits
  const gate = createSearchGate(maxSearches, maxWaiting)
  const threads = createSearchThreads()
  const open = new Set<Search>()

  return {
    async run(contents, query, emit) {
      const pattern = compilePattern(query)
      const leave = await gate.enter(query.signal)
      const share = (): number => Math.max(1, Math.floor(threadCount / open.size))
      const search = new Search({ contents, query, pattern, threads, share, limits })
      open.add(search)
      try {
        await search.send(emit)
      } finally {
        await search.end()
        open.delete(search)
        leave()
      }
    },
    async close() {
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
  /** How many threads it may have now. */
  share(): number
  limits: SearchLimits
}

/** What was found of a run and not yet sent. */
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
  /** The end as far as it is known: a file that is being inflated has none yet. */
  #to: number
  #size = 0
  #isWhole = false
  #isAsking = false
  #broken: { error: unknown } | undefined
  /** The run whose hits are being sent, and the next one to be given out. */
  #first = 0
  #next = 0
  #failure: unknown
  #wake = (): void => {}
  #startedAtMs = performance.now()
  #look: NodeJS.Timeout | undefined
  #ending: Promise<unknown> | undefined

  constructor(plan: Plan) {
    this.#plan = plan
    this.#from = plan.query.fromOffset
    this.#to = plan.query.toOffset ?? Infinity
    this.#hands = createHands({ take: () => this.#takeThread(), share: plan.share, stallMs: plan.limits.stallMs ?? 3_000 })
  }

  async send(emit: (event: SearchEvent) => Promise<void>): Promise<void> {
    const { query: { maxHits, signal } } = this.#plan
    const from = this.#from
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
            await emit({ event: 'truncated', data: { maxHits } })
            return await emit({ event: 'done', data: { scannedBytes: isNewestFirst ? this.#to - end : end - from } })
          }
          end = isNewestFirst ? hit.offset : hit.end
          await emit({ event: 'hit', data: { offset: hit.offset, text: hit.text, before: hit.before, after: hit.after } })
        }
        this.#held.delete(this.#first)
        if (performance.now() - toldAtMs < progressMs) continue
        toldAtMs = performance.now()
        await emit({ event: 'progress', text: this.#progress() })
      }
      await emit({ event: 'done', data: { scannedBytes: Math.max(0, this.#to - from) } })
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Lets go of the threads; the file may be closed after it. */
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
      // More than is looked at: then the end of what there is cannot be taken for the end of the file.
      if (!this.#isWhole && this.#size <= to + lookAheadBytes) return this.#ask(to + lookAheadBytes + 1)
      const thread = this.#hands.free({ isLarge: this.#isWhole && this.#to - this.#from >= minSharedBytes })
      if (thread === undefined) return
      const index = this.#next++
      this.#held.set(index, { found: [], thread, isEnded: false })
      thread.search({ index, from, to, size: this.#size })
    }
  }

  /** Waits for more of the file, and goes on then. What comes before its end is searched, however it ends. */
  #ask(wanted: number): void {
    if (this.#isAsking) return
    this.#isAsking = true
    this.#plan.contents.reach(wanted).then(({ size, isWhole }) => {
      this.#isAsking = false
      this.#size = size
      this.#isWhole = isWhole
      if (isWhole) this.#to = Math.min(this.#to, size)
      this.#giveOut()
      this.#wake()
    }, error => {
      this.#broken = { error }
      this.#wake()
    })
  }

  #takeThread(): SearchThread {
    const { contents, query, pattern, threads } = this.#plan
    const { context, maxHits, isNewestFirst = false, level } = query
    const plan = { fd: contents.handle.fd, pattern, context, maxHits: maxHits + 1, isNewestFirst, level }
    return threads.take(plan, { found: found => this.#take(found), error: error => this.#fail(error) })
  }

  /** A run once it was given out; null: the file has no such run. */
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
    return new Promise(resolve => { this.#wake = resolve })
  }

  #fail(reason: unknown): void {
    this.#failure ??= reason
    this.#wake()
  }

  #checkLife(): void {
    const { maxMs = 10 * 60_000 } = this.#plan.limits
    if (this.#hands.isStalled()) {
      this.#fail(tooSlow('the expression takes too long on one part of the file; one that is simpler may do'))
    }
    if (performance.now() - this.#startedAtMs > maxMs) this.#fail(tooSlow('it has taken too long; a smaller range of the file may do'))
  }
}

function tooSlow(reason: string): Refusal {
  return new Refusal('timed_out', 'search_too_slow', `The search was stopped: ${reason}`)
}
