/*
 * Searching a log (§6.4): threads that share the file, this side which puts their hits in order and sends them.
 *
 * A run is some blocks. Each thread has one run, and the next one waiting, so that it never waits for us; no more are
 * given out while the client has not taken the hits of the first, which bounds what is held. An expression that does
 * not come to an end with a block within `stallMs` is stopped by ending its thread: nothing else can.
 */
import { Worker } from 'node:worker_threads'
import { Refusal } from '../base/refusal.js'
import type { LogHit } from '../model/log-source.js'
import type { Contents } from './contents.js'
import { compilePattern, type Pattern, type PatternQuery } from './pattern.js'
import { blockBytes, type FoundHit } from './search-block.js'

export interface SearchQuery extends PatternQuery {
  /** Hits after which the search ends. */
  maxHits: number
  /** Lines before and after each hit. */
  context: number
  /** Lines that begin from here… */
  fromOffset: number
  /** …up to here; undefined: the end of the file as it is now. */
  toOffset: number | undefined
}

export type SearchEvent =
  | { event: 'hit'; data: LogHit }
  | { event: 'truncated'; data: { maxHits: number } }
  | { event: 'done'; data: { scannedBytes: number } }
  /** For a comment line; §6.4 has no such event. */
  | { event: 'progress'; text: string }

