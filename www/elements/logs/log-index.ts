import type { LogLine, LogText } from '../../state/log-text.js'
import { plainStyle, type TextStyle } from './ansi.js'
import type { LineFormat } from './log-format.js'
import { cellsOf } from './cells.js'

/*
 * What a view knows about each loaded line: its width in cells and the style in which it begins. Divided by the columns
 * of the view, cells become rows, so the position of a line is known without drawing it. The data of a line is kept
 * while lines are added or removed at both ends. A change of the width is a sum over numbers.
 */

/** The positions of the lines of a log. */
export interface LogIndex {
  /** Number of indexed lines and rows. */
  readonly lines: number
  readonly rows: number
  /** Number of the first indexed line. */
  readonly firstNumber: number
  /** Changes whenever rows have moved. */
  readonly revision: number
  /** Indexes changed lines for at most `withinMs`. Returns `part` if there is more to index. */
  read(text: LogText, withinMs: number): 'whole' | 'part'
  /** Null if lines do not wrap: each line is one row. */
  wrapAt(columns: number | null): void
  /** Sets the number of extra rows of an unfolded line. */
  unfold(line: number, rows: number): void
  /** Returns the first row of a line, by the number of the line. */
  rowOf(line: number): number
  /** Returns the number of the line that contains a row. */
  lineAt(row: number): number
  styleOf(line: number): TextStyle
}

/** Number of lines between two readings of the clock. */
const batch = 500

/** Creates an empty index of lines in a format. */
export function createLogIndex(format: LineFormat): LogIndex {
  let first = 0
  let epoch: number | undefined
  let revision = 0
  let columns: number | null = null
  let cells: number[] = []
  /** The row after each line. Rows that were dropped at the start still count. */
  let ends: number[] = []
  let rowsGivenUp = 0
  let begun = new Map<number, TextStyle>()
  let style = plainStyle
  const unfolded = new Map<number, number>()

  const rowsOf = (number: number, count: number): number =>
    (columns === null ? 1 : Math.max(1, Math.ceil(count / columns))) + (unfolded.get(number) ?? 0)

  const sum = (): void => {
    let row = 0
    rowsGivenUp = 0
    ends = cells.map((count, index) => (row += rowsOf(first + index, count)))
    revision++
  }
  const clear = (number: number): void => {
    first = number
    cells = []
    begun = new Map()
    unfolded.clear()
    style = plainStyle
    sum()
  }
  const dropHead = (count: number): void => {
    for (let number = first; number < first + count; number++) begun.delete(number)
    rowsGivenUp = ends[count - 1] as number
    cells.splice(0, count)
    ends.splice(0, count)
    first += count
    revision++
  }
  const dropTail = (count: number): void => {
    cells.splice(cells.length - count)
    ends.splice(ends.length - count)
    style = plainStyle
    revision++
  }
  const cellsIn = (line: LogLine): number => (line.isNote === true ? 0 : cellsOf(format.shown(line.text)))

  /**
   * A colour continues on the next line, but lines that were loaded later do not change the colour of the lines after
   * them.
   */
  const putBefore = (lines: readonly LogLine[], number: number): void => {
    let before = plainStyle
    const counts = lines.map((line, index) => {
      if (before !== plainStyle) begun.set(number + index, before)
      before = format.after(line.text, before)
      return cellsIn(line)
    })
    cells = counts.concat(cells)
    first = number
    sum()
  }
  const put = (line: LogLine): void => {
    const number = first + cells.length
    if (line.isNote === true) style = plainStyle
    else if (style !== plainStyle) begun.set(number, style)
    if (line.isNote !== true) style = format.after(line.text, style)
    const count = cellsIn(line)
    cells.push(count)
    ends.push((ends.at(-1) ?? rowsGivenUp) + rowsOf(number, count))
  }

  return {
    get lines() {
      return cells.length
    },
    get rows() {
      return (ends.at(-1) ?? rowsGivenUp) - rowsGivenUp
    },
    get firstNumber() {
      return first
    },
    get revision() {
      return revision
    },
    read(text, withinMs) {
      const untilMs = performance.now() + withinMs
      const { lines, firstNumber } = text
      const end = firstNumber + lines.length
      if (text.epoch !== epoch || firstNumber >= first + cells.length || end <= first) clear(firstNumber)
      epoch = text.epoch
      if (firstNumber > first) dropHead(firstNumber - first)
      if (end < first + cells.length) dropTail(first + cells.length - end)
      if (firstNumber < first) putBefore(lines.slice(0, first - firstNumber), firstNumber)
      while (cells.length < lines.length) {
        const to = Math.min(lines.length, cells.length + batch)
        while (cells.length < to) put(lines[cells.length] as LogLine)
        if (performance.now() > untilMs && cells.length < lines.length) return 'part'
      }
      return 'whole'
    },
    wrapAt(next) {
      if (next === columns) return
      columns = next
      sum()
    },
    unfold(line, rows) {
      if (rows === 0) unfolded.delete(line)
      else unfolded.set(line, rows)
      sum()
    },
    rowOf(line) {
      const index = Math.min(line - first, cells.length) - 1
      return index < 0 ? 0 : (ends[index] as number) - rowsGivenUp
    },
    lineAt(row) {
      let low = 0
      let high = Math.max(0, ends.length - 1)
      while (low < high) {
        const middle = (low + high) >> 1
        if ((ends[middle] as number) - rowsGivenUp > row) high = middle
        else low = middle + 1
      }
      return first + low
    },
    styleOf: line => begun.get(line) ?? plainStyle
  }
}
