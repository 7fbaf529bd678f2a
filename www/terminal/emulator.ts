/*
 * A terminal emulator without a display. Its input is text; its output is a screen of cells and the replies to the
 * program. It knows no DOM, no clock and no socket.
 *
 * Intended differences from xterm: Hyperlinks (OSC 8) are ignored. The clipboard (OSC 52) is refused, because the
 * program is not trusted. Programs cannot change the colours of the theme or query the title. National character sets
 * are treated as ASCII. SGR is the only extended mouse encoding. A full reset (RIS) keeps the history.
 */
import type { Line } from './cells.js'
import {
  colorAnswer,
  type ColorOf,
  controlCharacter,
  csiAnswers,
  csiFunctions,
  dcsAnswer,
  escapeFunctions,
  fullReset
} from './functions.js'
import { createScreen, lineAt, type Modes } from './screen.js'
import { createParser, functionId } from './parser.js'
import { print, resize, textOfCell } from './edit.js'

/** A queue of text that has been received and not written yet. */
export type Feed = ReturnType<typeof createFeed>

export interface FeedNeeds {
  write: (text: string) => void
  /** Clock in milliseconds, with any origin. */
  now: () => number
  /** Time of one run in milliseconds. The default leaves half of a frame for drawing. */
  budgetMs?: number
}

const defaultBudgetMs = 8
/** Characters written between two readings of the clock. Writing them takes a fraction of a millisecond. */
const sliceLength = 8 * 1024

/** Creates a queue that is written in slices. A flood of text leaves the page time to draw and to handle keys. */
export function createFeed({ write, now, budgetMs = defaultBudgetMs }: FeedNeeds) {
  let queue: Array<{ text: string; onWritten: (() => void) | undefined }> = []
  let first = 0
  let offset = 0

  /** Writes the next slice. */
  const step = (): void => {
    const { text, onWritten } = queue[first] as (typeof queue)[number]
    const end = Math.min(text.length, offset + sliceLength)
    write(offset === 0 && end === text.length ? text : text.slice(offset, end))
    offset = end
    if (end < text.length) return
    offset = 0
    if (++first === queue.length) {
      queue = []
      first = 0
    }
    onWritten?.()
  }

  return {
    get isEmpty() {
      return first === queue.length
    },

    /** Adds a text. Calls `onWritten` after all of it has been written. */
    push(text: string, onWritten?: () => void): void {
      queue.push({ text, onWritten })
    },

    /** Writes for about `budgetMs`, but at least one slice, and leaves the rest in the queue. */
    run(): void {
      const endMs = now() + budgetMs
      do {
        if (first === queue.length) return
        step()
      } while (now() < endMs)
    },

    /** Drops the rest without calling `onWritten`. */
    clear(): void {
      queue = []
      first = offset = 0
    }
  }
}

export type CursorShape = 'block' | 'underline' | 'bar'

/** The position and look of the cursor. */
export interface Cursor {
  /** Column and row of the screen, counted from 0. */
  x: number
  y: number
  isVisible: boolean
  shape: CursorShape
  blinks: boolean
}

/** The size, callbacks and limits of an emulator. All but the size are optional. */
export interface EmulatorNeeds {
  columns: number
  rows: number
  /** Maximum number of lines kept in the history. */
  historyLines?: number
  /** Receives text to send to the program: a reply to its request. */
  onReply?: (text: string) => void
  onTitle?: (title: string) => void
  onBell?: () => void
  /** Returns the colours of the theme, for programs that adapt to it. */
  colorOf?: ColorOf
}

export interface Emulator {
  readonly columns: number
  readonly rows: number
  readonly modes: Readonly<Modes>
  readonly cursor: Cursor
  readonly isAlternate: boolean
  /** Number of lines in the history. It is 0 while the alternate screen is shown. */
  readonly historyLength: number
  /** Number of the line with index 0, counted since the beginning. */
  readonly firstLine: number
  /** Processes output of the program. It may be cut anywhere. */
  write(text: string): void
  /** Changes the size. Values below 1 become 1. */
  resize(columns: number, rows: number): void
  /** Restores the initial state and empties the history. */
  reset(): void
  /** Returns a line by index: first the history, then the screen. The index is below historyLength + rows. */
  line(index: number): Line
  /** Returns the text of a character word of `Line.cells`. */
  textOf(word: number): string
}

