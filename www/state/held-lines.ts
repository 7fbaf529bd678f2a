/*
 * The loaded lines of a file with their byte range. Lines are added and removed in parts at both ends, because exact
 * offsets are known only at the two ends of a part: the text has lost line ends and invalid characters. Pure.
 */
import type { LogWindow } from '../../lib/model/log-source.js'
import type { OutputLine } from '../../lib/model/deployment.js'
import type { OutputWindow, OutputWindowQuery } from '../server/requests.js'

/** One line of a log, as a view shows it. */
export interface LogLine {
  /** Time of the line as ISO text, if the server knows it, else empty. */
  readonly at: string
  readonly text: string
  /** Whether this is a note about the log, for example that it was rotated, and not one of its lines. */
  readonly isNote?: boolean
  /** Index of the log if there are several. */
  readonly source?: number
}

/**
 * The loaded part of a log. The numbers of lines never change: lines before the first get lower numbers, and removing
 * lines does not affect others. Dispatches `change` at most once per microtask.
 */
export interface LogText extends EventTarget {
  readonly lines: readonly LogLine[]
  /** Number of the first loaded line. */
  readonly firstNumber: number
  /** Changes when another part of the log is loaded, so that numbers denote other lines. */
  readonly epoch: number
  /** Number of lines that were appended to the log since it was opened, loaded or not. */
  readonly arrivedLines: number
  /** Whether the last loaded line is the last line of the log. */
  readonly isAtEnd: boolean
  /** What precedes the first loaded line: nothing, more lines that can be loaded, or lines that were dropped. */
  readonly head: 'start' | 'more' | 'dropped'
  /** Requests lines before the first or after the last one. They arrive as a change. */
  reach?(edge: 'start' | 'end'): void
  /** Loads the current end of the log. */
  toEnd?(): void
  /** Loads the start of the log. Returns the number of the first line. */
  toStart?(): Promise<number>
  /** Returns the number of the first line at or after a time, or null. */
  seek(atMs: number): Promise<number | null>
}

/** Dispatches `change` at most once per microtask. */
export class Announcer extends EventTarget {
  #isAnnounced = false

  protected announce(): void {
    if (this.#isAnnounced) return
    this.#isAnnounced = true
    queueMicrotask(() => {
      this.#isAnnounced = false
      this.dispatchEvent(new Event('change'))
    })
  }
}

/** Lines that were loaded together. */
export interface LinePart {
  lines: readonly LogLine[]
  /** Byte range in the file. Null means that the lines are not of the current file. */
  bytes: { start: number; end: number } | null
}

export type HeldLines = ReturnType<typeof createHeldLines>

/** Limits of the loaded lines. */
export interface HeldLimits {
  maxLines?: number
  /** Maximum number of UTF-16 code units (two bytes each). */
  maxCharacters?: number
}

/** Creates an empty set of lines. */
export function createHeldLines({ maxLines = 100_000, maxCharacters = 32 * 1024 * 1024 }: HeldLimits = {}) {
  let lines: LogLine[] = []
  let parts: Array<{ count: number; characters: number; bytes: LinePart['bytes'] }> = []
  let firstNumber = 0
  let characters = 0

  const sizeOf = (part: readonly LogLine[]): number =>
    part.reduce((sum, { text, isNote }) => sum + (isNote === true ? 0 : text.length + 1), 0)
  const isOver = (share: number, gone = 0): boolean =>
    parts.length > 1 && (lines.length - gone > maxLines * share || characters > maxCharacters * share)

  return {
    get lines() {
      return lines
    },
    get firstNumber() {
      return firstNumber
    },

    /** Start and end offset of the loaded lines in the current file; null without such lines. */
    get start() {
      // A note before the first line belongs to no file.
      return parts.find(({ bytes, characters }) => bytes !== null || characters > 0)?.bytes?.start ?? null
    },
    get end() {
      return parts.findLast(({ bytes }) => bytes !== null)?.bytes?.end ?? null
    },
    append({ lines: more, bytes }: LinePart): void {
      const size = sizeOf(more)
      for (const line of more) lines.push(line)
      parts.push({ count: more.length, characters: size, bytes })
      characters += size
    },
    prepend({ lines: more, bytes }: LinePart): void {
      const size = sizeOf(more)
      lines = [...more, ...lines]
      parts.unshift({ count: more.length, characters: size, bytes })
      firstNumber -= more.length
      characters += size
    },

    /** Removes the last line, which begins at byte `start` and was incomplete. */
    dropLast(start: number): void {
      const part = parts.findLast(({ count }) => count > 0)
      const last = lines.pop()
      if (part === undefined || last === undefined) return
      part.count--
      if (part.bytes !== null) part.bytes = { ...part.bytes, end: start }
      part.characters -= last.text.length + 1
      characters -= last.text.length + 1
    },

    /** Removes parts at one end if the limits are exceeded, and a few more, so that this happens rarely. */
    trim(end: 'head' | 'tail'): void {
      if (!isOver(1)) return
      let gone = 0
      while (isOver(0.9, gone)) {
        const part = (end === 'head' ? parts.shift() : parts.pop()) as (typeof parts)[number]
        characters -= part.characters
        gone += part.count
      }
      // One splice for all: lines that arrived one by one are many parts.
      if (end === 'head') {
        lines.splice(0, gone)
        firstNumber += gone
      } else {
        lines.splice(lines.length - gone)
      }
    },

    /** Forgets all offsets, because the name now belongs to another file. */
    forgetBytes(): void {
      for (const part of parts) part.bytes = null
    },
    clear(): void {
      lines = []
      parts = []
      firstNumber = 0
      characters = 0
    },

    /** Returns the approximate offset of a line, or null if it is not in the current file. */
    offsetOf(number: number): number | null {
      let first = firstNumber
      for (const { count, bytes } of parts) {
        if (number < first + count) {
          if (bytes === null) return null
          return Math.round(bytes.start + ((bytes.end - bytes.start) * (number - first)) / count)
        }
        first += count
      }
      return null
    }
  }
}

/** A log of which some windows are loaded. Subclasses read the windows; users see a LogText. */
export abstract class HeldLog extends Announcer {
  epoch = 0
  arrivedLines = 0
  isAtEnd = true
  protected readonly held: HeldLines

