/*
 * Erasing, inserting and deleting (VT220 and ECMA-48). Erased cells take the pen's background colour.
 *
 * Difference from xterm: while a wrap is pending, the cursor is treated as after the last column, as in tmux. So "erase
 * to the end of the line" keeps the character there. The program top writes full lines and then erases to the end.
 */
import {
  blank,
  cellWords,
  clusterBit,
  codeMask,
  createLine,
  firstUnusual,
  type Line,
  spacer,
  splitWide,
  usedColumns,
  wideBit,
  widthOf
} from './cells.js'
import { eraseBackground, index, lineAt, type Screen, scrollDown, scrollLine, tabStops } from './screen.js'

/** Returns the first column that is erased, inserted or deleted. */
const startColumn = ({ x, isWrapPending }: Screen): number => (isWrapPending ? x + 1 : x)

/**
 * Clears columns of a row, and both halves of a wide character that it cuts. If the end of the line is cleared, the
 * line is no longer wrapped.
 */
// biome-ignore lint/complexity/useMaxParams: called for each row; an object would cost
function eraseColumns(screen: Screen, row: number, from: number, to: number): void {
  if (from >= to) return
  const line = lineAt(screen, row)
  splitWide(line, from)
  splitWide(line, to)
  blank(line, from, to, eraseBackground(screen))
  if (to === screen.columns) line.isWrapped = false
}

/** EL: clears a line: 0 from the cursor on, 1 up to the cursor, 2 all of it. */
export function eraseInLine(screen: Screen, what: number): void {
  const { x, y, columns } = screen
  if (what > 2) return
  eraseColumns(screen, y, what === 0 ? startColumn(screen) : 0, what === 1 ? x + 1 : columns)
}

/** ED: clears the screen: 0 from the cursor on, 1 up to the cursor, 2 all of it. 3 clears the history. */
export function eraseInDisplay(screen: Screen, what: number): void {
  const { y, rows, columns, history } = screen
  if (what === 3) return history.clear()
  if (what > 2) return
  if (what !== 2) eraseInLine(screen, what)
  const first = what === 0 ? y + 1 : 0
  const last = what === 1 ? y : rows
  for (let row = first; row < last; row++) eraseColumns(screen, row, 0, columns)
}

/** ECH: clears cells from the cursor on. */
export function eraseCharacters(screen: Screen, count: number): void {
  const { y, columns } = screen
  const from = startColumn(screen)
  eraseColumns(screen, y, from, Math.min(columns, from + count))
}

/** ICH: inserts empty cells at the cursor and moves the rest of the line to the right. */
export function insertCharacters(screen: Screen, count: number): void {
  const { y, columns } = screen
  const x = startColumn(screen)
  const line = lineAt(screen, y)
  const moved = Math.min(count, columns - x)
  splitWide(line, x)
  splitWide(line, columns - moved)
  line.cells.copyWithin((x + moved) * cellWords, x * cellWords, (columns - moved) * cellWords)
  eraseColumns(screen, y, x, x + moved)
}

/** DCH: deletes cells at the cursor and moves the rest of the line to the left. */
export function deleteCharacters(screen: Screen, count: number): void {
  const { y, columns } = screen
  const x = startColumn(screen)
  const line = lineAt(screen, y)
  const moved = Math.min(count, columns - x)
  splitWide(line, x)
  splitWide(line, x + moved)
  line.cells.copyWithin(x * cellWords, (x + moved) * cellWords)
  eraseColumns(screen, y, columns - moved, columns)
}

const isInRegion = ({ y, top, bottom }: Screen): boolean => y >= top && y <= bottom

/** IL: inserts empty lines at the cursor and moves the lines below down, within the region. */
export function insertLines(screen: Screen, count: number): void {
  if (!isInRegion(screen)) return
  scrollDown(screen, screen.y, count)
  screen.x = 0
  screen.isWrapPending = false
}

/** DL: deletes lines at the cursor and moves the lines below up, within the region. */
export function deleteLines(screen: Screen, count: number): void {
  if (!isInRegion(screen)) return
  const { y, bottom } = screen
  for (let left = Math.min(count, bottom - y + 1); left > 0; left--) scrollLine(screen, y, false)
  screen.x = 0
  screen.isWrapPending = false
}

/** DECALN: fills the screen with the letter E, which was used to adjust a tube. */
export function fillWithE(screen: Screen): void {
  for (const line of screen.lines as Line[]) {
    for (let at = 0; at < line.cells.length; at += cellWords) {
      line.cells[at] = 0x45
      line.cells[at + 1] = line.cells[at + 2] = 0
    }
    line.isWrapped = false
    line.version++
  }
}

/** The VT100 line-drawing set from 0x5f to 0x7e, as Unicode characters. */
const graphics = ' ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·'