const defaultHistoryLines = 10_000
const maxTitleLength = 512
const maxTitles = 10

const setCursorStyle = functionId(' q')
const windowFunction = functionId('t')
const resetFunction = functionId('c')

/** Creates an emulator with an empty screen. */
export function createEmulator(needs: EmulatorNeeds): Emulator {
  const { columns, rows, historyLines = defaultHistoryLines } = needs
  const { onReply = () => {}, onTitle = () => {}, onBell = () => {}, colorOf = () => null } = needs
  let screen = createScreen({ columns, rows, historyLines })
  /** Style of DECSCUSR: 1 and 2 block, 3 and 4 underline, 5 and 6 bar; odd styles blink; 0 is the default. */
  let cursorStyle = 0
  let title = ''
  let titles: string[] = []

  const reply = (text: string | null): void => {
    if (text !== null && text !== '') onReply(text)
  }
  const setTitle = (text: string): void => {
    const cut = text.slice(0, maxTitleLength)
    if (cut === title) return
    title = cut
    onTitle(title)
  }
  /** Handles XTWINOPS 22 and 23, which save and restore the title. functions.ts answers 18. Others are ignored. */
  const windowOperation = (what: number | undefined): void => {
    if (what === 22 && titles.length < maxTitles) titles.push(title)
    if (what === 23) setTitle(titles.pop() ?? title)
  }
  const forget = (): void => {
    cursorStyle = 0
    titles = []
    setTitle('')
  }

  const parser = createParser({
    print: (text, from, to) => print(screen, text, from, to),
    control(code) {
      if (code === 0x07) onBell()
      else controlCharacter(screen, code)
    },
    escape(id) {
      if (id !== resetFunction) {
        escapeFunctions.get(id)?.(screen)
        return
      }
      fullReset(screen)
      forget()
    },
    csi(id, parameters) {
      const work = csiFunctions.get(id)
      if (work !== undefined) return work(screen, parameters)
      if (id === setCursorStyle && (parameters.values[0] as number) <= 6) {
        cursorStyle = parameters.values[0] as number
        screen.modes.cursorBlinks = cursorStyle % 2 === 1
        return
      }
      if (id === windowFunction) windowOperation(parameters.values[0])
      reply(csiAnswers.get(id)?.(screen, parameters) ?? null)
    },
    osc(text) {
      const end = text.indexOf(';')
      const command = end === -1 ? Number.NaN : Number(text.slice(0, end))
      const rest = text.slice(end + 1)
      if (command === 0 || command === 2) setTitle(rest)
      else if (command === 4 || (command >= 10 && command <= 12)) reply(colorAnswer(command, rest, colorOf))
    },
    dcs: (id, _, text) => reply(dcsAnswer({ screen, cursorStyle }, id, text))
  })

  return {
    get columns() {
      return screen.columns
    },
    get rows() {
      return screen.rows
    },
    get modes() {
      return screen.modes
    },
    get cursor() {
      const shape: CursorShape = cursorStyle >= 5 ? 'bar' : cursorStyle >= 3 ? 'underline' : 'block'
      const { x, y, modes } = screen
      return { x, y, isVisible: modes.cursorVisible, shape, blinks: modes.cursorBlinks }
    },
    get isAlternate() {
      return screen.hiddenLines !== null
    },
    get historyLength() {
      return screen.hiddenLines === null ? screen.history.length : 0
    },
    get firstLine() {
      return screen.history.dropped + (screen.hiddenLines === null ? 0 : screen.history.length)
    },
    write: text => parser.push(text),
    resize: (columns, rows) => resize(screen, Math.max(1, columns), Math.max(1, rows)),
    reset() {
      parser.reset()
      screen = createScreen({ columns: screen.columns, rows: screen.rows, historyLines })
      forget()
    },
    line(index) {
      const above = screen.hiddenLines === null ? screen.history.length : 0
      return index < above ? screen.history.at(index) : lineAt(screen, index - above)
    },
    textOf: word => textOfCell(screen, word)
  }
}
