/*
 * One part of a log, searched. A part is a range of bytes: the lines that begin in it are its own, wherever they end,
 * so parts can be searched by whoever comes first and no line is searched twice. A line that has no end within
 * `maxLineBytes` after the part is cut there, and what follows is taken for a line of the next part: so a file without
 * a newline is searched in pieces, in bounded memory.
 */
import { readSync } from 'node:fs'
import { levelOfLine, reachesLevel, type LogLevel } from '../model/log-level.js'
import type { Scanner } from './scan.js'
import { cutAfter, cutBefore, lineText, newline } from './text.js'

export interface FoundHit {
  offset: number
  /** Where the line ends, with its newline. */
  end: number
  text: string
  before: string[]
  after: string[]
}

/** The lines that begin from `from` up to `to`, at most `blockBytes` apart. */
export interface Block {
  from: number
  to: number
  /** Of the file, or of what there is of it by now: then it must reach further than `lookAheadBytes` beyond `to`. */
  size: number
}

export interface BlockSearch {
  /** Gives each hit in its turn; false: enough. */
  search(block: Block, onHit: (hit: FoundHit) => boolean): void
  /** As `search`, the last hit first; `most`: of the block. */
  searchBack(block: Block, most: number, onHit: (hit: FoundHit) => boolean): void
}

interface BlockNeeds {
  fd: number
  scanner: Scanner
  context: number
  buffer: Buffer
  /** Hits are lines of this level, or worse; undefined: of any, or of none. */
  level?: LogLevel | undefined
  /** Called for each line whose level is looked at. */
  onLook?(): void
}

/** A hit in the buffer. */
interface Place {
  lineStart: number
  lineEnd: number
  matchAt: number
}

export const blockBytes = 1024 * 1024
/** Equal to a block: the next part looks as far for the end of a line as the one before it did. */
const maxLineBytes = blockBytes
/** Read beyond a block at first: the end of most lines. */
const nearBytes = 16 * 1024
/** Of a line, in a hit. */
const maxTextBytes = 16 * 1024
/** Shown before the match in a line that is cut. */
const leadBytes = 1024
/** Read to find the lines around a hit that lie outside of its block. */
const maxContextBytes = 256 * 1024
/** Looked at before a line that says no level. */
const maxLevelLines = 100
/** Nothing that lies further beyond a block is looked at. */
export const lookAheadBytes = maxLineBytes + maxContextBytes

/** One byte before the block, which tells whether a line begins with it. */
const bufferBytes = 1 + blockBytes + maxLineBytes

/** What blocks are read into, by one search after another. */
export function createBlockBuffer(): Buffer {
  return Buffer.allocUnsafeSlow(bufferBytes)
}