/** Writes text[from..to) at the cursor. It must be printable and must not cut a surrogate pair. */
// biome-ignore lint/complexity/useMaxParams: called for each character; an object would cost
export function print(screen: Screen, text: string, from: number, to: number): void {
  let at = from
  while (at < to) {
    if (screen.charsets[screen.shift] || screen.modes.insert) at = printOne(screen, text, at)
    else {
      at = printRun(screen, text, at, to)
      while (at < to && text.charCodeAt(at) >= firstUnusual) at = printOne(screen, text, at)
    }
  }
}

/**
 * Writes characters that take one cell each, and wraps at the end of the row. Returns the offset where it stopped. This
 * is the fast path: logs and most other output consist of such characters (bench/emulator.ts).
 */
// biome-ignore lint/complexity/useMaxParams: called for each run of characters; an object would cost
function printRun(screen: Screen, text: string, from: number, to: number): number {
  const { columns, pen } = screen
  const { foreground, background } = pen
  const { autowrap } = screen.modes
  let at = from
  while (at < to) {
    if (text.charCodeAt(at) >= firstUnusual) return at
    if (screen.isWrapPending) wrap(screen)
    const line = screen.lines[screen.y] as Line
    const { cells } = line
    const first = screen.x
    splitWide(line, first)
    const end = Math.min(to, at + columns - first)
    let cell = first * cellWords
    for (; at < end; at++) {
      const code = text.charCodeAt(at)
      if (code >= firstUnusual) break
      cells[cell] = code
      cells[cell + 1] = foreground
      cells[cell + 2] = background
      cell += cellWords
    }
    const x = cell / cellWords
    if (cells[cell] === spacer) cells[cell] = 0
    line.version++
    screen.lastCode = text.charCodeAt(at - 1)
    screen.x = x < columns ? x : columns - 1
    if (x < columns) continue
    if (autowrap) screen.isWrapPending = true
    else if (at < to && text.charCodeAt(at) < firstUnusual) {
      // Without wrapping, the last column shows only the last of the remaining characters.
      while (at < to - 1 && text.charCodeAt(at + 1) < firstUnusual) at++
    }
  }
  return at
}

/** Writes the next character of any kind. Returns the offset after it. */
function printOne(screen: Screen, text: string, at: number): number {
  let code = text.codePointAt(at) as number
  const next = at + (code > 0xffff ? 2 : 1)
  if (screen.charsets[screen.shift] && code >= 0x5f && code <= 0x7e) code = graphics.charCodeAt(code - 0x5f)
  printCode(screen, code)
  return next
}

/** Writes one code point at the cursor. */
export function printCode(screen: Screen, code: number): void {
  const width = code < firstUnusual ? 1 : widthOf(code)
  if (width === 0) return join(screen, code)
  const { columns, pen, modes } = screen
  if (screen.isWrapPending) wrap(screen)
  if (screen.x + width > columns) {
    // A wide character that does not fit moves to the next line. The last cell stays unchanged.
    if (!modes.autowrap || columns < width) return
    wrap(screen)
  }
  if (modes.insert) insertCharacters(screen, width)
  const line = lineAt(screen, screen.y)
  const { cells } = line
  const { x } = screen
  splitWide(line, x)
  splitWide(line, x + width)
  const cell = x * cellWords
  cells[cell] = width === 2 ? code | wideBit : code
  cells[cell + 1] = pen.foreground
  cells[cell + 2] = pen.background
  if (width === 2) {
    cells[cell + 3] = spacer
    cells[cell + 4] = pen.foreground
    cells[cell + 5] = pen.background
  }
  line.version++
  screen.lastCode = code
  screen.x = Math.min(columns - 1, x + width)
  if (x + width === columns) screen.isWrapPending = modes.autowrap
}

function wrap(screen: Screen): void {
  lineAt(screen, screen.y).isWrapped = true
  index(screen)
  screen.x = 0
}

/** Adds a combining character to the character before the cursor. */
function join(screen: Screen, code: number): void {
  const { clusters, isWrapPending } = screen
  const line = lineAt(screen, screen.y)
  const { cells } = line
  let at = (isWrapPending ? screen.x : screen.x - 1) * cellWords
  if (at >= 0 && cells[at] === spacer) at -= cellWords
  if (at < 0) return
  const before = cells[at] as number
  if (before === 0) return
  const text = textOfCell(screen, before) + String.fromCodePoint(code)
  const id = clusters.idOf(text)
  if (id === null) return
  cells[at] = id | clusterBit | (before & wideBit)
  line.version++
}

/** Returns the text of a character word. It is empty for an empty cell and for the right half of a wide character. */
export function textOfCell({ clusters }: Pick<Screen, 'clusters'>, word: number): string {
  if (word === 0 || word === spacer) return ''
  const code = word & codeMask
  return (word & clusterBit) !== 0 ? clusters.textOf(code) : String.fromCodePoint(code)
}

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
