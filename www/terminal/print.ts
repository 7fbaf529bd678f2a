import { cellWords, clusterBit, codeMask, spacer, splitWide, wideBit } from './cells.js'
import type { Line } from './cells.js'
import { insertCharacters } from './edit.js'
import { index, lineAt } from './screen.js'
import type { Screen } from './screen.js'
import { firstUnusual, widthOf } from './width.js'

/** The line-drawing set from 0x5f to 0x7e (VT100; the characters that Unicode has for them). */
const graphics = ' ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·'

/** Writes text[from..to) at the cursor: printable characters, no surrogate pair cut. */
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
 * The characters of one cell each that fit into the row, or, from the one that does not, into the next. What logs, and
 * nearly everything else, consist of (bench/emulator.ts). Gives where it stopped.
 */
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
      // Without wrapping only the last of what is left is seen, in the last column.
      while (at < to - 1 && text.charCodeAt(at + 1) < firstUnusual) at++
    }
  }
  return at
}

/** The next character, whatever it is; gives where it ends. */
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
    // A wide character that does not fit goes to the next line, and leaves the last cell as it is.
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

/** A combining character joins what stands before the cursor. */
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

/** The text of a cell's first word; empty for one that nothing was written to, and for the right half of another. */
export function textOfCell({ clusters }: Pick<Screen, 'clusters'>, word: number): string {
  if (word === 0 || word === spacer) return ''
  const code = word & codeMask
  return (word & clusterBit) !== 0 ? clusters.textOf(code) : String.fromCodePoint(code)
}
