import { cellWords, spacer } from './cells.js'
import type { Emulator } from './emulator.js'
import type { Range } from './selection.js'

type Lines = Pick<Emulator, 'line' | 'firstLine' | 'historyLength' | 'rows' | 'columns' | 'textOf'>

/** Hits beyond are not counted. */
const maxHits = 10_000

/** Where a text stands, oldest first, over the ends of wrapped lines; capitals matter only where it has some. */
export function findText(lines: Lines, wanted: string): Range[] {
  const isExact = wanted !== wanted.toLowerCase()
  const needle = isExact ? wanted : wanted.toLowerCase()
  const hits: Range[] = []
  const count = lines.historyLength + lines.rows
  for (let index = 0; index < count && needle !== '' && hits.length < maxHits; ) {
    const { text, columns, end } = joined(lines, index)
    const hay = isExact ? text : lower(text)
    for (let at = hay.indexOf(needle); at !== -1 && hits.length < maxHits; at = hay.indexOf(needle, at + needle.length)) {
      hits.push({
        from: gapBefore(lines, index, columns[at] as number),
        to: gapAfter(lines, index, columns[at + needle.length - 1] as number)
      })
    }
    index = end
  }
  return hits
}

/** Lower case of the same length: what would grow stays as it is, so that places remain true. */
const lower = (text: string): string => {
  const small = text.toLowerCase()
  return small.length === text.length ? small : text.replace(/[A-Z]/g, letter => letter.toLowerCase())
}

/** A line with those it was wrapped into: the text, for each of its units the column it stands in, and what comes next. */
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

/** The gap left of a column of a joined line. */
function gapBefore(lines: Lines, index: number, column: number): Range['from'] {
  const row = Math.floor(column / lines.columns)
  return { line: lines.firstLine + index + row, column: column - row * lines.columns }
}

/** The gap right of one: behind the last column it belongs to that line, not to the next one. */
function gapAfter(lines: Lines, index: number, column: number): Range['to'] {
  const { line, column: left } = gapBefore(lines, index, column)
  return { line, column: left + 1 }
}
