import { blank, type Clusters, colorMask, createClusters, createLine, type Line, type Pen } from './cells.js'

/** The lines that were scrolled off the top of the screen, oldest first. */
export type History = ReturnType<typeof createHistory>

/** Creates a ring buffer of at most `capacity` lines. */
export function createHistory(capacity: number) {
  let ring: Line[] = []
  let start = 0
  let dropped = 0
  return {
    get length() {
      return ring.length
    },

    /** Number of lines dropped since the beginning, which is also the number of the oldest kept line. */
    get dropped() {
      return dropped
    },

    /** Adds the newest line. Returns the line that was dropped for it, if any, so its memory can be reused. */
    push(line: Line): Line | undefined {
      if (capacity === 0) {
        dropped++
        return line
      }
      if (ring.length < capacity) {
        ring.push(line)
        return undefined
      }
      const oldest = ring[start] as Line
      ring[start] = line
      start = start + 1 === capacity ? 0 : start + 1
      dropped++
      return oldest
    },

    /** Returns a line by its index from the oldest. */
    at: (index: number): Line => ring[(start + index) % ring.length] as Line,
    clear(): void {
      dropped += ring.length
      ring = []
      start = 0
    },

    /** Returns all lines, oldest first. */
    lines: (): Line[] => [...ring.slice(start), ...ring.slice(0, start)]
  }
}

/** The modes of a terminal. The renderer and the keyboard, mouse and paste encoders read them. */
export interface Modes {
  applicationCursor: boolean
  applicationKeypad: boolean
  reverseScreen: boolean
  origin: boolean
  autowrap: boolean
  insert: boolean
  newline: boolean
  cursorVisible: boolean
  cursorBlinks: boolean
  /** Reported mouse events: 0 none, 9 presses, 1000 also releases, 1002 also drags, 1003 also moves. */
  mouse: 0 | 9 | 1000 | 1002 | 1003
  mouseSgr: boolean
  focusReports: boolean
  /** Whether the wheel sends arrow keys on the alternate screen. */
  alternateScroll: boolean
  bracketedPaste: boolean
  /** Whether the program is in the middle of an update, so drawing now would show half a picture. */
  synchronized: boolean
}

/** Returns the modes of a terminal after a reset. */
export function defaultModes(): Modes {
  return {
    applicationCursor: false,
    applicationKeypad: false,
    reverseScreen: false,
    origin: false,
    autowrap: true,
    insert: false,
    newline: false,
    cursorVisible: true,
    cursorBlinks: false,
    mouse: 0,
    mouseSgr: false,
    focusReports: false,
    alternateScroll: true,
    bracketedPaste: false,
    synchronized: false
  }
}

/** Name of a mode that is on or off. */
type Switch = { [K in keyof Modes]: Modes[K] extends boolean ? K : never }[keyof Modes]

/**
 * DEC private modes by number. functions.ts handles the rest: the mouse modes (9 and 1000 to 1003), which share a
 * field, and the modes that switch screens or save the cursor.
 */
export const privateSwitches: Readonly<Record<number, Switch>> = {
  1: 'applicationCursor',
  5: 'reverseScreen',
  6: 'origin',
  7: 'autowrap',
  12: 'cursorBlinks',
  25: 'cursorVisible',
  66: 'applicationKeypad',
  1004: 'focusReports',
  1006: 'mouseSgr',
  1007: 'alternateScroll',
  2004: 'bracketedPaste',
  2026: 'synchronized'
}

/** ANSI modes by number. */
export const ansiSwitches: Readonly<Record<number, Switch>> = { 4: 'insert', 20: 'newline' }

/** Returns whether a DEC private mode is one of the mouse modes. */
export const isMouseMode = (mode: number): mode is 9 | 1000 | 1002 | 1003 =>
  mode === 9 || mode === 1000 || mode === 1002 || mode === 1003

/** The state that DECSC saves. */
export interface SavedCursor {
  x: number
  y: number
  isWrapPending: boolean
  pen: Pen
  isOrigin: boolean
  charsets: [isGraphic0: boolean, isGraphic1: boolean]
  shift: 0 | 1
}

/** The state that control functions change. Columns and rows are counted from 0. */
export interface Screen {
  columns: number
  rows: number
  /** The visible rows. */
  lines: Line[]
  /** The rows of the main screen while the alternate screen is shown, otherwise null. */
  hiddenLines: Line[] | null
  /** Lines that were scrolled off the main screen. */
  history: History
  clusters: Clusters
  x: number
  y: number
  /** Whether the last column has been written, so the next character goes to the next line. */
  isWrapPending: boolean
  /** First and last row of the scrolling region, both inclusive. */
  top: number
  bottom: number
  pen: Pen
  modes: Modes
  /** 1 for each column with a tab stop. */
  tabs: Uint8Array
  /** Whether G0 and G1 are the line-drawing set. `shift` is the one in use. */
  charsets: [isGraphic0: boolean, isGraphic1: boolean]
  shift: 0 | 1
  /** Saved cursors of the main and of the alternate screen. */
  saved: [SavedCursor | null, SavedCursor | null]
  /** Code point of the last printed character, for REP. */
  lastCode: number
}

