import { cellWords, spacer, usedColumns } from './cells.js'
import type { Line } from './cells.js'
import type { Emulator } from './emulator.js'

/* What may be marked and copied: places are lines by their number since the beginning, and gaps between columns. */

export interface Place {
  /** As Emulator.firstLine counts. */
  line: number
  /** The gap left of this column. */
  column: number
}

/** From one place up to another, the first one before. */
export interface Range {
  from: Place
  to: Place
}

type Lines = Pick<Emulator, 'line' | 'firstLine' | 'historyLength' | 'rows' | 'columns' | 'textOf'>

/** What separates words for a double click; paths and addresses hold together. */
const separators = new Set([...' \t"\'`()[]{}<>|,;│─'])

/** The two places in their order. */
export function rangeOf(one: Place, other: Place): Range {
  const isBefore = one.line < other.line || (one.line === other.line && one.column <= other.column)
  return isBefore ? { from: one, to: other } : { from: other, to: one }
}

export type MarkStep = 'mark-left' | 'mark-right' | 'mark-up' | 'mark-down'

/** Where one step from a place leads; at either end of everything: there. */
export function stepped(lines: Lines, { line, column }: Place, step: MarkStep): Place {
  const last = lines.firstLine + lines.historyLength + lines.rows - 1
  switch (step) {
    case 'mark-left': return column > 0 || line === lines.firstLine
      ? { line, column: Math.max(0, column - 1) }
      : { line: line - 1, column: lines.columns }
    case 'mark-right': return column < lines.columns || line === last
      ? { line, column: Math.min(lines.columns, column + 1) }
      : { line: line + 1, column: 0 }
    case 'mark-up': return { line: Math.max(lines.firstLine, line - 1), column }
    case 'mark-down': return { line: Math.min(last, line + 1), column }
  }
}

/** The columns of a line that a range marks; null: none. */
export function columnsIn({ from, to }: Range, line: number, columns: number): { from: number; to: number } | null {
  if (line < from.line || line > to.line) return null
  const first = line === from.line ? from.column : 0
  const last = line === to.line ? to.column : columns
  return first < last ? { from: first, to: last } : null
}

/** From the first line that is kept to the last one that has something in it. */
export function everything(lines: Lines): Range {
  let last = lines.historyLength + lines.rows - 1
  while (last > 0 && usedColumns(lines.line(last)) === 0) last--
  return { from: { line: lines.firstLine, column: 0 }, to: { line: lines.firstLine + last, column: lines.columns } }
}

/** The text of a range. Wrapped lines are one; blanks at a line's end are left out. */
export function textIn(lines: Lines, range: Range): string {
  let text = ''
  const first = Math.max(range.from.line, lines.firstLine)
  const last = Math.min(range.to.line, lines.firstLine + lines.historyLength + lines.rows - 1)
  for (let number = first; number <= last; number++) {
    const line = lines.line(number - lines.firstLine)
    const part = columnsIn(range, number, lines.columns)
    const isCut = number === last
    const piece = part === null ? '' : textOfColumns(lines, line, part.from, part.to)
    text += line.isWrapped ? piece : piece.trimEnd()
    if (!isCut && !line.isWrapped) text += '\n'
  }
  return text
}

/** The text of a line from one column up to another; cells that nothing was written to are blanks. */
export function textOfColumns(lines: Pick<Emulator, 'textOf'>, line: Line, from: number, to: number): string {
  let text = ''
  const end = Math.min(to, usedColumns(line))
  for (let column = from; column < end; column++) {
    const word = line.cells[column * cellWords] as number
    if (word !== spacer) text += word === 0 ? ' ' : lines.textOf(word)
  }
  return text
}

/** The word at a place, over the ends of wrapped lines; a separator is one by itself. */
export function wordAt(lines: Lines, { line, column }: Place): Range {
  const { columns } = lines
  const isWord = (place: Place): boolean => {
    const text = textOfCellAt(lines, place)
    return text !== '' && !separators.has(text)
  }
  const at = { line, column: Math.min(column, columns - 1) }
  if (!isWord(at)) return { from: at, to: { line, column: at.column + 1 } }
  let from = at
  for (let before = previous(lines, from); before !== null && isWord(before); before = previous(lines, from)) from = before
  let to = at
  for (let after = next(lines, to); after !== null && isWord(after); after = next(lines, to)) to = after
  return { from, to: { line: to.line, column: to.column + 1 } }
}

/** The whole line at a place, with what wrapping has made others of it. */
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

/** The right half of a wide character counts as the character. */
function textOfCellAt(lines: Lines, { line, column }: Place): string {
  const { cells } = lines.line(line - lines.firstLine)
  const at = column * cellWords
  const word = cells[at] === spacer ? cells[at - cellWords] : cells[at]
  return lines.textOf(word ?? 0)
}
