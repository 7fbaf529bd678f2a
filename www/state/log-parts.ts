import type { LogWindow } from '../../lib/model/log-source.js'
import { numberWords, t } from '../words/t.js'
import type { LinePart } from './held-lines.js'
import type { LogLine } from './log-text.js'

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
