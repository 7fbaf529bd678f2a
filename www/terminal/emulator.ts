import type { Line } from './cells.js'
import { controlCharacter, csiFunctions, escapeFunctions, fullReset } from './functions.js'
import type { Modes } from './modes.js'
import { createParser, functionId } from './parser.js'
import { print, textOfCell } from './print.js'
import { resize } from './reflow.js'
import { colorAnswer, csiAnswers, dcsAnswer } from './reports.js'
import type { ColorOf } from './reports.js'
import { createScreen, lineAt } from './screen.js'

/*
 * A terminal without a picture: text in, a screen of cells and answers out. It knows no DOM, no clock, no socket.
 *
 * Differences from xterm, on purpose: a hyperlink (OSC 8) is read past; the clipboard (OSC 52) is refused, as the
 * program may be anybody's; colours of the theme cannot be changed; there is no way to ask for the title; characters of
 * national sets are ASCII; the mouse speaks SGR only. A full reset (RIS) keeps the history.
 */

export type CursorShape = 'block' | 'underline' | 'bar'

export interface Cursor {
  /** Column and row of the screen, from 0. */
  x: number
  y: number
  isVisible: boolean
  shape: CursorShape
  blinks: boolean
}

/** What an emulator calls; each may be left out. */
export interface EmulatorNeeds {
  columns: number
  rows: number
  /** How many lines that have left the screen are kept. */
  historyLines?: number
  /** Something to send to the program: an answer to what it asked. */
  onReply?: (text: string) => void
  onTitle?: (title: string) => void
  onBell?: () => void
  /** For programs that adapt to the theme. */
  colorOf?: ColorOf
}

export interface Emulator {
  readonly columns: number
  readonly rows: number
  readonly modes: Readonly<Modes>
  readonly cursor: Cursor
  readonly isAlternate: boolean
  /** Lines that have left the screen: how many are kept, and the number of the first of them since the beginning. */
  readonly historyLength: number
  readonly firstLine: number
  /** Takes what the program wrote, cut anywhere. */
  write(text: string): void
  /** Another size, at least 1 by 1. */
  resize(columns: number, rows: number): void
  /** As it began, and with an empty history. */
  reset(): void
  /** A line, first those of the history, then those of the screen; 0 up to historyLength + rows. */
  line(index: number): Line
  /** The text of a cell's first word, as of `Line.cells`. */
  textOf(word: number): string
}

const defaultHistoryLines = 10_000
const maxTitleLength = 512
const maxTitles = 10

const setCursorStyle = functionId(' q')
const windowFunction = functionId('t')
const resetFunction = functionId('c')

/** An emulator with an empty screen. */
export function createEmulator(needs: EmulatorNeeds): Emulator {
  const { columns, rows, historyLines = defaultHistoryLines } = needs
  const { onReply = () => {}, onTitle = () => {}, onBell = () => {}, colorOf = () => null } = needs
  let screen = createScreen({ columns, rows, historyLines })
  /** As DECSCUSR has it: 1 and 2 a block, 3 and 4 an underline, 5 and 6 a bar; odd ones blink; 0 the user's own. */
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
  /** XTWINOPS 22 and 23 keep the title and bring it back; nothing else of it is heeded but what reports.ts answers. */
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
    dcs: (id, _, text) => reply(dcsAnswer(screen, id, text, cursorStyle))
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
