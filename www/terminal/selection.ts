/*
 * Selection and copying of text. A place is a gap between two columns of a line. Lines are numbered since the
 * beginning, so a place stays valid while the screen scrolls.
 */
import { cellWords, type Line, spacer, usedColumns } from './cells.js'
import type { Emulator } from './emulator.js'

/** A gap between two columns of a line. */
export interface Place {
  /** Number of the line, counted as in Emulator.firstLine. */
  line: number
  /** The gap left of this column. */
  column: number
}

/** The text between two places. `from` is not after `to`. */
export interface Range {
  from: Place
  to: Place
}

type Lines = Pick<Emulator, 'line' | 'firstLine' | 'historyLength' | 'rows' | 'columns' | 'textOf'>

/** Characters that separate words for a double click. Paths and addresses stay one word. */
const separators = new Set([...' \t"\'`()[]{}<>|,;│─'])

/** Returns the range between two places in any order. */
export function rangeOf(one: Place, other: Place): Range {
  const isBefore = one.line < other.line || (one.line === other.line && one.column <= other.column)
  return isBefore ? { from: one, to: other } : { from: other, to: one }
}

/** A step that moves the end of a selection. */
export type MarkStep = 'mark-left' | 'mark-right' | 'mark-up' | 'mark-down'

/** Returns the place one step from a place. The step stops at the first and the last line. */
export function stepped(lines: Lines, { line, column }: Place, step: MarkStep): Place {
  const last = lines.firstLine + lines.historyLength + lines.rows - 1
  switch (step) {
    case 'mark-left':
      return column > 0 || line === lines.firstLine
        ? { line, column: Math.max(0, column - 1) }
        : { line: line - 1, column: lines.columns }
    case 'mark-right':
      return column < lines.columns || line === last
        ? { line, column: Math.min(lines.columns, column + 1) }
        : { line: line + 1, column: 0 }
    case 'mark-up':
      return { line: Math.max(lines.firstLine, line - 1), column }
    case 'mark-down':
      return { line: Math.min(last, line + 1), column }
  }
}

/** Returns the columns of a line that are in a range, or null if none is. */
export function columnsIn({ from, to }: Range, line: number, columns: number): { from: number; to: number } | null {
  if (line < from.line || line > to.line) return null
  const first = line === from.line ? from.column : 0
  const last = line === to.line ? to.column : columns
  return first < last ? { from: first, to: last } : null
}

/** Returns the range from the first kept line to the last line that is not empty. */
export function everything(lines: Lines): Range {
  let last = lines.historyLength + lines.rows - 1
  while (last > 0 && usedColumns(lines.line(last)) === 0) last--
  return { from: { line: lines.firstLine, column: 0 }, to: { line: lines.firstLine + last, column: lines.columns } }
}

/** Returns the text of a range. Wrapped lines become one line. Blanks at the end of a line are removed. */
export function textIn(lines: Lines, range: Range): string {
  let text = ''
  const first = Math.max(range.from.line, lines.firstLine)
  const last = Math.min(range.to.line, lines.firstLine + lines.historyLength + lines.rows - 1)
  for (let number = first; number <= last; number++) {
    const line = lines.line(number - lines.firstLine)
    const part = columnsIn(range, number, lines.columns)
    const isCut = number === last
    const piece = part === null ? '' : textOfColumns(lines, line, part)
    text += line.isWrapped ? piece : piece.trimEnd()
    if (!isCut && !line.isWrapped) text += '\n'
  }
  return text
}

/** Returns the text of a line from one column to before another. Empty cells become blanks. */
export function textOfColumns(
  lines: Pick<Emulator, 'textOf'>,
  line: Line,
  { from, to }: { from: number; to: number }
): string {
  let text = ''
  const end = Math.min(to, usedColumns(line))
  for (let column = from; column < end; column++) {
    const word = line.cells[column * cellWords] as number
    if (word !== spacer) text += word === 0 ? ' ' : lines.textOf(word)
  }
  return text
}

/** Returns the range of the word at a place. A word may span wrapped lines. A separator is a word of its own. */
export function wordAt(lines: Lines, { line, column }: Place): Range {
  const { columns } = lines
  const isWord = (place: Place): boolean => {
    const text = textOfCellAt(lines, place)
    return text !== '' && !separators.has(text)
  }
  const at = { line, column: Math.min(column, columns - 1) }
  if (!isWord(at)) return { from: at, to: { line, column: at.column + 1 } }
  let from = at
  for (let before = previous(lines, from); before !== null && isWord(before); before = previous(lines, from))
    from = before
  let to = at
  for (let after = next(lines, to); after !== null && isWord(after); after = next(lines, to)) to = after
  return { from, to: { line: to.line, column: to.column + 1 } }
}

