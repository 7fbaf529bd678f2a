import type { LogWindow } from '../../lib/model/log-source.js'
import { numberWords, t } from '../words/t.js'
import type { LinePart } from './held-lines.js'
import type { LogLine } from './log-text.js'

/* Windows of a file and places in it, as they come from the server, as lines that are held. Pure. */

/** A line that says itself when it was written. */
export const lineOf = (text: string): LogLine => ({ at: '', text })

/** Lines at the end by which a file is known. */
export const knownLines = 5

/** What a file is known by. */
export const textOf = (lines: readonly LogLine[]): string => lines.slice(-knownLines).map(({ text }) => text).join('\n')

/** Bytes that are no text are said to be there. */
export function partOf({ lines, binary, startOffset, endOffset }: LogWindow): LinePart {
  const bytes = { start: startOffset, end: endOffset }
  if (!binary) return { lines: lines.map(lineOf), bytes }
  const count = endOffset - startOffset
  const text = t(count === 1 ? '1 byte that is no text' : '{count} bytes that are no text', { count: numberWords(count) })
  return { lines: [{ at: '', text, isNote: true }], bytes }
}

/** An event's id: up to which byte of which file the stream has told. */
export function placeOf(id: string): { offset: number; file: string } {
  const at = id.indexOf('@')
  return { offset: Number(id.slice(0, at)), file: id.slice(at + 1) }
}

/**
 * Whether a window may end within a line: it ends with the file, and its lines with a newline each do not fill it. Where
 * line ends are longer or bytes were broken that cannot be told from here, and the line is asked for once more.
 */
export function mayBeUnfinished({ lines, startOffset, endOffset, truncatedTail }: LogWindow): boolean {
  if (truncatedTail || lines.length === 0) return false
  const encoder = new TextEncoder()
  const bytes = lines.reduce((sum, line) => sum + encoder.encode(line).length + 1, 0)
  return bytes !== endOffset - startOffset
}
