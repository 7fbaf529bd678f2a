import { cellWords, spacer } from './cells.js'
import type { Emulator } from './emulator.js'
import type { Range } from './selection.js'

type Lines = Pick<Emulator, 'line' | 'firstLine' | 'historyLength' | 'rows' | 'columns' | 'textOf'>

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