const tabDistance = 8

/** Creates an empty screen. */
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

/** Returns tab stops in every eighth column. */
export function tabStops(columns: number): Uint8Array {
  return Uint8Array.from({ length: columns }, (_, column) => (column % tabDistance === 0 ? 1 : 0))
}

/** Returns the background word of an erased cell: the pen's background colour without its attributes. */
export const eraseBackground = (screen: Screen): number => screen.pen.background & colorMask

export const lineAt = (screen: Screen, row: number): Line => screen.lines[row] as Line

/** Moves the cursor to a position, or to the nearest one on the screen. */
export function moveTo(screen: Screen, x: number, y: number): void {
  screen.x = Math.max(0, Math.min(screen.columns - 1, x))
  screen.y = Math.max(0, Math.min(screen.rows - 1, y))
  screen.isWrapPending = false
}

/** Moves the cursor for CUP and similar functions. In DECOM, rows are relative to the region and stay in it. */
export function moveToAddress(screen: Screen, x: number, y: number): void {
  const { modes, top, bottom } = screen
  moveTo(screen, x, modes.origin ? Math.max(top, Math.min(bottom, top + y)) : y)
}

/** Moves the cursor up or down. A cursor inside the region stays in it. */
export function moveVertically(screen: Screen, rows: number): void {
  const { y, top, bottom } = screen
  const first = y >= top ? top : 0
  const last = y <= bottom ? bottom : screen.rows - 1
  moveTo(screen, screen.x, Math.max(first, Math.min(last, y + rows)))
}

/** Scrolls the region up. Lines that leave the main screen at its top row are kept in the history. */
export function scrollUp(screen: Screen, count: number): void {
  const { top, bottom } = screen
  const isKept = top === 0 && screen.hiddenLines === null
  for (let left = Math.min(count, bottom - top + 1); left > 0; left--) scrollLine(screen, top, isKept)
}

/** Removes the line at `from` and adds an empty one at the region's bottom. */
export function scrollLine(screen: Screen, from: number, isKept: boolean): void {
  const { lines, bottom } = screen
  const gone = lines[from] as Line
  for (let row = from; row < bottom; row++) lines[row] = lines[row + 1] as Line
  // If the line goes to the history, the line that the history drops for it is reused.
  lines[bottom] = emptied(screen, isKept ? screen.history.push(gone) : gone)
}

/** Moves the lines from `from` to the region's bottom down and adds empty ones at `from`. */
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

/** IND: moves the cursor down one row. At the region's bottom, scrolls instead. */
export function index(screen: Screen): void {
  screen.isWrapPending = false
  if (screen.y === screen.bottom) scrollUp(screen, 1)
  else if (screen.y < screen.rows - 1) screen.y++
}

/** RI: moves the cursor up one row. At the region's top, scrolls instead. */
export function reverseIndex(screen: Screen): void {
  screen.isWrapPending = false
  if (screen.y === screen.top) scrollDown(screen, screen.top, 1)
  else if (screen.y > 0) screen.y--
}

/** Moves the cursor by a number of tab stops, backwards if negative. It stops at the first and last column. */
export function tab(screen: Screen, count: number): void {
  const step = count < 0 ? -1 : 1
  let { x } = screen
  for (let left = Math.abs(count); left > 0; left--) {
    do x += step
    while (x > 0 && x < screen.columns - 1 && screen.tabs[x] !== 1)
  }
  moveTo(screen, x, screen.y)
}

/** DECSC: saves the cursor of the current screen. */
export function saveCursor(screen: Screen): void {
  const { x, y, isWrapPending, pen, modes, charsets, shift } = screen
  screen.saved[screen.hiddenLines === null ? 0 : 1] = {
    x,
    y,
    isWrapPending,
    pen: { ...pen },
    isOrigin: modes.origin,
    charsets: [...charsets],
    shift
  }
}

/** DECRC: restores the saved cursor. If none was saved, moves it home and restores the defaults. */
export function restoreCursor(screen: Screen): void {
  const saved = screen.saved[screen.hiddenLines === null ? 0 : 1]
  screen.modes.origin = saved?.isOrigin ?? false
  screen.pen = { foreground: saved?.pen.foreground ?? 0, background: saved?.pen.background ?? 0 }
  screen.charsets = saved === null ? [false, false] : [...saved.charsets]
  screen.shift = saved?.shift ?? 0
  moveTo(screen, saved?.x ?? 0, saved?.y ?? 0)
  screen.isWrapPending = (saved?.isWrapPending ?? false) && screen.x === screen.columns - 1
}

/** Shows an empty alternate screen instead of the main screen. */
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
