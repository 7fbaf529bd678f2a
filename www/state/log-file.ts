import { Refused, type Client, type ConnectionState } from '../server/client.js'
import { pauseMs, type RangeQuery, followEvents, openLogStream, readLogRange } from '../server/requests.js'
/*
 * A log file on the server. Only a part is loaded: windows of whole lines by byte (§4.9 `range`), and new lines (§6.3).
 * Each event of the stream and each window contains the offset of its end.
 *
 *   at the end     lines of the stream are appended if they begin where the loaded lines end
 *   behind         they do not (the connection broke, the last line was incomplete): windows are read up to there
 *   elsewhere      the reader is paging; the stream only counts
 *   gap            the unread part of the old file is lost; a note shows how much
 *   rotated        offsets now belong to another file; lines of the old one stay, but paging back to them is impossible
 */
import type { LogWindow } from '../../lib/model/log-source.js'
import { numberWords, t, errorWords, streamWords } from '../words/t.js'
import { type HeldLimits, HeldLog, type LinePart, type LogLine, type LogText } from './held-lines.js'
import type { ServerEvent } from '../shared/api.js'

/* Converts windows and offsets from the server to loaded lines. Pure. */

/** Returns a line whose time is part of its text. */
export const lineOf = (text: string): LogLine => ({ at: '', text })

/** Number of last lines that identify a file. */
export const knownLines = 5

/** Returns the text that identifies a file. */
export const textOf = (lines: readonly LogLine[]): string =>
  lines
    .slice(-knownLines)
    .map(({ text }) => text)
    .join('\n')

/** Returns a window as lines. Binary contents become a note. */
export function partOf({ lines, binary, startOffset, endOffset }: LogWindow): LinePart {
  const bytes = { start: startOffset, end: endOffset }
  if (!binary) return { lines: lines.map(lineOf), bytes }
  const count = endOffset - startOffset
  const text = t(count === 1 ? '1 byte that is no text' : '{count} bytes that are no text', {
    count: numberWords(count)
  })
  return { lines: [{ at: '', text, isNote: true }], bytes }
}

/** Returns the offset and the file from the id of an event. The file is empty if it only names one rotated away. */
export function placeOf(id: string): { offset: number; file: string } {
  const [, offset, file] = /^(\d+)@([^;,]*)/.exec(id) ?? []
  return { offset: Number(offset ?? 0), file: file ?? '' }
}

/**
 * Whether a window may end within a line: it ends with the file, and its lines with one newline each are shorter than
 * it. If line ends are longer or bytes were invalid, this is unknown, and the line is requested again.
 */
export function mayBeUnfinished({ lines, startOffset, endOffset, truncatedTail }: LogWindow): boolean {
  if (truncatedTail || lines.length === 0) return false
  const encoder = new TextEncoder()
  const bytes = lines.reduce((sum, line) => sum + encoder.encode(line).length + 1, 0)
  return bytes !== endOffset - startOffset
}

export type LogFileState = 'loading' | 'open' | 'missing' | 'binary' | 'failed'

export interface LogFileNeeds {
  id: string
  client: Client
  onConnection: (state: ConnectionState) => void
  signal: AbortSignal
  limits?: HeldLimits
}

const windowBytes = 256 * 1024
/** Size of a window that shows whether there is a line. */
const seekBytes = 4 * 1024
/** Maximum number of missed bytes that are loaded after a lost connection. If there are more, only the end is shown. */
const maxMissedBytes = 16 * 1024 * 1024
const failurePauseMs = 2000
/** Maximum time until the stream reports a rotation. */
const rotationMs = 2500

/** A log file as a log text. */
export class LogFile extends HeldLog implements LogText {
  readonly #needs: LogFileNeeds
  #state: LogFileState = 'loading'
  /** The error message of the server. */
  #problem: string | null = null
  #size = 0
  /** Identity of the file, and the last offset of the stream. */
  #file: string | null = null
  #told = 0
  #isUnfinished = false
  #isRotating = false
  #isCatchingUp = false
  /** Whether the loaded lines may be of another file than that of the stream. */
  #isUnsure = true
  #isPaging = false
  #notBeforeMs = 0

  constructor(needs: LogFileNeeds) {
    super(needs.limits)
    this.#needs = needs
  }

  get head(): LogText['head'] {
    const { start } = this.held
    if (start === null) return this.held.firstNumber > 0 ? 'dropped' : 'start'
    return start > 0 ? 'more' : 'start'
  }

  get state(): LogFileState {
    return this.#state
  }

  get problem(): string | null {
    return this.#problem
  }

  /** Whether the stream has identified the file. Lines and rotations from now on are not missed. */
  get isFollowed(): boolean {
    return this.#file !== null
  }

