import { blank, createLine, colorMask } from './cells.js'
import type { Line } from './cells.js'
import { createClusters } from './clusters.js'
import type { Clusters } from './clusters.js'
import { createHistory } from './history.js'
import type { History } from './history.js'
import { defaultModes } from './modes.js'
import type { Modes } from './modes.js'
import type { Pen } from './sgr.js'

/** What DECSC keeps. */
export interface SavedCursor {
  x: number
  y: number
  isWrapPending: boolean
  pen: Pen
  isOrigin: boolean
  charsets: [isGraphic0: boolean, isGraphic1: boolean]
  shift: 0 | 1
}

/** The state that control functions act on. Columns and rows count from 0. */
export interface Screen {
  columns: number
  rows: number
  /** The rows that are seen. */
  lines: Line[]
  /** While the alternate screen is seen: the main one's. */
  hiddenLines: Line[] | null
  /** What has left the main screen. */
  history: History
  clusters: Clusters
  x: number
  y: number
  /** A character stands in the last column, and the next one goes to the next line. */
  isWrapPending: boolean
  /** The scrolling region, both ends in it. */
  top: number
  bottom: number
  pen: Pen
  modes: Modes
  /** 1 at each tab stop. */
  tabs: Uint8Array
  /** Whether G0 and G1 are the line-drawing set, and which of them is in use. */
  charsets: [isGraphic0: boolean, isGraphic1: boolean]
  shift: 0 | 1
  /** Of the main and of the alternate screen. */
  saved: [SavedCursor | null, SavedCursor | null]
  /** The last character printed, for REP. */
  lastCode: number
}

const tabDistance = 8

/** An empty screen. */
export function createScreen(needs: { columns: number; rows: number; historyLines: number }): Screen {
  const { columns, rows, historyLines } = needs
  return {
    columns,
    rows,
    lines: Array.from({ length: rows }, () => createLine(columns)),
    hiddenLines: null,
    history: createHistory(historyLines),
    clusters: createClusters(),
    x: 0,
    y: 0,
    isWrapPending: false,
    top: 0,
    bottom: rows - 1,
    pen: { foreground: 0, background: 0 },
    modes: defaultModes(),
    tabs: tabStops(columns),
    charsets: [false, false],
    shift: 0,
    saved: [null, null],
    lastCode: 0
  }
}

/** A stop in every eighth column. */
export function tabStops(columns: number): Uint8Array {
  return Uint8Array.from({ length: columns }, (_, column) => (column % tabDistance === 0 ? 1 : 0))
}

/** What an erased cell has as its background: the pen's colour, nothing else of it. */
export const eraseBackground = (screen: Screen): number => screen.pen.background & colorMask

/** The row's line. */
export const lineAt = (screen: Screen, row: number): Line => screen.lines[row] as Line

/** Puts the cursor on the screen at a place, or the nearest there is. */
export function moveTo(screen: Screen, x: number, y: number): void {
  screen.x = Math.max(0, Math.min(screen.columns - 1, x))
  screen.y = Math.max(0, Math.min(screen.rows - 1, y))
  screen.isWrapPending = false
}

/** CUP and the like: with DECOM rows count from the region's first, and stay in it. */
export function moveToAddress(screen: Screen, x: number, y: number): void {
  const { modes, top, bottom } = screen
  moveTo(screen, x, modes.origin ? Math.max(top, Math.min(bottom, top + y)) : y)
}

/** Up or down, not out of the region when the cursor is in it. */
export function moveVertically(screen: Screen, rows: number): void {
  const { y, top, bottom } = screen
  const first = y >= top ? top : 0
  const last = y <= bottom ? bottom : screen.rows - 1
  moveTo(screen, screen.x, Math.max(first, Math.min(last, y + rows)))
}

/** Moves the region up. What leaves the main screen at its very top is kept in the history. */
export function scrollUp(screen: Screen, count: number): void {
  const { top, bottom } = screen
  const isKept = top === 0 && screen.hiddenLines === null
  for (let left = Math.min(count, bottom - top + 1); left > 0; left--) scrollLine(screen, top, isKept)
}

