import type { LogHit } from '../../lib/model/log-source.js'
import type { LogCalls, LogSearchQuery } from '../server/log-calls.js'
import { Refused } from '../server/client.js'
import { readEvents } from '../server/sse.js'
import type { ServerEvent } from '../server/sse.js'
import { Announcer } from './log-text.js'
import { errorWords, streamWords } from '../words/errors.js'

/** `cut`: there are older hits than those that were asked for. */
export type SearchState = 'running' | 'done' | 'cut' | 'cancelled' | 'failed'

/** What is searched for. An empty text: any line of the level and the time. */
export type Sought = Pick<LogSearchQuery, 'q' | 'isRegex' | 'ignoresCase' | 'level' | 'sinceMs' | 'untilMs'>

export const noSought: Sought = { q: '', isRegex: false, ignoresCase: true }

/** Nothing is searched for. */
export const isNothing = ({ q, level, sinceMs, untilMs }: Sought): boolean =>
  q === '' && (level ?? null) === null && (sinceMs ?? null) === null && (untilMs ?? null) === null

/** Asked for at once, and each time that older ones are wanted. */
export const maxHits = 200
const contextLines = 2

/** A search as it is shown. */
export interface LogSearching extends EventTarget {
  readonly sought: Sought
  /** `source`: in which of several files. */
  readonly hits: ReadonlyArray<LogHit & { source?: number }>
  readonly state: SearchState
  readonly problem: string | null
  readonly progress: { done: number; all: number } | null
  cancel(): void
  /** There are older hits, or there may be: the connection broke. */
  readonly hasOlder: boolean
  /** Searches on from the oldest hit. */
  older(): void
}

/** A search of a whole file on the server, the newest hits first; they come as they are found. Dispatches `change`. */
export class LogSearch extends Announcer implements LogSearching {
  readonly sought: Sought
  readonly hits: LogHit[] = []
  state: SearchState = 'running'
  problem: string | null = null
  /** Bytes that were looked at, and all there are; null: not told yet. */
  progress: { done: number; all: number } | null = null
  readonly #stop = new AbortController()
  #goOn = (): void => {}
  #isBroken = false

  constructor(sought: Sought) {
    super()
    this.sought = sought
  }

  async run(calls: Pick<LogCalls, 'search'>, sourceId: string): Promise<void> {
    this.#goOn = () => void this.run(calls, sourceId)
    try {
      // Any line, where only a level or a time is asked for.
      const any = this.sought.q === '' ? { q: '^', isRegex: true } : {}
      const toOffset = this.hits.at(-1)?.offset ?? null
      const query = { ...this.sought, ...any, maxHits, context: contextLines, toOffset }
      const response = await calls.search(sourceId, query, this.#stop.signal)
      await readEvents(response, event => this.#event(event), text => this.#comment(text))
      // A stream that just ends was broken on its way.
      if (this.state === 'running') {
        this.state = 'cancelled'
        this.#isBroken = true
      }
    } catch (error) {
      if (this.state !== 'running') return
      this.state = this.#stop.signal.aborted ? 'cancelled' : 'failed'
      // What the server refuses it refuses again.
      this.#isBroken = this.state === 'failed' && !(error instanceof Refused)
      this.problem = this.state === 'failed' ? errorWords(error) : null
    }
    this.announce()
  }

  get hasOlder(): boolean {
    return this.state === 'cut' || this.#isBroken
  }

  older(): void {
    if (!this.hasOlder) return
    this.state = 'running'
    this.problem = null
    this.#isBroken = false
    this.progress = null
    this.announce()
    this.#goOn()
  }

  cancel(): void {
    if (this.state !== 'running') return
    this.state = 'cancelled'
    this.#stop.abort()
    this.announce()
  }

  #event({ event, data }: ServerEvent): void {
    if (event === 'hit') this.hits.push(JSON.parse(data) as LogHit)
    else if (event === 'truncated') this.state = 'cut'
    else if (event === 'done' && this.state === 'running') this.state = 'done'
    else if (event === 'error') {
      this.state = 'failed'
      this.problem = streamWords(data)
    }
    this.announce()
  }

  #comment(text: string): void {
    const found = /^progress (\d+)\/(\d+)$/.exec(text.trim())
    if (found === null) return
    this.progress = { done: Number(found[1]), all: Number(found[2]) }
    this.announce()
  }
}

/** What marks the sought in lines that are shown; null: nothing to mark, or nothing that this browser can look for. */
export function patternOf({ q, isRegex, ignoresCase }: Sought): RegExp | null {
  if (q === '') return null
  const source = isRegex ? q : q.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
  const isUnicode = isRegex && /\\[pPu]\{|[\ud800-\udbff]/.test(q)
  try {
    return new RegExp(source, `g${ignoresCase ? 'i' : ''}${isUnicode ? 'u' : ''}`)
  } catch {
    return null
  }
}
