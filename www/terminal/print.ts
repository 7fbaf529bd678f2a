import { cellWords, clusterBit, codeMask, spacer, splitWide, wideBit, type Line } from './cells.js'
import { insertCharacters } from './edit.js'
import { index, lineAt, type Screen } from './screen.js'
import { firstUnusual, widthOf } from './width.js'

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