/** Removes the line at `from`, and lets an empty one in at the region's bottom. */
export function scrollLine(screen: Screen, from: number, isKept: boolean): void {
  const { lines, bottom } = screen
  const gone = lines[from] as Line
  for (let row = from; row < bottom; row++) lines[row] = lines[row + 1] as Line
  // A line that must be kept is replaced by the one that the history gives up for it.
  lines[bottom] = emptied(screen, isKept ? screen.history.push(gone) : gone)
}

/** Moves the lines from `from` to the region's bottom down, and lets empty ones in. */
export function scrollDown(screen: Screen, from: number, count: number): void {
  const { lines, bottom } = screen
  for (let left = Math.min(count, bottom - from + 1); left > 0; left--) {
    const gone = lines[bottom] as Line
    for (let row = bottom; row > from; row--) lines[row] = lines[row - 1] as Line
    lines[from] = emptied(screen, gone)
  }
}

function emptied(screen: Screen, line: Line | undefined): Line {
  if (line === undefined || line.cells.length !== (screen.lines[0] as Line).cells.length) {
    line = createLine(screen.columns)
    if (eraseBackground(screen) === 0) return line
  }
  line.isWrapped = false
  blank(line, 0, screen.columns, eraseBackground(screen))
  return line
}

/** Down one row, scrolling at the region's bottom. */
export function index(screen: Screen): void {
  screen.isWrapPending = false
  if (screen.y === screen.bottom) scrollUp(screen, 1)
  else if (screen.y < screen.rows - 1) screen.y++
}

/** Up one row, scrolling at the region's top. */
export function reverseIndex(screen: Screen): void {
  screen.isWrapPending = false
  if (screen.y === screen.top) scrollDown(screen, screen.top, 1)
  else if (screen.y > 0) screen.y--
}

/** To the next stops (or with a negative count those before), or the last column. */
export function tab(screen: Screen, count: number): void {
  const step = count < 0 ? -1 : 1
  let { x } = screen
  for (let left = Math.abs(count); left > 0; left--) {
    do x += step
    while (x > 0 && x < screen.columns - 1 && screen.tabs[x] !== 1)
  }
  moveTo(screen, x, screen.y)
}

/** DECSC. */
export function saveCursor(screen: Screen): void {
  const { x, y, isWrapPending, pen, modes, charsets, shift } = screen
  screen.saved[screen.hiddenLines === null ? 0 : 1] = {
    x, y, isWrapPending, pen: { ...pen }, isOrigin: modes.origin, charsets: [...charsets], shift
  }
}

/** DECRC; where nothing was saved, home and the defaults. */
export function restoreCursor(screen: Screen): void {
  const saved = screen.saved[screen.hiddenLines === null ? 0 : 1]
  screen.modes.origin = saved?.isOrigin ?? false
  screen.pen = { foreground: saved?.pen.foreground ?? 0, background: saved?.pen.background ?? 0 }
  screen.charsets = saved === null ? [false, false] : [...saved.charsets]
  screen.shift = saved?.shift ?? 0
  moveTo(screen, saved?.x ?? 0, saved?.y ?? 0)
  screen.isWrapPending = (saved?.isWrapPending ?? false) && screen.x === screen.columns - 1
}

/** Shows an empty alternate screen instead of the main one. */
export function showAlternate(screen: Screen): void {
  if (screen.hiddenLines !== null) return
  screen.hiddenLines = screen.lines
  screen.lines = Array.from({ length: screen.rows }, () => createLine(screen.columns))
  for (const line of screen.lines) blank(line, 0, screen.columns, eraseBackground(screen))
}

/** Shows the main screen again. */
export function showMain(screen: Screen): void {
  if (screen.hiddenLines === null) return
  screen.lines = screen.hiddenLines
  screen.hiddenLines = null
}
