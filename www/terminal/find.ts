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
        from: placeOf(lines, index, columns[at] as number),
        to: placeOf(lines, index, (columns[at + needle.length - 1] as number) + 1)
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

function placeOf(lines: Lines, index: number, column: number): Range['from'] {
  // The gap behind the last column belongs to that line, not to the next one.
  const row = column > 0 ? Math.floor((column - 1) / lines.columns) : 0
  const isStart = column > 0 && column % lines.columns === 0
  const line = lines.firstLine + index + row
  return isStart ? { line, column: lines.columns } : { line, column: column - row * lines.columns }
}