/** Returns the range of the line at a place, including its wrapped continuation lines. */
export function lineAtPlace(lines: Lines, { line }: Place): Range {
  let first = line
  while (first > lines.firstLine && isWrapped(lines, first - 1)) first--
  let last = line
  while (isWrapped(lines, last)) last++
  return { from: { line: first, column: 0 }, to: { line: last, column: lines.columns } }
}

function isWrapped(lines: Lines, number: number): boolean {
  const index = number - lines.firstLine
  return index >= 0 && index < lines.historyLength + lines.rows - 1 && lines.line(index).isWrapped
}

function previous(lines: Lines, { line, column }: Place): Place | null {
  if (column > 0) return { line, column: column - 1 }
  return line > lines.firstLine && isWrapped(lines, line - 1) ? { line: line - 1, column: lines.columns - 1 } : null
}

function next(lines: Lines, { line, column }: Place): Place | null {
  if (column < lines.columns - 1) return { line, column: column + 1 }
  return isWrapped(lines, line) ? { line: line + 1, column: 0 } : null
}

/** Returns the text of the cell at a place. The right half of a wide character has the text of the character. */
function textOfCellAt(lines: Lines, { line, column }: Place): string {
  const { cells } = lines.line(line - lines.firstLine)
  const at = column * cellWords
  const word = cells[at] === spacer ? cells[at - cellWords] : cells[at]
  return lines.textOf(word ?? 0)
}

/** Maximum number of hits. The search stops there. */
const maxHits = 10_000

/**
 * Returns the ranges that contain a text, oldest first. Hits may span wrapped lines. The search is case-sensitive only
 * if the wanted text has capitals.
 */
export function findText(lines: Lines, wanted: string): Range[] {
  const isExact = wanted !== wanted.toLowerCase()
  const needle = isExact ? wanted : wanted.toLowerCase()
  const hits: Range[] = []
  const count = lines.historyLength + lines.rows
  for (let index = 0; index < count && needle !== '' && hits.length < maxHits; ) {
    const { text, columns, end } = joined(lines, index)
    const hay = isExact ? text : lower(text)
    for (
      let at = hay.indexOf(needle);
      at !== -1 && hits.length < maxHits;
      at = hay.indexOf(needle, at + needle.length)
    ) {
      hits.push({
        from: gapBefore(lines, index, columns[at] as number),
        to: gapAfter(lines, index, columns[at + needle.length - 1] as number)
      })
    }
    index = end
  }
  return hits
}

/**
 * Returns the text in lower case with the same length, so positions stay valid. If lower case would change the length,
 * only ASCII letters are changed.
 */
const lower = (text: string): string => {
  const small = text.toLowerCase()
  return small.length === text.length ? small : text.replace(/[A-Z]/g, letter => letter.toLowerCase())
}

/**
 * Joins a line with its wrapped continuation lines. Returns the text, the column of each UTF-16 unit, and the index of
 * the line after them.
 */
function joined(lines: Lines, index: number): { text: string; columns: number[]; end: number } {
  const count = lines.historyLength + lines.rows
  const columns: number[] = []
  let text = ''
  let offset = 0
  for (let end = index; ; end++, offset += lines.columns) {
    const line = lines.line(end)
    for (let column = 0; column < lines.columns; column++) {
      const word = line.cells[column * cellWords] as number
      if (word === spacer) continue
      const piece = word === 0 ? ' ' : lines.textOf(word)
      for (let unit = 0; unit < piece.length; unit++) columns.push(offset + column)
      text += piece
    }
    if (!line.isWrapped || end === count - 1) return { text, columns, end: end + 1 }
  }
}

/** Returns the gap left of a column of a joined line. */
function gapBefore(lines: Lines, index: number, column: number): Range['from'] {
  const row = Math.floor(column / lines.columns)
  return { line: lines.firstLine + index + row, column: column - row * lines.columns }
}

/** Returns the gap right of a column. After the last column the gap belongs to that line, not to the next one. */
function gapAfter(lines: Lines, index: number, column: number): Range['to'] {
  const { line, column: left } = gapBefore(lines, index, column)
  return { line, column: left + 1 }
}