  constructor(limits?: HeldLimits) {
    super()
    this.held = createHeldLines(limits)
  }

  get lines(): readonly LogLine[] {
    return this.held.lines
  }

  get firstNumber(): number {
    return this.held.firstNumber
  }

  /** Drops all lines before the lines of another place are loaded. */
  protected replace(): void {
    this.held.clear()
    this.epoch++
  }
}

/*
 * The output of a deployment. Only a part is loaded: first its end, then new lines and the pages that the reader asks
 * for. Offsets are bytes of the stored output; windows and the stream contain whole lines.
 *
 *   at the end   new lines of the stream are appended
 *   elsewhere    the stream only counts; windows are read from the loaded lines on until they reach the end
 */

/*
 * Finds the first line at or after a time in a large file by binary search over its bytes, which requires lines in
 * chronological order. Pure except for the windows that it requests.
 */

export interface TimeSearch {
  sizeBytes: number
  atMs: number
  /** Reads the window that begins with the line at `offset`. */
  read: (offset: number) => Promise<Pick<LogWindow, 'startOffset' | 'endOffset' | 'lines'>>
  /** Returns the time of a line, or null if it has no time. */
  timeOf: (line: string) => number | null
}

/** Smaller ranges are read window by window. */
const nearBytes = 64 * 1024
/** Maximum number of windows without a time that are read from one place on. */
const maxUntimed = 8

/** Returns the offset of the window and the index of the line in it, or null if no line is at or after the time. */
export async function findTime(search: TimeSearch): Promise<{ offset: number; line: number } | null> {
  const { sizeBytes, atMs, read, timeOf } = search
  let low = 0
  let high = sizeBytes
  while (high - low > nearBytes) {
    const middle = low + Math.floor((high - low) / 2)
    const found = await firstTimed(search, middle, high)
    // This half contains no time, so only the first half can be examined.
    if (found === null || found.timeMs >= atMs) high = middle
    // A line that is longer than a window begins before it.
    else low = Math.max(middle, found.offset)
  }
  for (let offset = low; offset < sizeBytes; ) {
    const window = await read(offset)
    const line = window.lines.findIndex(text => (timeOf(text) ?? -Infinity) >= atMs)
    if (line !== -1) return { offset: window.startOffset, line }
    if (window.endOffset <= offset) return null
    offset = window.endOffset
  }
  return null
}

async function firstTimed(
  { read, timeOf }: TimeSearch,
  from: number,
  to: number
): Promise<{ timeMs: number; offset: number } | null> {
  let offset = from
  for (let count = 0; count < maxUntimed && offset < to; count++) {
    const window = await read(offset)
    for (const text of window.lines) {
      const timeMs = timeOf(text)
      if (timeMs !== null) return { timeMs, offset: window.startOffset }
    }
    if (window.endOffset <= offset) return null
    offset = window.endOffset
  }
  return null
}

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