export interface Searches {
  /**
   * Sends the hits in the order of the file, each as soon as it and all before it are found, then `truncated` where
   * there are more than `maxHits`, then `done`. Refuses: 408 `search_too_slow`, 429 `too_many_searches`.
   */
  run(
    contents: Contents,
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

/** What a thread is started with. */
export interface ThreadData {
  fd: number
  size: number
  pattern: Pattern
  context: number
  maxHits: number
  /** One count of blocks begun for each thread. */
  cells: Int32Array
  cell: number
}

/** Thread, search these bytes. */
export interface Run {
  index: number
  from: number
  to: number
}

/** What a thread has found of a run. */
export interface Found {
  index: number
  hits: FoundHit[]
  isEnd: boolean
}

const runBytes = 4 * blockBytes
const threadCount = 2
/** Starting a second thread takes as long as searching this. measured: bench/search */
const minSharedBytes = 16 * blockBytes
/** Runs a thread has at once, and runs that may be held for their turn. */
const runsPerThread = 2
const maxHeldRuns = 16
const progressMs = 500
const lookMs = 500
/** What is young dies at once. The old is what was found: 5,000 hits of one block, with 40 lines around each, are 50 MB. */
const resourceLimits = { maxYoungGenerationSizeMb: 2, maxOldGenerationSizeMb: 160 }

/** Refuses a query that cannot be searched for: 400 naming `q`. */
export function checkQuery(query: SearchQuery): void {
  compilePattern(query)
}

export function createSearches(limits: SearchLimits = {}): Searches {
  const { maxSearches = 3, maxWaiting = 16 } = limits
  const gate = createGate(maxSearches, maxWaiting)
  const open = new Set<Search>()

  return {
    async run(contents, query, emit) {
      const pattern = compilePattern(query)
      const from = Math.min(query.fromOffset, contents.size)
      const to = Math.min(query.toOffset ?? contents.size, contents.size)
      const leave = await gate.enter(query.signal)
      const search = new Search({ contents, query, pattern, from, to: Math.max(from, to), limits })
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
    }
  }
}

interface Plan {
  contents: Contents
  query: SearchQuery & { signal: AbortSignal }
  pattern: Pattern
  from: number
  to: number
  limits: SearchLimits
}

interface Thread {
  worker: Worker
  cell: number
  /** Given to it and not ended. */
  runs: number
  seen: number
  seenAtMs: number
}

class Search {
  readonly #plan: Plan
  readonly #cells = new Int32Array(new SharedArrayBuffer(threadCount * 4))
  readonly #threads: Thread[] = []
  readonly #found = new Map<number, { hits: FoundHit[]; isEnded: boolean }>()
  readonly #runs: number
  /** The run whose hits are being sent, and the next one to be given out. */
  #first = 0
  #next = 0
  #failure: unknown
  #wake = (): void => {}
  #startedAtMs = performance.now()
  #look: NodeJS.Timeout | undefined

  constructor(plan: Plan) {
    this.#plan = plan
    this.#runs = Math.ceil((plan.to - plan.from) / runBytes)
  }

  async send(emit: (event: SearchEvent) => Promise<void>): Promise<void> {
    const { query: { maxHits, signal }, from, to } = this.#plan
    signal.throwIfAborted()
    const onAbort = (): void => this.#fail(signal.reason)
    signal.addEventListener('abort', onAbort)
    try {
      this.#start()
      let count = 0
      let end = from
      let toldAtMs = performance.now()
      for (; this.#first < this.#runs; this.#first++) {
        this.#giveOut()
        for await (const hit of this.#hitsOf(this.#first)) {
          if (count++ === maxHits) {
            await emit({ event: 'truncated', data: { maxHits } })
            return await emit({ event: 'done', data: { scannedBytes: end - from } })
          }
          end = hit.end
          await emit({ event: 'hit', data: { offset: hit.offset, text: hit.text, before: hit.before, after: hit.after } })
        }
        if (performance.now() - toldAtMs < progressMs) continue
        toldAtMs = performance.now()
        await emit({ event: 'progress', text: `progress ${Math.min(to - from, (this.#first + 1) * runBytes)}/${to - from}` })
      }
      await emit({ event: 'done', data: { scannedBytes: to - from } })
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Ends the threads; the file may be closed after it. */
  async end(): Promise<void> {
    clearInterval(this.#look)
    this.#fail(new Error('The search was ended'))
    await Promise.all(this.#threads.map(({ worker }) => worker.terminate()))
  }

  #start(): void {
    const { from, to } = this.#plan
    if (this.#runs === 0) return
    const count = to - from >= minSharedBytes ? threadCount : 1
    for (let cell = 0; cell < count; cell++) this.#threads.push(this.#startThread(cell))
    this.#look = setInterval(() => this.#checkLife(), lookMs)
  }

  #startThread(cell: number): Thread {
    const { contents, query, pattern } = this.#plan
    const workerData: ThreadData = {
      fd: contents.handle.fd,
      size: contents.size,
      pattern,
      context: query.context,
      maxHits: query.maxHits + 1,
      cells: this.#cells,
      cell
    }
    const worker = new Worker(new URL('./search-worker.js', import.meta.url), { workerData, resourceLimits, execArgv: [] })
    const thread: Thread = { worker, cell, runs: 0, seen: 0, seenAtMs: performance.now() }
    worker.on('message', (found: Found) => this.#take(thread, found))
    worker.on('error', error => this.#fail(error))
    return thread
  }

  #take(thread: Thread, { index, hits, isEnd }: Found): void {
    const held = this.#found.get(index)
    if (held === undefined) return
    held.hits.push(...hits)
    held.isEnded = isEnd
    if (isEnd) {
      thread.runs--
      this.#giveOut()
    }
    if (index === this.#first) this.#wake()
  }

  #giveOut(): void {
    const { from, to } = this.#plan
    while (this.#next < this.#runs && this.#next - this.#first < maxHeldRuns) {
      const [thread] = [...this.#threads].sort((a, b) => a.runs - b.runs)
      if (thread === undefined || thread.runs >= runsPerThread) return
      const index = this.#next++
      const start = from + index * runBytes
      this.#found.set(index, { hits: [], isEnded: false })
      if (thread.runs++ === 0) thread.seenAtMs = performance.now()
      thread.worker.postMessage({ index, from: start, to: Math.min(to, start + runBytes) } satisfies Run)
    }
  }

  async *#hitsOf(index: number): AsyncGenerator<FoundHit> {
    const held = this.#found.get(index)
    if (held === undefined) throw new Error(`Run ${index} was never given out`)
    for (;;) {
      while (held.hits.length > 0) {
        const hits = held.hits.splice(0)
        for (const hit of hits) yield hit
      }
      if (this.#failure !== undefined) throw this.#failure
      if (held.isEnded) break
      await new Promise<void>(resolve => { this.#wake = resolve })
    }
    this.#found.delete(index)
  }

  #fail(reason: unknown): void {
    this.#failure ??= reason
    this.#wake()
  }

  #checkLife(): void {
    const { stallMs = 3_000, maxMs = 10 * 60_000 } = this.#plan.limits
    const now = performance.now()
    for (const thread of this.#threads) {
      const seen = Atomics.load(this.#cells, thread.cell)
      if (seen !== thread.seen || thread.runs === 0) {
        thread.seen = seen
        thread.seenAtMs = now
      } else if (now - thread.seenAtMs > stallMs) {
        this.#fail(tooSlow('the expression takes too long on one part of the file; one that is simpler may do'))
      }
    }
    if (now - this.#startedAtMs > maxMs) this.#fail(tooSlow('it has taken too long; a smaller range of the file may do'))
  }
}

function tooSlow(reason: string): Refusal {
  return new Refusal('timed_out', 'search_too_slow', `The search was stopped: ${reason}`)
}

/** Lets some in at a time; the others wait in the order in which they came. */
function createGate(places: number, maxWaiting: number): { enter(signal: AbortSignal): Promise<() => void> } {
  const waiting: Array<() => void> = []
  let free = places

  const leave = (): void => {
    const next = waiting.shift()
    if (next === undefined) free++
    else next()
  }

  return {
    async enter(signal) {
      signal.throwIfAborted()
      if (free > 0) {
        free--
        return leave
      }
      if (waiting.length >= maxWaiting) {
        const sentence = 'The search cannot begin: too many others wait already; try again in a moment'
        throw new Refusal('too_many', 'too_many_searches', sentence, { retryAfterSeconds: 5 })
      }
      await new Promise<void>((resolve, reject) => {
        const enter = (): void => {
          signal.removeEventListener('abort', giveUp)
          resolve()
        }
        const giveUp = (): void => {
          waiting.splice(waiting.indexOf(enter), 1)
          reject(signal.reason as Error)
        }
        waiting.push(enter)
        signal.addEventListener('abort', giveUp, { once: true })
      })
      return leave
    }
  }
}