export function createBlockSearch({ fd, scanner, context, buffer, level, onLook }: BlockNeeds): BlockSearch {
  let size = 0
  let base = 0
  let filled = 0
  /** Where in the buffer the last line lies whose level was asked for, so that no line is looked at twice. */
  let known: { at: number; level: LogLevel | null } = { at: -1, level: null }

  function fill(upTo: number): void {
    const wanted = Math.min(upTo, size, base + buffer.length) - base
    while (filled < wanted) {
      const count = readSync(fd, buffer, filled, wanted - filled, base + filled)
      if (count === 0) return
      filled += count
    }
  }

  /** Where, in the buffer, the line ends that goes on at `at`; undefined: not in reach. */
  function lineEndFrom(at: number, reach: number): number | undefined {
    const found = buffer.subarray(0, Math.min(filled, reach)).indexOf(newline, at)
    return found === -1 ? undefined : found + 1
  }

  function load(from: number, to: number): { start: number; end: number } {
    base = Math.max(0, from - 1)
    filled = 0
    known = { at: -1, level: null }
    fill(to + nearBytes)
    const first = from - base
    const last = to - base
    const reach = last + maxLineBytes
    let end = lineEndFrom(last - 1, reach)
    if (end === undefined && base + filled < size) {
      fill(base + reach)
      end = lineEndFrom(last - 1, reach)
    }
    const isFirst = from === 0 || buffer[0] === newline
    // As far as the part before this one has looked.
    const isAtEnd = base + filled >= size
    const endOfFile = (at: number): number | undefined => (isAtEnd && filled - at <= maxLineBytes ? filled : undefined)
    const start = isFirst ? first : lineEndFrom(first, first + maxLineBytes) ?? endOfFile(first) ?? first
    return { start, end: end ?? endOfFile(last) ?? Math.min(last, filled) }
  }

  function around(from: number, to: number): { bytes: Buffer; start: number } {
    const bytes = Buffer.allocUnsafe(to - from)
    let read = 0
    while (read < bytes.length) {
      const count = readSync(fd, bytes, read, bytes.length - read, from + read)
      if (count === 0) break
      read += count
    }
    return { bytes: bytes.subarray(0, read), start: from }
  }

  /** Up to `context` lines that end at `at` in `bytes`; null: `bytes` begins too late to tell. */
  function linesBefore(bytes: Buffer, at: number, isWhole: boolean): string[] | null {
    const lines: string[] = []
    for (let end = at; lines.length < context && end > 0;) {
      const start = end === 1 ? 0 : bytes.lastIndexOf(newline, end - 2) + 1
      if (start === 0 && !isWhole) return null
      lines.unshift(cutText(bytes, start, end - 1, start))
      end = start
    }
    return lines.length < context && !isWhole ? null : lines
  }

  function linesAfter(bytes: Buffer, at: number, isWhole: boolean): string[] | null {
    const lines: string[] = []
    for (let start = at; lines.length < context && start < bytes.length;) {
      const found = bytes.indexOf(newline, start)
      if (found === -1 && !isWhole) return null
      const end = found === -1 ? bytes.length : found
      lines.push(cutText(bytes, start, end, start))
      start = end + 1
    }
    return lines.length < context && !isWhole ? null : lines
  }

  function before(lineStart: number): string[] {
    const near = linesBefore(buffer.subarray(0, filled), lineStart, base === 0)
    if (near !== null) return near
    const offset = base + lineStart
    const { bytes, start } = around(Math.max(0, offset - maxContextBytes), offset)
    // What is out of reach is left out, but for the part of it that is there.
    return linesBefore(bytes, bytes.length, start === 0) ?? linesBefore(bytes, bytes.length, true) ?? []
  }

  function after(lineEnd: number): string[] {
    const isAtEnd = base + filled >= size
    const near = linesAfter(buffer.subarray(0, filled), lineEnd, isAtEnd)
    if (near !== null) return near
    const offset = base + lineEnd
    const { bytes } = around(offset, Math.min(size, offset + maxContextBytes))
    return linesAfter(bytes, 0, true) ?? []
  }

  /** A line that says no level, as one of a stack trace, has that of the nearest line before it that says one. */
  function levelAt(lineStart: number, lineEnd: number): LogLevel | null {
    let end = lineEnd
    for (let from = lineStart, count = 0; count < maxLevelLines; count++) {
      if (from <= known.at) return known.level
      const said = levelOfLine(lineText(buffer, from, Math.min(end, from + maxTextBytes)))
      if (said !== null || from === 0) return said
      end = from - 1
      from = end === 0 ? 0 : buffer.lastIndexOf(newline, end - 1) + 1
    }
    return null
  }

  function isWanted(lineStart: number, lineEnd: number): boolean {
    if (level === undefined) return true
    onLook?.()
    known = { at: lineStart, level: levelAt(lineStart, lineEnd) }
    return known.level !== null && reachesLevel(known.level, level)
  }

  /** `start`: of the bytes that were scanned, in the buffer. */
  function hitAt(start: number, length: number, { lineStart, lineEnd, matchAt }: Place): FoundHit {
    const bytes = buffer.subarray(start, start + length)
    const afterLine = start + Math.min(lineEnd + 1, length)
    return {
      offset: base + start + lineStart,
      end: base + afterLine,
      text: cutText(bytes, lineStart, lineEnd, matchAt),
      before: context === 0 ? [] : before(start + lineStart),
      after: context === 0 ? [] : after(afterLine)
    }
  }

  return {
    search({ from, to, size: fileSize }, onHit) {
      size = fileSize
      const { start, end } = load(from, to)
      if (start >= end) return
      scanner.scan(buffer.subarray(start, end), (lineStart, lineEnd, matchAt) =>
        !isWanted(start + lineStart, start + lineEnd) || onHit(hitAt(start, end - start, { lineStart, lineEnd, matchAt })))
    },

    searchBack({ from, to, size: fileSize }, most, onHit) {
      size = fileSize
      const { start, end } = load(from, to)
      if (start >= end) return
      const places: Place[] = []
      let first = 0
      scanner.scan(buffer.subarray(start, end), (lineStart, lineEnd, matchAt) => {
        if (!isWanted(start + lineStart, start + lineEnd)) return true
        // The last ones are wanted, and which those are is known at the end of the block.
        places[first] = { lineStart, lineEnd, matchAt }
        first = (first + 1) % most
        return true
      })
      for (let count = 0; count < places.length; count++) {
        const place = places[(first - 1 - count + 2 * places.length) % places.length] as Place
        if (!onHit(hitAt(start, end - start, place))) return
      }
    }
  }
}

/** A line's text; of a very long one, the part around the match. */
function cutText(bytes: Buffer, start: number, end: number, matchAt: number): string {
  if (end - start <= maxTextBytes) return lineText(bytes, start, end)
  const isNear = matchAt - start < maxTextBytes - leadBytes
  const from = isNear ? start : cutAfter(bytes, matchAt - leadBytes)
  return lineText(bytes, from, cutBefore(bytes, Math.min(end, from + maxTextBytes)))
}
