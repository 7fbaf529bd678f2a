import { Refused, type Client } from '../server/client.js'
import { type LogSearchQuery, openLogSearch, readEvents } from '../server/requests.js'
import type { LogHit } from '../../lib/model/log-source.js'
import type { ServerEvent } from '../shared/api.js'
import { Announcer } from './held-lines.js'
import { errorWords, streamWords } from '../words/t.js'

/** State of a search. `cut` means that there are older hits than those that were requested. */
export type SearchState = 'running' | 'done' | 'cut' | 'cancelled' | 'failed'

/** What is searched. An empty text matches every line of the level and the time. */
export type Sought = Pick<LogSearchQuery, 'q' | 'isRegex' | 'ignoresCase' | 'level' | 'sinceMs' | 'untilMs'>

/** An empty search. */
export const noSought: Sought = { q: '', isRegex: false, ignoresCase: true }

/** Whether a search is empty. */
export const isNothing = ({ q, level, sinceMs, untilMs }: Sought): boolean =>
  q === '' && (level ?? null) === null && (sinceMs ?? null) === null && (untilMs ?? null) === null

/** Number of hits per request. */
export const maxHits = 200
const contextLines = 2

/** A search as the panel shows it. */
export interface LogSearching extends EventTarget {
  readonly sought: Sought
  /** The hits. `source` is the index of the file if there are several. */
  readonly hits: ReadonlyArray<LogHit & { source?: number }>
  readonly state: SearchState
  readonly problem: string | null
  readonly progress: { done: number; all: number } | null
  cancel(): void
  /** Whether there are, or may be after a broken connection, older hits. */
  readonly hasOlder: boolean
  /** Continues the search from the oldest hit. */
  older(): void
}

/** A search of a whole file on the server, newest hits first. Dispatches `change` when hits arrive. */
export class LogSearch extends Announcer implements LogSearching {
  readonly sought: Sought
  readonly hits: LogHit[] = []
  state: SearchState = 'running'
  problem: string | null = null
  /** Searched bytes and the total; null if unknown. */
  progress: { done: number; all: number } | null = null
  readonly #stop = new AbortController()
  #goOn = (): void => {}
  #isBroken = false

  constructor(sought: Sought) {
    super()
    this.sought = sought
  }

  async run(client: Client, sourceId: string): Promise<void> {
    this.#goOn = () => void this.run(client, sourceId)
    try {
      // Every line matches if only a level or a time is given.
      const any = this.sought.q === '' ? { q: '^', isRegex: true } : {}
      const toOffset = this.hits.at(-1)?.offset ?? null
      const query = { ...this.sought, ...any, maxHits, context: contextLines, toOffset }
      const response = await openLogSearch(client, { ...query, sourceId }, this.#stop.signal)
      await readEvents(
        response,
        event => this.#event(event),
        text => this.#comment(text)
      )
      // A stream without a final event was cut.
      if (this.state === 'running') {
        this.state = 'cancelled'
        this.#isBroken = true
      }
    } catch (error) {
      if (this.state !== 'running') return
      this.state = this.#stop.signal.aborted ? 'cancelled' : 'failed'
      // A refusal would be repeated.
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

/** Returns the expression that marks hits in shown lines, or null if there is none or the browser cannot compile it. */
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
