/*
 * Searches one part of a log. A part is a range of bytes. It contains the lines that begin in it, wherever they end,
 * so parts can be searched in any order and no line is searched twice. A line that does not end within `maxLineBytes`
 * after the part is cut there, and the rest is treated as a line of the next part. So a file without newlines is
 * searched in pieces, in bounded memory.
 */
import { readSync } from 'node:fs'
import { levelOfLine, type LogLevel, reachesLevel } from '../../../base/shared/log-line.js'
import type { Scanner } from './scan.js'
import { cutAfter, cutBefore, lineText, newline } from '../read/contents.js'

/** A hit, with the lines around it. */
export interface FoundHit {
  offset: number
  /** Position after the line and its newline. */
  end: number
  text: string
  before: string[]
  after: string[]
}

/** The lines that begin between `from` and `to`, which are at most `blockBytes` apart. */
export interface Block {
  from: number
  to: number
  /**
   * Size of the file, or of its available part. In the latter case it must exceed `to` by more than `lookAheadBytes`.
   */
  size: number
}

interface BlockNeeds {
  fd: number
  scanner: Scanner
  context: number
  buffer: Buffer
  /** Only lines of this level or a more severe one are hits. Undefined: all lines. */
  level?: LogLevel | undefined
  /** Called for each line whose level is checked. */
  onLook?(): void
}

/** Position of a hit in the buffer. */
interface Place {
  lineStart: number
  lineEnd: number
  matchAt: number
}

export const blockBytes = 1024 * 1024
/** Equal to a block, so that two neighbouring parts search equally far for the end of a line. */
const maxLineBytes = blockBytes
/** Bytes that are read beyond a block at first. Most lines end within them. */
const nearBytes = 16 * 1024
/** Maximum length of a line in a hit. */
const maxTextBytes = 16 * 1024
/** Bytes that are shown before the match in a line that is cut. */
const leadBytes = 1024
/** Maximum number of bytes that are read to find lines around a hit outside of its block. */
const maxContextBytes = 256 * 1024
/** Maximum number of lines that are checked before a line without a level. */
const maxLevelLines = 100
/** Maximum distance beyond a block at which bytes are read. */
export const lookAheadBytes = maxLineBytes + maxContextBytes

/** Includes one byte before the block, which shows whether a line begins with the block. */
const bufferBytes = 1 + blockBytes + maxLineBytes

/** Creates the buffer into which blocks are read. Searches use it one after another. */
export function createBlockBuffer(): Buffer {
  return Buffer.allocUnsafeSlow(bufferBytes)
}

/** Searches the blocks of one file. */
export class BlockSearch {
  readonly #needs: BlockNeeds
  #size = 0
  #base = 0
  #filled = 0
  /** Position and level of the last line whose level was checked, so that no line is checked twice. */
  #known: { at: number; level: LogLevel | null } = { at: -1, level: null }

  constructor(needs: BlockNeeds) {
    this.#needs = needs
  }

