import type { OutputLine } from '../../lib/model/deployment.js'
import type { OutputWindow, OutputWindowQuery } from '../server/calls.js'
import { createHeldLines } from './held-lines.js'
import type { HeldLimits, LinePart } from './held-lines.js'
import { Announcer } from './log-text.js'
import type { LogLine, LogText } from './log-text.js'
import { findTime } from './time-search.js'

/*
 * The output of a deployment, of which a part is held here: its end to begin with, what is written meanwhile, and what
 * the reader pages to. Places are bytes of what the server has stored; windows and the stream tell whole lines.
 *
 *   at the end   what the stream tells is appended
 *   elsewhere    the stream only counts; windows are read on from the lines that are held, until they are at the end
 */

export interface DeploymentOutputNeeds {
  read: (query: OutputWindowQuery) => Promise<OutputWindow>
  limits?: HeldLimits
}

/** The end of an output, which is all of most. */
const endBytes = 1024 * 1024
const pageBytes = 256 * 1024
const seekBytes = 32 * 1024
const maxLines = 200_000
const failurePauseMs = 2000

export class DeploymentOutput extends Announcer implements LogText {
  readonly #read: DeploymentOutputNeeds['read']
  readonly #held
  #epoch = 0
  #arrived = 0
  #isAtEnd = true
  /** Up to where the stream has told. */
  #told = 0
  /** What the stream told since the last microtask: one part, however many lines. */
  #coming: Array<{ line: LogLine; end: number }> = []
  #isPaging = false
  #notBeforeMs = 0

  constructor({ read, limits = { maxLines } }: DeploymentOutputNeeds) {
    super()
    this.#read = read
    this.#held = createHeldLines(limits)
  }

  get lines(): readonly LogLine[] {
    return this.#held.lines
  }

  get firstNumber(): number {
    return this.#held.firstNumber
  }

  get epoch(): number {
    return this.#epoch
  }

  get arrivedLines(): number {
    return this.#arrived
  }

  get isAtEnd(): boolean {
    return this.#isAtEnd
  }

  get head(): LogText['head'] {
    return (this.#held.start ?? 0) > 0 ? 'more' : 'start'
  }

  /** Behind which the stream is to go on. */
  get told(): number {
    return this.#told
  }

  /** Shows the end. */
  async open(): Promise<void> {
    const window = await this.#read({ bytes: endBytes })
    this.#told = Math.max(this.#told, window.to)
    this.#replace()
    this.#held.append(partOf(window))
    await this.#catchUp()
    this.announce()
  }

  /** A line of the stream, which ends at this byte. */
  append({ at, text }: OutputLine, end: number): void {
    // A stream that begins again tells what is known already.
    if (end <= this.#told) return
    this.#told = end
    if (this.#coming.length === 0) queueMicrotask(() => this.#take())
    this.#coming.push({ line: { at, text }, end })
  }

  #take(): void {
    const coming = this.#coming
    this.#coming = []
    this.#arrived += coming.length
    const start = this.#held.end ?? 0
    // A page that came in between may have brought some of them.
    const lines = coming.filter(({ end }) => end > start).map(({ line }) => line)
    if (this.#isAtEnd && lines.length > 0) {
      this.#held.append({ lines, bytes: { start, end: this.#told } })
      this.#held.trim('head')
    }
    this.announce()
  }

  reach(edge: 'start' | 'end'): void {
    if (this.#isPaging || performance.now() < this.#notBeforeMs) return
    void this.#attempt(async epoch => {
      if (edge === 'end') return this.#isAtEnd ? undefined : await this.#pageOn(epoch)
      const { start, end } = this.#held
      if (start === null || start === 0) return
      const window = await this.#read({ before: start, bytes: pageBytes })
      if (epoch !== this.#epoch || window.to !== start) return
      this.#held.prepend(partOf(window))
      this.#held.trim('tail')
      if (this.#held.end !== end) this.#isAtEnd = false
    })
  }

  toEnd(): void {
    if (!this.#isAtEnd) void this.#attempt(() => this.open())
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

  /** Shows the lines from an offset on, and those before; gives the number of the first of them. */
  async #show(from: number): Promise<number | null> {
    let number: number | null = null
    await this.#attempt(async () => {
      const after = await this.#read({ from, bytes: pageBytes })
      const before = from === 0 ? null : await this.#read({ before: from, bytes: pageBytes })
      this.#replace()
      this.#isAtEnd = false
      if (before !== null) this.#held.append(partOf(before))
      this.#held.append(partOf(after))
      number = this.firstNumber + (before?.lines.length ?? 0)
      this.#isAtEnd = after.to >= this.#told
    })
    return number
  }

  async #attempt(work: (epoch: number) => Promise<void>): Promise<void> {
    this.#isPaging = true
    try {
      await work(this.#epoch)
    } catch {
      // The connection's state is in the frame; the reader's next move asks again.
      this.#notBeforeMs = performance.now() + failurePauseMs
    } finally {
      this.#isPaging = false
      this.announce()
    }
  }

  /** The next page; gives whether it was one. */
  async #pageOn(epoch: number): Promise<void> {
    const end = this.#held.end ?? 0
    const window = await this.#read({ from: end, bytes: pageBytes })
    if (epoch !== this.#epoch || end !== (this.#held.end ?? 0)) return
    this.#held.append(partOf(window))
    this.#held.trim('head')
    this.#isAtEnd = window.to >= this.#told || window.to === end
    if (this.#isAtEnd) this.#told = Math.max(this.#told, window.to)
  }

  /** What the stream told while the end was on its way. */
  async #catchUp(): Promise<void> {
    this.#isAtEnd = (this.#held.end ?? 0) >= this.#told
    while (!this.#isAtEnd) await this.#pageOn(this.#epoch)
  }

  #replace(): void {
    this.#held.clear()
    this.#epoch++
  }
}

const partOf = ({ lines, from, to }: OutputWindow): LinePart => ({ lines, bytes: { start: from, end: to } })
