import { cellWords, createLine, spacer, splitWide, usedColumns, wideBit, type Line } from './cells.js'
import { tabStops, type Screen } from './screen.js'

/*
 * Resizing. On the main screen and in its history, wrapped lines are joined and wrapped again at the new width, and the
 * cursor stays on its character. The alternate screen is only cut or widened, because its program will redraw it.
 */

/** A position in a list of lines. */
interface Place {
  row: number
  column: number
}

/** Resizes the screen. It must have at least one column and one row. */
export function resize(screen: Screen, columns: number, rows: number): void {
  if (columns === screen.columns && rows === screen.rows) return
  const isAlternate = screen.hiddenLines !== null
  const cursor = { row: screen.y, column: screen.x + (screen.isWrapPending ? 1 : 0) }
  const saved = screen.saved[0]
  const mainCursor = isAlternate ? { row: saved?.y ?? 0, column: saved?.x ?? 0 } : cursor
  const main = resizeMain(screen, { columns, rows, cursor: mainCursor })
  if (isAlternate) {
    screen.lines = cutToSize(screen.lines, columns, rows)
    screen.hiddenLines = main.lines
    if (saved !== null) Object.assign(saved, { y: main.cursor.row, x: Math.min(columns - 1, main.cursor.column) })
    screen.y = Math.min(rows - 1, screen.y)
    screen.x = Math.min(columns - 1, screen.x)
    screen.isWrapPending = false
  } else {
    screen.lines = main.lines
    screen.y = main.cursor.row
    screen.x = Math.min(columns - 1, main.cursor.column)
    screen.isWrapPending = main.cursor.column === columns
  }
  const tabs = tabStops(columns)
  tabs.set(screen.tabs.subarray(0, columns))
  Object.assign(screen, { columns, rows, tabs, top: 0, bottom: rows - 1 })
}

function cutToSize(lines: Line[], columns: number, rows: number): Line[] {
  return Array.from({ length: rows }, (_, row) => {
    const line = createLine(columns)
    const before = lines[row]
    if (before === undefined) return line
    splitWide(before, columns)
    line.cells.set(before.cells.subarray(0, columns * cellWords))
    line.version = before.version + 1
    return line
  })
}

interface Wanted {
  columns: number
  rows: number
  cursor: Place
}

/** Resizes the main screen. Returns its rows and the cursor in them. Rows that do not fit move to the history. */
function resizeMain(screen: Screen, { columns, rows, cursor }: Wanted): { lines: Line[]; cursor: Place } {
  const { history } = screen
  const shown = screen.hiddenLines ?? screen.lines
  const before = [...history.lines(), ...shown]
  const top = before.length - shown.length
  let end = before.length
  while (end > top + cursor.row + 1 && usedColumns(before[end - 1] as Line) === 0) end--
  const wasFull = end === before.length

  const marks: Place[] = [
    { row: top + cursor.row, column: cursor.column },
    { row: top, column: 0 }
  ]
  const isSameWidth = columns === screen.columns
  const kept = before.slice(0, end)
  const after = isSameWidth ? kept : rewrap(kept, columns, marks)
  const [place, oldTop] = marks as [Place, Place]

  // A screen with room at its bottom keeps its first line in place. A full screen keeps its last line in place.
  let first = Math.max(0, after.length - rows)
  if (!wasFull) first = Math.max(first, Math.min(oldTop.row, place.row))
  first = Math.min(first, place.row)
  history.clear()
  for (const line of after.slice(0, first)) history.push(line)
  const lines = after.slice(first, first + rows)
  while (lines.length < rows) lines.push(createLine(columns))
  for (const line of lines) line.version++
  return { lines, cursor: { row: Math.min(rows - 1, place.row - first), column: place.column } }
}

/** Returns the same text in lines of another width. Moves `marks` to the new positions of their characters. */
function rewrap(lines: Line[], columns: number, marks: Place[]): Line[] {
  const after: Line[] = []
  const moved = new Set<Place>()
  for (let row = 0; row < lines.length; ) {
    // Fast path: most lines are short and contain no mark.
    const line = lines[row] as Line
    const used = usedColumns(line)
    if (!line.isWrapped && used <= columns && !marks.some(mark => mark.row === row && !moved.has(mark))) {
      after.push(ofWidth(line, columns, used))
      row++
      continue
    }
    let last = row
    while (last < lines.length - 1 && (lines[last] as Line).isWrapped) last++
    const text = joined(lines, row, last)
    const inside = marks.filter(mark => !moved.has(mark) && mark.row >= row && mark.row <= last)
    const offsets = inside.map(mark => (text.starts[mark.row - row] as number) + mark.column)
    const first = after.length
    const starts = cutInto(after, text.cells, columns)
    for (const [index, mark] of inside.entries()) {
      moved.add(mark)
      Object.assign(mark, placeOf(offsets[index] as number, { starts, columns, firstRow: first }))
    }
    while (after.length < Math.max(...inside.map(mark => mark.row + 1), 0))
      after.push(createLine(columns))
      // A line that ended without a wrap still does.
    ;(after[after.length - 1] as Line).isWrapped = (lines[last] as Line).isWrapped
    row = last + 1
  }
  return after
}

function ofWidth({ cells }: Line, columns: number, used: number): Line {
  const line = createLine(columns)
  line.cells.set(cells.subarray(0, used * cellWords))
  return line
}

/** Joins wrapped lines. Returns their cells, and the column at which each line begins. */
function joined(lines: Line[], from: number, to: number): { cells: Int32Array; starts: number[] } {
  const starts: number[] = []
  const parts: Int32Array[] = []
  let columns = 0
  for (let row = from; row <= to; row++) {
    const line = lines[row] as Line
    let used = line.cells.length / cellWords
    if (row === to) used = usedColumns(line)
    // A wide character that did not fit left the last cell empty. That cell is not part of the text.
    else if (line.cells[(used - 1) * cellWords] === 0 && ((lines[row + 1] as Line).cells[0] as number) & wideBit) used--
    starts.push(columns)
    parts.push(line.cells.subarray(0, used * cellWords))
    columns += used
  }
  const cells = new Int32Array(columns * cellWords)
  let at = 0
  for (const part of parts) {
    cells.set(part, at)
    at += part.length
  }
  return { cells, starts }
}

/** Appends the cells as lines of `columns` columns. Returns the cell at which each line begins. */
function cutInto(lines: Line[], cells: Int32Array, columns: number): number[] {
  const count = cells.length / cellWords
  const starts: number[] = []
  let at = 0
  do {
    let end = Math.min(count, at + columns)
    if (end < count && end > at + 1 && cells[end * cellWords] === spacer) end--
    const line = createLine(columns)
    line.cells.set(cells.subarray(at * cellWords, end * cellWords))
    line.isWrapped = end < count
    lines.push(line)
    starts.push(at)
    at = end
  } while (at < count)
  return starts
}

/** Returns the new position of a column of a joined line. Columns after the text are treated as blanks. */
function placeOf(
  offset: number,
  { starts, columns, firstRow }: { starts: number[]; columns: number; firstRow: number }
): Place {
  let index = starts.length - 1
  while (index > 0 && (starts[index] as number) > offset) index--
  const column = offset - (starts[index] as number)
  if (index < starts.length - 1 || column <= columns) return { row: firstRow + index, column }
  return { row: firstRow + index + Math.floor(column / columns), column: column % columns }
}