  /** Reports each hit in order. `onHit` returns false to stop. */
  search({ from, to, size: fileSize }: Block, onHit: (hit: FoundHit) => boolean): void {
    const { scanner, buffer } = this.#needs
    this.#size = fileSize
    const { start, end } = this.#load(from, to)
    if (start >= end) return
    scanner.scan(
      buffer.subarray(start, end),
      (lineStart, lineEnd, matchAt) =>
        !this.#isWanted(start + lineStart, start + lineEnd) ||
        onHit(this.#hitAt(start, end - start, { lineStart, lineEnd, matchAt }))
    )
  }

  /** Reports the hits from last to first, at most the last `most` of the block. */
  searchBack({ from, to, size: fileSize }: Block, most: number, onHit: (hit: FoundHit) => boolean): void {
    const { scanner, buffer } = this.#needs
    this.#size = fileSize
    const { start, end } = this.#load(from, to)
    if (start >= end) return
    const places: Place[] = []
    let first = 0
    scanner.scan(buffer.subarray(start, end), (lineStart, lineEnd, matchAt) => {
      if (!this.#isWanted(start + lineStart, start + lineEnd)) return true
      // Only the last hits are wanted, and these are known at the end of the block.
      places[first] = { lineStart, lineEnd, matchAt }
      first = (first + 1) % most
      return true
    })
    for (let count = 0; count < places.length; count++) {
      const place = places[(first - 1 - count + 2 * places.length) % places.length] as Place
      if (!onHit(this.#hitAt(start, end - start, place))) return
    }
  }

  #fill(upTo: number): void {
    const { buffer, fd } = this.#needs
    const wanted = Math.min(upTo, this.#size, this.#base + buffer.length) - this.#base
    if (this.#filled < wanted)
      this.#filled += readAt(fd, buffer.subarray(this.#filled, wanted), this.#base + this.#filled)
  }

  /** Returns the position in the buffer after the line that contains `at`, or undefined if it is not within reach. */
  #lineEndFrom(at: number, reach: number): number | undefined {
    const found = this.#needs.buffer.subarray(0, Math.min(this.#filled, reach)).indexOf(newline, at)
    return found === -1 ? undefined : found + 1
  }

  #load(from: number, to: number): { start: number; end: number } {
    this.#base = Math.max(0, from - 1)
    this.#filled = 0
    this.#known = { at: -1, level: null }
    this.#fill(to + nearBytes)
    const first = from - this.#base
    const last = to - this.#base
    const reach = last + maxLineBytes
    let end = this.#lineEndFrom(last - 1, reach)
    if (end === undefined && this.#base + this.#filled < this.#size) {
      this.#fill(this.#base + reach)
      end = this.#lineEndFrom(last - 1, reach)
    }
    const isFirst = from === 0 || this.#needs.buffer[0] === newline
    // The part before this one has searched equally far.
    const isAtEnd = this.#base + this.#filled >= this.#size
    const endOfFile = (at: number): number | undefined =>
      isAtEnd && this.#filled - at <= maxLineBytes ? this.#filled : undefined
    const start = isFirst ? first : (this.#lineEndFrom(first, first + maxLineBytes) ?? endOfFile(first) ?? first)
    return { start, end: end ?? endOfFile(last) ?? Math.min(last, this.#filled) }
  }

  #around(from: number, to: number): { bytes: Buffer; start: number } {
    const bytes = Buffer.allocUnsafe(to - from)
    return { bytes: bytes.subarray(0, readAt(this.#needs.fd, bytes, from)), start: from }
  }

  #before(lineStart: number): string[] {
    const { buffer, context } = this.#needs
    const near = linesBefore(buffer.subarray(0, this.#filled), lineStart, { isWhole: this.#base === 0, count: context })
    if (near !== null) return near
    const offset = this.#base + lineStart
    const { bytes, start } = this.#around(Math.max(0, offset - maxContextBytes), offset)
    // Lines out of reach are left out, except for the part that is available.
    const count = context
    return (
      linesBefore(bytes, bytes.length, { isWhole: start === 0, count }) ??
      linesBefore(bytes, bytes.length, { isWhole: true, count }) ??
      []
    )
  }

  #after(lineEnd: number): string[] {
    const { buffer, context } = this.#needs
    const isAtEnd = this.#base + this.#filled >= this.#size
    const near = linesAfter(buffer.subarray(0, this.#filled), lineEnd, { isWhole: isAtEnd, count: context })
    if (near !== null) return near
    const offset = this.#base + lineEnd
    const { bytes } = this.#around(offset, Math.min(this.#size, offset + maxContextBytes))
    return linesAfter(bytes, 0, { isWhole: true, count: context }) ?? []
  }

  /**
   * Returns the level of a line. A line without one, such as a line of a stack trace, has the level of the nearest line
   * before it that has one.
   */
  #levelAt(lineStart: number, lineEnd: number): LogLevel | null {
    const { buffer } = this.#needs
    let end = lineEnd
    for (let from = lineStart, count = 0; count < maxLevelLines; count++) {
      if (from <= this.#known.at) return this.#known.level
      const said = levelOfLine(lineText(buffer, from, Math.min(end, from + maxTextBytes)))
      if (said !== null || from === 0) return said
      end = from - 1
      from = end === 0 ? 0 : buffer.lastIndexOf(newline, end - 1) + 1
    }
    return null
  }

  #isWanted(lineStart: number, lineEnd: number): boolean {
    const { level, onLook } = this.#needs
    if (level === undefined) return true
    onLook?.()
    this.#known = { at: lineStart, level: this.#levelAt(lineStart, lineEnd) }
    return this.#known.level !== null && reachesLevel(this.#known.level, level)
  }

  /** Builds a hit. `start` is the position of the scanned bytes in the buffer. */
  #hitAt(start: number, length: number, { lineStart, lineEnd, matchAt }: Place): FoundHit {
    const { buffer, context } = this.#needs
    const bytes = buffer.subarray(start, start + length)
    const afterLine = start + Math.min(lineEnd + 1, length)
    return {
      offset: this.#base + start + lineStart,
      end: this.#base + afterLine,
      text: cutText(bytes, { lineStart, lineEnd, matchAt }),
      before: context === 0 ? [] : this.#before(start + lineStart),
      after: context === 0 ? [] : this.#after(afterLine)
    }
  }
}

/** Fills `into` with the bytes at `position`. Returns how many were read; fewer only at the end of the file. */
function readAt(fd: number, into: Uint8Array, position: number): number {
  let length = 0
  while (length < into.length) {
    const count = readSync(fd, into, length, into.length - length, position + length)
    if (count === 0) break
    length += count
  }
  return length
}

/** How many lines around a hit are wanted, and whether the bytes reach the end of the file on that side. */
interface Around {
  isWhole: boolean
  count: number
}

/** Returns up to `count` lines that end at `at` in `bytes`, or null if `bytes` begins too late to decide. */
function linesBefore(bytes: Buffer, at: number, { isWhole, count }: Around): string[] | null {
  const lines: string[] = []
  for (let end = at; lines.length < count && end > 0; ) {
    const start = end === 1 ? 0 : bytes.lastIndexOf(newline, end - 2) + 1
    if (start === 0 && !isWhole) return null
    lines.unshift(cutText(bytes, { lineStart: start, lineEnd: end - 1, matchAt: start }))
    end = start
  }
  return lines.length < count && !isWhole ? null : lines
}

/** Returns up to `count` lines that begin at `at` in `bytes`, or null if `bytes` ends too early to decide. */
function linesAfter(bytes: Buffer, at: number, { isWhole, count }: Around): string[] | null {
  const lines: string[] = []
  for (let start = at; lines.length < count && start < bytes.length; ) {
    const found = bytes.indexOf(newline, start)
    if (found === -1 && !isWhole) return null
    const end = found === -1 ? bytes.length : found
    lines.push(cutText(bytes, { lineStart: start, lineEnd: end, matchAt: start }))
    start = end + 1
  }
  return lines.length < count && !isWhole ? null : lines
}

/** Returns the text of a line; of a very long line, the part around the match. */
function cutText(bytes: Buffer, { lineStart: start, lineEnd: end, matchAt }: Place): string {
  if (end - start <= maxTextBytes) return lineText(bytes, start, end)
  const isNear = matchAt - start < maxTextBytes - leadBytes
  const from = isNear ? start : cutAfter(bytes, matchAt - leadBytes)
  return lineText(bytes, from, cutBefore(bytes, Math.min(end, from + maxTextBytes)))
}
