import { blank, cellWords, splitWide, type Line } from './cells.js'
import { eraseBackground, lineAt, scrollDown, scrollLine, type Screen } from './screen.js'

/*
 * Erasing, inserting and deleting (VT220 and ECMA-48). Erased cells take the pen's background colour.
 *
 * Difference from xterm: while a wrap is pending, the cursor is treated as after the last column, as in tmux. So "erase
 * to the end of the line" keeps the character there. The program top writes full lines and then erases to the end.
 */

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