  /** Known size in bytes. */
  get size(): number {
    return Math.max(this.#size, this.#told, this.held.end ?? 0)
  }

  /** Returns the approximate offset of a line. */
  offsetOf(number: number): number | null {
    return this.held.offsetOf(number)
  }

  /** Loads the end or the place at an offset, and follows the file until the signal is aborted. */
  async open({ at = null }: { at?: number | null } = {}): Promise<void> {
    try {
      this.isAtEnd = at === null
      if (at === null) this.#showEnd(await this.#read({ direction: 'tail' }))
      else await this.jump(at)
    } catch (error) {
      this.#failed(error)
      if (this.#state === 'failed') return
    }
    if (this.#needs.signal.aborted) return
    await this.#follow()
  }

  /** Loads the place of the line at an offset. Returns its number. */
  async jump(offset: number): Promise<number> {
    const after = await this.#read({ direction: 'forward', offset })
    const before =
      after.startOffset === 0 ? null : await this.#read({ direction: 'backward', offset: after.startOffset })
    this.replace()
    if (before !== null) this.held.append(partOf(before))
    this.held.append(partOf(after))
    this.#note(after)
    this.isAtEnd = !after.truncatedTail && after.endOffset >= this.#told
    this.#isUnfinished = mayBeUnfinished(after)
    if (this.isAtEnd) void this.#catchUp()
    this.announce()
    return this.held.firstNumber + (before === null ? 0 : partOf(before).lines.length)
  }

  async seek(atMs: number): Promise<number | null> {
    const window = await this.#read({ direction: 'forward', atMs }, seekBytes)
    return window.lines.length === 0 ? null : this.jump(window.startOffset)
  }

  reach(edge: 'start' | 'end'): void {
    if (!this.#isPaging && performance.now() >= this.#notBeforeMs) void this.#page(edge)
  }

  toEnd(): void {
    if (this.isAtEnd) return
    void this.#read({ direction: 'tail' }).then(
      window => this.#showEnd(window),
      error => this.#failed(error)
    )
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
    const { client, id, signal } = this.#needs
    return readLogRange(client, { ...query, sourceId: id, size }, signal)
  }

  #showEnd(window: LogWindow): void {
    this.replace()
    this.held.append(partOf(window))
    this.#note(window)
    this.#isUnfinished = mayBeUnfinished(window)
    this.isAtEnd = true
    this.announce()
    void this.#catchUp()
  }

  #note({ fileSize, binary }: LogWindow): void {
    this.#size = fileSize
    this.#problem = null
    this.#state = binary && this.held.lines.every(({ isNote }) => isNote === true) ? 'binary' : 'open'
  }

  #failed(error: unknown): void {
    if (this.#needs.signal.aborted) return
    this.#problem = errorWords(error)
    if (error instanceof Refused) this.#state = error.code === 'file_missing' ? 'missing' : 'failed'
    this.announce()
  }

  async #page(edge: 'start' | 'end'): Promise<void> {
    const { start, end } = this.held
    const offset = edge === 'start' ? start : end
    if (offset === null || (edge === 'start' && offset === 0)) return
    this.#isPaging = true
    const epoch = this.epoch
    try {
      const window = await this.#read({ direction: edge === 'start' ? 'backward' : 'forward', offset })
      if (epoch !== this.epoch) return
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
    // A window that does not end where the loaded lines begin belongs to a rewritten file.
    if (window.endOffset !== offset || window.startOffset === offset) {
      this.held.forgetBytes()
      return
    }
    this.held.prepend(partOf(window))
    const { end } = this.held
    this.held.trim('tail')
    if (this.held.end !== end) this.isAtEnd = false
  }

  #takeAfter(window: LogWindow, offset: number): void {
    this.#add(window, offset)
    this.held.trim('head')
    if (window.truncatedTail || (this.held.end ?? 0) < this.#told) return
    this.isAtEnd = true
    this.#isUnfinished = mayBeUnfinished(window)
  }

  /** Adds a window that was requested at `end`. If it begins earlier, its first line was incomplete. */
  #add(window: LogWindow, end: number): number {
    const { startOffset, endOffset } = window
    const isAgain = startOffset < end
    if (isAgain) this.held.dropLast(startOffset)
    const part = partOf(window)
    this.held.append({ ...part, bytes: { start: startOffset, end: endOffset } })
    this.#isUnfinished = mayBeUnfinished(window)
    return part.lines.length - (isAgain ? 1 : 0)
  }

