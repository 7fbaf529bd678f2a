/*
 * A window of a log (§4.9 `range`): whole lines of at most `sizeBytes` in total. Reading it costs about twice that
 * size.
 *
 *   forward   begins with the line that contains the byte at `offset`
 *   backward  ends with the line that contains the byte before `offset`
 *   tail      ends with the file
 *
 * A reader that continues at the `endOffset` of a window (or, backwards, at its `startOffset`) misses no byte and gets
 * none twice. A line that is longer than the window is returned in pieces, each a window of its own, cut at the start
 * of a character. A window that is requested in the middle of such a line begins (or ends) there. If the size is
 * smaller than a character, that character is returned. A line next to other lines is never cut: the window ends
 * before it. The end of the file is the end of a line.
 *
 * Progress: an edge moves by less than `sizeBytes - 3`, and a piece is at least `sizeBytes - 3` long or the end of its
 * line. So the far edge is always beyond `offset`.
 */
import type { FileHandle } from 'node:fs/promises'
import type { LogWindow } from '../../../model/log-source.js'
import { readAt } from '../../../base/files.js'
import { cutAfter, cutBefore, isBinary, linesOf, newline } from './text.js'

/** Which lines around `offset` a window contains, see the head of this file. */
export type Direction = 'forward' | 'backward' | 'tail'

/** The window that is requested. */
export interface WindowQuery {
  direction: Direction
  /** Position in bytes. Ignored for `tail`. A position beyond the end means the end. */
  offset: number
  sizeBytes: number
}

const carriageReturn = 13
/** A cut moves by at most this many bytes to keep a character whole. */
const characterSlack = 3

/** Reads a window of a file of `fileSize` bytes. If the file shrinks meanwhile, the window is shorter. */
export async function readWindow(handle: FileHandle, fileSize: number, query: WindowQuery): Promise<LogWindow> {
  const { direction, sizeBytes } = query
  const offset = direction === 'tail' ? fileSize : Math.min(query.offset, fileSize)
  const { start, bytes } =
    direction === 'forward'
      ? await readForward(handle, { offset, sizeBytes, fileSize })
      : await readBackward(handle, { offset, sizeBytes, fileSize })
  const binary = isBinary(bytes)
  const end = start + bytes.length
  return {
    startOffset: start,
    endOffset: end,
    fileSize,
    lines: binary ? [] : linesOf(bytes),
    truncatedHead: start > 0,
    truncatedTail: end < fileSize,
    binary
  }
}

interface Place {
  offset: number
  sizeBytes: number
  fileSize: number
}

interface Cut {
  start: number
  bytes: Buffer
}

async function readForward(handle: FileHandle, { offset, sizeBytes, fileSize }: Place): Promise<Cut> {
  if (offset === fileSize) return { start: fileSize, bytes: Buffer.alloc(0) }
  const from = Math.max(0, offset - sizeBytes - characterSlack)
  // A few more bytes: for the line end of a line that just fits, and for a character that does not fit.
  const bytes = await readAt(handle, from, Math.min(fileSize, offset + sizeBytes + characterSlack + 1) - from)
  const at = Math.min(offset - from, bytes.length)
  const lineStart = at === 0 ? 0 : bytes.lastIndexOf(newline, at - 1) + 1
  const isReached = (lineStart > 0 || from === 0) && at - lineStart < sizeBytes - characterSlack
  const start = isReached ? lineStart : cutBefore(bytes, at)
  const end = endOfForward(bytes, { start, limit: start + sizeBytes, atEnd: from + bytes.length >= fileSize })
  return { start: from + start, bytes: bytes.subarray(start, end) }
}

function endOfForward(
  bytes: Buffer,
  { start, limit, atEnd }: { start: number; limit: number; atEnd: boolean }
): number {
  if (bytes.length <= limit && atEnd) return bytes.length
  const lineEnd = bytes.lastIndexOf(newline, limit - 1)
  if (lineEnd >= start) return lineEnd + 1
  if (bytes[limit] === newline) return limit + 1
  if (bytes[limit] === carriageReturn && bytes[limit + 1] === newline) return limit + 2
  const cut = cutBefore(bytes, Math.min(limit, bytes.length))
  return cut > start ? cut : cutAfter(bytes, Math.min(limit, bytes.length))
}

async function readBackward(handle: FileHandle, { offset, sizeBytes, fileSize }: Place): Promise<Cut> {
  // A few more bytes, to see whether a line or a character begins exactly at the start of the window.
  const from = Math.max(0, offset - sizeBytes - characterSlack - 1)
  const to = Math.min(fileSize, offset + Math.max(sizeBytes, characterSlack + 1))
  const bytes = await readAt(handle, from, to - from)
  const at = Math.min(offset - from, bytes.length)
  const end = endOfBackward(bytes, { at, sizeBytes, atEnd: from + bytes.length >= fileSize })
  const limit = Math.max(0, end - sizeBytes)
  if (from === 0 && limit === 0) return { start: 0, bytes: bytes.subarray(0, end) }
  const isLineStart = limit > 0 && bytes[limit - 1] === newline
  const before = isLineStart ? limit - 1 : bytes.indexOf(newline, limit)
  const isWhole = before !== -1 && before < end - 1
  const cut = cutAfter(bytes, limit)
  const start = isWhole ? before + 1 : cut < end ? cut : cutBefore(bytes, end - 1)
  return { start: from + start, bytes: bytes.subarray(start, end) }
}

function endOfBackward(
  bytes: Buffer,
  { at, sizeBytes, atEnd }: { at: number; sizeBytes: number; atEnd: boolean }
): number {
  if (at === 0 || bytes[at - 1] === newline) return at
  const found = bytes.indexOf(newline, at)
  const lineEnd = found === -1 ? bytes.length : found + 1
  const isReached = (found !== -1 || atEnd) && lineEnd - at < sizeBytes - characterSlack
  if (isReached) return lineEnd
  const isWithin = cutBefore(bytes, at) < at
  return isWithin ? cutAfter(bytes, at) : at
}
