import type { LogWindow } from '../../lib/model/log-source.js'
import { pauseMs, Refused } from '../server/client.js'
import type { ConnectionState } from '../server/client.js'
import type { LogCalls, RangeQuery } from '../server/log-calls.js'
import { followEvents } from '../server/sse.js'
import type { ServerEvent } from '../server/sse.js'
import { errorWords, streamWords } from '../words/errors.js'
import { t } from '../words/t.js'
import { createHeldLines } from './held-lines.js'
import type { HeldLimits, LinePart } from './held-lines.js'
import { knownLines, lineOf, mayBeUnfinished, partOf, placeOf, textOf } from './log-parts.js'
import { Announcer } from './log-text.js'
import type { LogLine, LogText } from './log-text.js'

/*
 * A log file on the server, of which a part is held here: windows of whole lines, by byte (§4.9 `range`), and what is
 * written meanwhile (§6.3). Each event of the stream tells up to which byte it tells; so does each window.
 *
 *   at the end     what the stream tells is appended, when it begins where the lines that are held end
 *   behind         it does not (the connection broke, the last line was unfinished): windows are read up to there
 *   elsewhere      the reader is paging; the stream only counts
 *   gap            what was not read of the old file is lost; a note says so, and how much
 *   rotated        bytes mean another file from now on; lines of the old one stay, and cannot be paged back to
 */

export type LogFileState = 'loading' | 'open' | 'missing' | 'binary' | 'failed'

export interface LogFileNeeds {
  id: string
  calls: Pick<LogCalls, 'range' | 'stream'>
  onConnection: (state: ConnectionState) => void
  signal: AbortSignal
  limits?: HeldLimits
}

const windowBytes = 256 * 1024
/** Enough to know whether a line is there. */
const seekBytes = 4 * 1024
/** What was written while the connection was lost is read up to this; more is shown by its end. */
const maxMissedBytes = 16 * 1024 * 1024
const failurePauseMs = 2000
/** Within which the stream tells of a rotation. */
const rotationMs = 2500

export class LogFile extends Announcer implements LogText {
  readonly #needs: LogFileNeeds
  readonly #held
  #state: LogFileState = 'loading'
  /** What the server says stands in the way. */
  #problem: string | null = null
  #size = 0
  #epoch = 0
  #arrived = 0
  #isAtEnd = true
  /** Which file it is, and up to where the stream has told it. */
  #file: string | null = null
  #told = 0
  #lastId = ''
  #isUnfinished = false
  #isRotating = false
  #isCatchingUp = false
  /** Nothing is known yet of whether the lines that are held are of the file that the stream tells of. */
  #isUnsure = true
  #isPaging = false
  #notBeforeMs = 0

  constructor(needs: LogFileNeeds) {
    super()
    this.#needs = needs
    this.#held = createHeldLines(needs.limits)
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
    const { start } = this.#held
    if (start === null) return this.#held.firstNumber > 0 ? 'dropped' : 'start'
    return start > 0 ? 'more' : 'start'
  }

  get state(): LogFileState {
    return this.#state
  }

  get problem(): string | null {
    return this.#problem
  }

  /** The stream has told which file it is: what is written or rotated from now on is not missed. */
  get isFollowed(): boolean {
    return this.#file !== null
  }