  async #follow(): Promise<void> {
    const { id, client, signal, onConnection } = this.#needs
    try {
      await followEvents({
        open: async (lastId, signal) =>
          openLogStream(client, { id, lastEventId: (await this.#isFarBehind(lastId)) ? '' : lastId, signal }),
        onEvent: event => this.#event(event),
        onConnection,
        isFinal: error => error instanceof Refused,
        signal
      })
    } catch (error) {
      this.#failed(error)
    }
  }

  /** Whether more was written while the connection was lost than is worth loading. */
  async #isFarBehind(lastId: string): Promise<boolean> {
    if (lastId === '') return false
    const { id, client, signal } = this.#needs
    const size = await client.call('GET /api/log-sources/:sourceId/meta', { sourceId: id, signal }).then(
      meta => meta.size,
      () => 0
    )
    return size - this.#told > maxMissedBytes
  }

  #event({ event, data, id }: ServerEvent): 'more' {
    if (event === 'snapshot') this.#snapshot(id, JSON.parse(data) as { lines: string[]; size: number; binary: boolean })
    else if (event === 'resumed') this.#resumed((JSON.parse(data) as { size: number }).size)
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
    const shown = this.isAtEnd ? (this.held.end ?? 0) : 0
    const isSame = (this.#file === null || this.#file === file) && offset >= Math.max(this.#told, shown)
    this.#file = file
    this.#size = size
    this.#problem = null
    // Without lines the kind of the contents is unknown: the window has reported it.
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
    if (!this.isAtEnd) return
    if (offset - (this.held.end ?? 0) <= maxMissedBytes) return void this.#catchUp()
    this.isAtEnd = false
    this.toEnd()
  }

  /** The stream continues where it was. The lines between follow, also those of a file rotated away. */
  #resumed(size: number): void {
    this.#size = size
    this.#problem = null
  }

  #lines(id: string, lines: string[]): void {
    const { offset, file } = placeOf(id)
    // A late line of the rotated file has no offset in the new one.
    if (file !== this.#file || offset === this.#told) return this.#arrive(lines, null)
    this.#problem = null
    const from = this.#told
    this.#told = offset
    if (!this.isAtEnd) this.arrivedLines += lines.length
    else if (this.held.end === from && !this.#isUnfinished) {
      this.#arrive(lines, { start: from, end: offset })
    } else {
      void this.#catchUp()
    }
  }

  #arrive(lines: string[], bytes: LinePart['bytes']): void {
    this.arrivedLines += lines.length
    if (!this.isAtEnd) return
    this.held.append({ lines: lines.map(lineOf), bytes })
    this.held.trim('head')
  }

  #rotated(at: string): void {
    this.#isRotating = true
    const time = new Date(at).toLocaleTimeString()
    this.#beginNewFile(t('The file was rotated at {time}', { time }))
  }

  /** Notes that the old file was truncated without a copy: its unread bytes are lost. */
  #gap(bytes: number): void {
    const words =
      bytes === 0 ? t('Lines may have been lost here') : t('At least {count} bytes were lost here', { count: bytes })
    if (this.isAtEnd) this.held.append({ lines: [{ at: '', text: words, isNote: true }], bytes: null })
  }

  #beginNewFile(words: string): void {
    this.held.forgetBytes()
    this.#isUnfinished = false
    this.#told = 0
    if (this.isAtEnd) this.held.append({ lines: [{ at: '', text: words, isNote: true }], bytes: { start: 0, end: 0 } })
  }

  /**
   * Checks that the file still contains the shown lines. It may have been replaced before the stream identified it, or
   * truncated and rewritten while the connection was lost.
   */
  async #makeSure(end: number): Promise<void> {
    const { signal } = this.#needs
    const isChanged = (
      (epoch, file) => () =>
        epoch !== this.epoch || file !== this.#file || end !== (this.held.end ?? 0)
    )(this.epoch, this.#file)
    const shown = end === 0 ? '' : textOf(this.held.lines)
    const window = end === 0 ? null : await this.#read({ direction: 'backward', offset: end })
    if (isChanged()) return
    this.#isUnsure = false
    if (window === null || window.binary) return
    const there = window.lines.slice(-knownLines - 1).join('\n')
    // The last line may have been incomplete, and a very long line may have been split differently.
    if (window.endOffset >= end && (there.includes(shown) || shown.includes(there))) return
    // After a rotation the stream is better: it also has the last lines of the old file.
    await new Promise(resolve => setTimeout(resolve, rotationMs))
    if (isChanged() || signal.aborted) return
    const told = this.#told
    this.#beginNewFile(t('The file was rotated meanwhile'))
    this.#told = told
  }

  /** Loads the lines between the loaded ones and the position of the stream, or the rest of the last line. */
  async #catchUp(): Promise<void> {
    if (this.#isCatchingUp || !this.isAtEnd) return
    this.#isCatchingUp = true
    const { signal } = this.#needs
    try {
      for (let attempt = 0; !signal.aborted && this.isAtEnd; ) {
        const end = this.held.end ?? 0
        const epoch = this.epoch
        const file = this.#file
        if (end >= this.#told && !this.#isUnsure) break
        try {
          if (this.#isUnsure) {
            await this.#makeSure(end)
            continue
          }
          const window = await this.#read({ direction: 'forward', offset: end })
          if (file !== this.#file || epoch !== this.epoch || end !== (this.held.end ?? 0)) continue
          // The file is shorter than the loaded lines: it is another one, which the stream will report.
          if (window.endOffset <= end) break
          this.arrivedLines += this.#add(window, end)
          this.held.trim('head')
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
