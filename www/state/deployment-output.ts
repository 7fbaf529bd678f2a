import type { OutputLine } from '../../lib/model/deployment.js'
import type { OutputWindow, OutputWindowQuery } from '../server/calls.js'
import type { HeldLimits, LinePart } from './held-lines.js'
import { HeldLog } from './held-log.js'
import type { LogLine, LogText } from './log-text.js'
import { findTime } from './time-search.js'

/*
 * The output of a deployment. Only a part is loaded: first its end, then new lines and the pages that the reader asks
 * for. Offsets are bytes of the stored output; windows and the stream contain whole lines.
 *
 *   at the end   new lines of the stream are appended
 *   elsewhere    the stream only counts; windows are read from the loaded lines on until they reach the end
 */

/** What `DeploymentOutput` needs. */
export interface DeploymentOutputNeeds {
  read: (query: OutputWindowQuery) => Promise<OutputWindow>
  limits?: HeldLimits
}

/** Size of the first window. Most outputs are smaller. */
const endBytes = 1024 * 1024
const pageBytes = 256 * 1024
const seekBytes = 32 * 1024
const maxLines = 200_000
const failurePauseMs = 2000

/** The output of one deployment as a log text. */
export class DeploymentOutput extends HeldLog implements LogText {
  readonly #read: DeploymentOutputNeeds['read']
  /** Offset after the last line of the stream. */
  #told = 0
  /** Lines of the stream since the last microtask. They become one part. */
  #coming: Array<{ line: LogLine; end: number }> = []
  #isPaging = false
  #notBeforeMs = 0

  constructor({ read, limits = { maxLines } }: DeploymentOutputNeeds) {
    super(limits)
    this.#read = read
  }

  get head(): LogText['head'] {
    return (this.held.start ?? 0) > 0 ? 'more' : 'start'
  }

  /** The offset at which the stream should continue. */
  get told(): number {
    return this.#told
  }

  /** Loads the end of the output. */
  async open(): Promise<void> {
    const window = await this.#read({ bytes: endBytes })
    this.#told = Math.max(this.#told, window.to)
    this.replace()
    this.held.append(partOf(window))
    await this.#catchUp()
    this.announce()
  }

  /** Takes a line of the stream that ends at byte `end`. */
  append({ at, text }: OutputLine, end: number): void {
    // A restarted stream repeats known lines.
    if (end <= this.#told) return
    this.#told = end
    if (this.#coming.length === 0) queueMicrotask(() => this.#take())
    this.#coming.push({ line: { at, text }, end })
  }

  #take(): void {
    const coming = this.#coming
    this.#coming = []
    this.arrivedLines += coming.length
    const start = this.held.end ?? 0
    // A window that arrived in between may contain some of them.
    const lines = coming.filter(({ end }) => end > start).map(({ line }) => line)
    if (this.isAtEnd && lines.length > 0) {
      this.held.append({ lines, bytes: { start, end: this.#told } })
      this.held.trim('head')
    }
    this.announce()
  }

  reach(edge: 'start' | 'end'): void {
    if (this.#isPaging || performance.now() < this.#notBeforeMs) return
    void this.#attempt(async epoch => {
      if (edge === 'end') return this.isAtEnd ? undefined : await this.#pageOn(epoch)
      const { start, end } = this.held
      if (start === null || start === 0) return
      const window = await this.#read({ before: start, bytes: pageBytes })
      if (epoch !== this.epoch || window.to !== start) return
      this.held.prepend(partOf(window))
      this.held.trim('tail')
      if (this.held.end !== end) this.isAtEnd = false
    })
  }

  toEnd(): void {
    if (!this.isAtEnd) void this.#attempt(() => this.open())
  }

  async toStart(): Promise<number> {
    return (await this.#show(0)) ?? this.firstNumber
  }

  async seek(atMs: number): Promise<number | null> {
    const read = async (from: number): Promise<{ startOffset: number; endOffset: number; lines: string[] }> => {
      const { lines, from: startOffset, to: endOffset } = await this.#read({ from, bytes: seekBytes })
      return { startOffset, endOffset, lines: lines.map(({ at }) => at) }
    }
    const found = await findTime({ sizeBytes: this.#told, atMs, read, timeOf: at => Date.parse(at) })
    if (found === null) return null
    const first = await this.#show(found.offset)
    return first === null ? null : first + found.line
  }

  /** Loads the lines around an offset. Returns the number of the first line after it. */
  async #show(from: number): Promise<number | null> {
    let number: number | null = null
    await this.#attempt(async () => {
      const after = await this.#read({ from, bytes: pageBytes })
      const before = from === 0 ? null : await this.#read({ before: from, bytes: pageBytes })
      this.replace()
      this.isAtEnd = false
      if (before !== null) this.held.append(partOf(before))
      this.held.append(partOf(after))
      number = this.firstNumber + (before?.lines.length ?? 0)
      this.isAtEnd = after.to >= this.#told
    })
    return number
  }

  async #attempt(work: (epoch: number) => Promise<void>): Promise<void> {
    this.#isPaging = true
    try {
      await work(this.epoch)
    } catch {
      // The frame shows the state of the connection; the reader's next action tries again.
      this.#notBeforeMs = performance.now() + failurePauseMs
    } finally {
      this.#isPaging = false
      this.announce()
    }
  }

  /** Loads the next window. */
  async #pageOn(epoch: number): Promise<void> {
    const end = this.held.end ?? 0
    const window = await this.#read({ from: end, bytes: pageBytes })
    if (epoch !== this.epoch || end !== (this.held.end ?? 0)) return
    this.held.append(partOf(window))
    this.held.trim('head')
    this.isAtEnd = window.to >= this.#told || window.to === end
    if (this.isAtEnd) this.#told = Math.max(this.#told, window.to)
  }

  /** Loads what the stream reported while the end was loading. */
  async #catchUp(): Promise<void> {
    this.isAtEnd = (this.held.end ?? 0) >= this.#told
    while (!this.isAtEnd) await this.#pageOn(this.epoch)
  }
}

const partOf = ({ lines, from, to }: OutputWindow): LinePart => ({ lines, bytes: { start: from, end: to } })
