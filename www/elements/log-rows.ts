/*
 * Which lines of a log are to be seen. Lines wrap at a number of columns of a monospaced font, so a line's height is
 * known from its text, and no line has to be drawn to be measured.
 */

/** The rows that lines take, summed up: finds the line at a height in logarithmic time. */
export interface RowIndex {
  readonly rows: number
  readonly lines: number
  /** Adds a line that is so many cells wide. */
  push(cells: number): void
  /** The first row of a line. */
  rowOf(line: number): number
  /** The line that a row belongs to. */
  lineAt(row: number): number
}

/** `columns` null: lines do not wrap, each takes one row. */
export function createRowIndex(columns: number | null): RowIndex {
  const ends: number[] = []
  const endOf = (line: number): number => (line < 0 ? 0 : (ends[line] as number))
  return {
    get rows() {
      return endOf(ends.length - 1)
    },
    get lines() {
      return ends.length
    },
    push(cells) {
      ends.push(endOf(ends.length - 1) + (columns === null ? 1 : Math.max(1, Math.ceil(cells / columns))))
    },
    rowOf: line => endOf(Math.min(line, ends.length) - 1),
    lineAt(row) {
      let low = 0
      let high = Math.max(0, ends.length - 1)
      while (low < high) {
        const middle = (low + high) >> 1
        if ((ends[middle] as number) > row) high = middle
        else low = middle + 1
      }
      return low
    }
  }
}

const tabCells = 8
// Combining marks and joiners take no cell; East Asian wide characters and emoji take two (UAX #11, abridged).
const zeroWidth = /^[\p{Mn}\p{Me}\u200b-\u200f\ufe00-\ufe0f]$/u
const doubleWidth = new RegExp(
  '^[\\u1100-\\u115f\\u2e80-\\u303e\\u3041-\\ua4cf\\uac00-\\ud7a3\\uf900-\\ufaff\\ufe30-\\ufe6f\\uff00-\\uff60' +
    '\\uffe0-\\uffe6\\u{1f300}-\\u{1f64f}\\u{1f680}-\\u{1f9ff}\\u{20000}-\\u{3fffd}]$',
  'u'
)
const narrowText = /^[\x20-\x7e]*$/

/** How many cells of a monospaced font a text takes. */
export function cellsOf(text: string): number {
  if (narrowText.test(text)) return text.length
  let cells = 0
  for (const character of text) {
    if (character === '\t') cells += tabCells - (cells % tabCells)
    else if (!zeroWidth.test(character)) cells += doubleWidth.test(character) ? 2 : 1
  }
  return cells
}