  /** Bytes, as far as it is known. */
  get size(): number {
    return Math.max(this.#size, this.#told, this.#held.end ?? 0)
  }

  /** About where a line stands. */
  offsetOf(number: number): number | null {
    return this.#held.offsetOf(number)
  }

  /** Shows the end, or the place at an offset, and follows until the signal is aborted. */
  async open({ at = null }: { at?: number | null } = {}): Promise<void> {
    try {
      this.#isAtEnd = at === null
      if (at === null) this.#showEnd(await this.#read({ direction: 'tail' }))
      else await this.jump(at)
    } catch (error) {
      this.#failed(error)
      if (this.#state === 'failed') return
    }
    if (this.#needs.signal.aborted) return
    await this.#follow()
  }

  /** Shows the place of a line that begins at an offset; gives its number. */
  async jump(offset: number): Promise<number> {
    const after = await this.#read({ direction: 'forward', offset })
    const before = after.startOffset === 0 ? null : await this.#read({ direction: 'backward', offset: after.startOffset })
    this.#replace()
    if (before !== null) this.#held.append(partOf(before))
    this.#held.append(partOf(after))
    this.#note(after)
    this.#isAtEnd = !after.truncatedTail && after.endOffset >= this.#told
    this.#isUnfinished = mayBeUnfinished(after)
    if (this.#isAtEnd) void this.#catchUp()
    this.announce()
    return this.#held.firstNumber + (before === null ? 0 : partOf(before).lines.length)
  }

  async seek(atMs: number): Promise<number | null> {
    const window = await this.#read({ direction: 'forward', atMs }, seekBytes)
    return window.lines.length === 0 ? null : this.jump(window.startOffset)
  }

  reach(edge: 'start' | 'end'): void {
    if (!this.#isPaging && performance.now() >= this.#notBeforeMs) void this.#page(edge)
  }

  toEnd(): void {
    if (this.#isAtEnd) return
    void this.#read({ direction: 'tail' }).then(window => this.#showEnd(window), error => this.#failed(error))
  }

  async toStart(): Promise<number> {
    try {
      return await this.jump(0)
    } catch (error) {
      this.#failed(error)
      return this.firstNumber
    }
  }

  #read(query: Omit<RangeQuery, 'size'>, size = windowBytes): Promise<LogWindow> {
    return this.#needs.calls.range(this.#needs.id, { ...query, size }, this.#needs.signal)
  }

  #replace(): void {
    this.#held.clear()
    this.#epoch++
  }

  #showEnd(window: LogWindow): void {
    this.#replace()
    this.#held.append(partOf(window))
    this.#note(window)
    this.#isUnfinished = mayBeUnfinished(window)
    this.#isAtEnd = true
    this.announce()
    void this.#catchUp()
  }

  #note({ fileSize, binary }: LogWindow): void {
    this.#size = fileSize
    this.#problem = null
    this.#state = binary && this.#held.lines.every(({ isNote }) => isNote === true) ? 'binary' : 'open'
  }

  #failed(error: unknown): void {
    if (this.#needs.signal.aborted) return
    this.#problem = errorWords(error)
    if (error instanceof Refused) this.#state = error.code === 'file_missing' ? 'missing' : 'failed'
    this.announce()
  }

  async #page(edge: 'start' | 'end'): Promise<void> {
    const { start, end } = this.#held
    const offset = edge === 'start' ? start : end
    if (offset === null || (edge === 'start' && offset === 0)) return
    this.#isPaging = true
    const epoch = this.#epoch
    try {
      const window = await this.#read({ direction: edge === 'start' ? 'backward' : 'forward', offset })
      if (epoch !== this.#epoch) return
      if (edge === 'start') this.#takeBefore(window, offset)
      else this.#takeAfter(window, offset)
      this.#size = window.fileSize
    } catch (error) {
      this.#notBeforeMs = performance.now() + failurePauseMs
      if (error instanceof Refused) this.#failed(error)
    } finally {
      this.#isPaging = false
      this.announce()
    }
  }

  #takeBefore(window: LogWindow, offset: number): void {
    // A window that does not end where the lines begin is one of a file that was written anew.
    if (window.endOffset !== offset || window.startOffset === offset) {
      this.#held.forgetBytes()
      return
    }
    this.#held.prepend(partOf(window))
    const { end } = this.#held
    this.#held.trim('tail')
    if (this.#held.end !== end) this.#isAtEnd = false
  }

  #takeAfter(window: LogWindow, offset: number): void {
    this.#add(window, offset)
    this.#held.trim('head')
    if (window.truncatedTail || (this.#held.end ?? 0) < this.#told) return
    this.#isAtEnd = true
    this.#isUnfinished = mayBeUnfinished(window)
  }

  /** Takes a window that was asked for at `end`: one that begins before it begins with a line that was unfinished. */
  #add(window: LogWindow, end: number): number {
    const { startOffset, endOffset } = window
    const isAgain = startOffset < end
    if (isAgain) this.#held.dropLast(startOffset)
    const part = partOf(window)
    this.#held.append({ ...part, bytes: { start: startOffset, end: endOffset } })
    this.#isUnfinished = mayBeUnfinished(window)
    return part.lines.length - (isAgain ? 1 : 0)
  }

  async #follow(): Promise<void> {
    const { id, calls, signal, onConnection } = this.#needs
    try {
      await followEvents({
        open: (_lastId, signal) => calls.stream(id, signal),
        onEvent: event => this.#event(event),
        onConnection,
        isFinal: error => error instanceof Refused,
        signal
      })
    } catch (error) {
      this.#failed(error)
    }
  }

  #event({ event, data, id }: ServerEvent): 'more' {
    if (event === 'snapshot') this.#snapshot(id, JSON.parse(data) as { lines: string[]; size: number; binary: boolean })
    else if (event === 'lines') this.#lines(id, (JSON.parse(data) as { lines: string[] }).lines)
    else if (event === 'rotated') this.#rotated((JSON.parse(data) as { at: string }).at)
    else if (event === 'gap') this.#gap((JSON.parse(data) as { bytes: number }).bytes)
    else if (event === 'error') {
      this.#problem = streamWords(data)
      if (this.#state === 'loading') this.#state = 'missing'
    }
    this.announce()
    return 'more'
  }

  #snapshot(id: string, { lines, size, binary }: { lines: string[]; size: number; binary: boolean }): void {
    const { offset, file } = placeOf(id)
    const shown = this.#isAtEnd ? (this.#held.end ?? 0) : 0
    const isSame = (this.#file === null || this.#file === file) && offset >= Math.max(this.#told, shown)
    this.#lastId = id
    this.#file = file
    this.#size = size
    this.#problem = null
    // Without lines nothing is known of what they are: the window has told that.
    if (binary || this.#state !== 'binary' || this.#isRotating) this.#state = binary ? 'binary' : 'open'
    if (this.#isRotating) {
      this.#isRotating = false
      this.#told = offset
      this.#arrive(lines, { start: lines.length === 0 ? offset : 0, end: offset })
      return
    }
    if (!isSame) this.#beginNewFile(t('The file was rotated meanwhile'))
    this.#told = offset
    this.#isUnsure = isSame
    if (!this.#isAtEnd) return
    if (offset - (this.#held.end ?? 0) <= maxMissedBytes) return void this.#catchUp()
    this.#isAtEnd = false
    this.toEnd()
  }

  #lines(id: string, lines: string[]): void {
    // A line of the file that had the name before, whose writer goes on: it has no place in this one.
    if (id === this.#lastId) return this.#arrive(lines, null)
    this.#lastId = id
    this.#problem = null
    const { offset } = placeOf(id)
    const from = this.#told
    this.#told = offset
    if (!this.#isAtEnd) this.#arrived += lines.length
    else if (this.#held.end === from && !this.#isUnfinished) {
      this.#arrive(lines, { start: from, end: offset })
    } else {
      void this.#catchUp()
    }
  }

  #arrive(lines: string[], bytes: LinePart['bytes']): void {
    this.#arrived += lines.length
    if (!this.#isAtEnd) return
    this.#held.append({ lines: lines.map(lineOf), bytes })
    this.#held.trim('head')
  }

  #rotated(at: string): void {
    this.#isRotating = true
    const time = new Date(at).toLocaleTimeString()
    this.#beginNewFile(t('The file was rotated at {time}', { time }))
  }

  /** The old file was truncated, and there is no copy of it: what was not read of it is nowhere. */
  #gap(bytes: number): void {
    const words = bytes === 0 ? t('Lines may have been lost here') : t('At least {count} bytes were lost here', { count: bytes })
    if (this.#isAtEnd) this.#held.append({ lines: [{ at: '', text: words, isNote: true }], bytes: null })
  }

  #beginNewFile(words: string): void {
    this.#held.forgetBytes()
    this.#isUnfinished = false
    this.#told = 0
    if (this.#isAtEnd) this.#held.append({ lines: [{ at: '', text: words, isNote: true }], bytes: { start: 0, end: 0 } })
  }

  /**
   * Whether the file still has what was shown of it: it may have been replaced before the stream told which one it is, or
   * truncated and written anew while the connection was lost.
   */
  async #makeSure(end: number): Promise<void> {
    const { signal } = this.#needs
    const isChanged = ((epoch, file) => () => epoch !== this.#epoch || file !== this.#file || end !== (this.#held.end ?? 0))(this.#epoch, this.#file)
    const shown = end === 0 ? '' : textOf(this.#held.lines)
    const window = end === 0 ? null : await this.#read({ direction: 'backward', offset: end })
    if (isChanged()) return
    this.#isUnsure = false
    if (window === null || window.binary) return
    const there = window.lines.slice(-knownLines - 1).join('\n')
    // The last line may have been unfinished, and a very long one may have been shown in other pieces.
    if (window.endOffset >= end && (there.includes(shown) || shown.includes(there))) return
    // Where it has just been rotated, the stream will tell, and better: it has the last lines of the old one.
    await new Promise(resolve => setTimeout(resolve, rotationMs))
    if (isChanged() || signal.aborted) return
    const told = this.#told
    this.#beginNewFile(t('The file was rotated meanwhile'))
    this.#told = told
  }

  /** Reads from where the lines end up to where the stream is, or what finishes the last line. */
  async #catchUp(): Promise<void> {
    if (this.#isCatchingUp || !this.#isAtEnd) return
    this.#isCatchingUp = true
    const { signal } = this.#needs
    try {
      for (let attempt = 0; !signal.aborted && this.#isAtEnd; ) {
        const end = this.#held.end ?? 0
        const epoch = this.#epoch
        const file = this.#file
        if (end >= this.#told && !this.#isUnsure) break
        try {
          if (this.#isUnsure) {
            await this.#makeSure(end)
            continue
          }
          const window = await this.#read({ direction: 'forward', offset: end })
          if (file !== this.#file || epoch !== this.#epoch || end !== (this.#held.end ?? 0)) continue
          // Shorter than what is held: another file, of which the stream will tell.
          if (window.endOffset <= end) break
          this.#arrived += this.#add(window, end)
          this.#held.trim('head')
          attempt = 0
          this.announce()
        } catch (error) {
          if (signal.aborted || error instanceof Refused) break
          await new Promise(resolve => setTimeout(resolve, pauseMs(attempt++, Math.random)))
        }
      }
    } finally {
      this.#isCatchingUp = false
    }
  }
}
