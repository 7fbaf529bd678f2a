import type { LogLine, LogText } from '../state/log-text.js'
import { plainStyle } from './ansi.js'
import type { TextStyle } from './ansi.js'
import type { LineFormat } from './log-format.js'
import { cellsOf } from './cells.js'

/*
 * What a view knows of each line that is held: how many cells it takes, in which colours it begins. With a number of
 * columns the cells become rows, so that a line's place is known without drawing it. What is known of a line is kept
 * while lines come and go at both ends, and a change of the width is a sum over numbers.
 */

export interface LogIndex {
  /** Lines and rows that are known. */
  readonly lines: number
  readonly rows: number
  /** The number of the first line known. */
  readonly firstNumber: number
  /** Another one: rows are not where they were. */
  readonly revision: number
  /** Looks at what has changed, for so long at most; `part`: there is more to look at. */
  read(text: LogText, withinMs: number): 'whole' | 'part'
  /** Null: lines do not wrap, each takes one row. */
  wrapAt(columns: number | null): void
  /** Rows that a line takes beside its own, since it is unfolded. */
  unfold(line: number, rows: number): void
  /** The first row of a line, by its number. */
  rowOf(line: number): number
  /** The number of the line that a row belongs to. */
  lineAt(row: number): number
  styleOf(line: number): TextStyle
}

/** How many lines are looked at between two looks at the clock. */
const batch = 500

export function createLogIndex(format: LineFormat): LogIndex {
  let first = 0
  let epoch: number | undefined
  let revision = 0
  let columns: number | null = null
  let cells: number[] = []
  /** The row after each line, counted from a row that may have been given up. */
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

  /** Colours last over the end of a line, but what stands before a part that was paged in later leaves none. */
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
