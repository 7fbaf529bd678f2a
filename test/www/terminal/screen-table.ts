import t from 'tap'
import { createEmulator, type Emulator } from '../../../www/terminal/emulator.js'
import { textOfColumns } from '../../../www/terminal/selection.js'

/** The output of a program and the expected screen. */
export interface ScreenCase {
  what: string
  input: string
  /** The rows without the blanks at their ends; empty rows at the end may be left out. */
  expected: string[]
  /** Column and row from 0. */
  cursor?: [x: number, y: number]
  /** Expected rows of the history. */
  history?: string[]
  /** Expected replies to the program. */
  replies?: string[]
  columns?: number
  rows?: number
}

/** Returns the ways to divide a text: whole, cut in two at each offset, and one UTF-16 unit at a time. */
export function cutsOf(text: string): Array<{ how: string; pieces: string[] }> {
  const cuts = [{ how: 'whole', pieces: [text] }]
  for (let at = 1; at < text.length; at++)
    cuts.push({ how: `cut at ${at}`, pieces: [text.slice(0, at), text.slice(at)] })
  return [...cuts, { how: 'one at a time', pieces: [...Array(text.length).keys()].map(at => text[at] as string) }]
}

/** Returns the rows of the screen or of the history as text. */
export function rowsOf(emulator: Emulator, part: 'screen' | 'history' = 'screen'): string[] {
  const [from, to] =
    part === 'history' ? [0, emulator.historyLength] : [emulator.historyLength, emulator.historyLength + emulator.rows]
  return Array.from({ length: to - from }, (_, row) =>
    textOfColumns(emulator, emulator.line(from + row), { from: 0, to: emulator.columns }).trimEnd()
  )
}

const trimmed = (rows: string[]): string[] => rows.slice(0, rows.findLastIndex(row => row !== '') + 1)

/** Runs each case with its input divided in each of these ways. */
export function testScreens(cases: ScreenCase[]): void {
  for (const { what, input, expected, cursor, history, replies, columns = 8, rows = 4 } of cases) {
    t.test(what, async t => {
      for (const { how, pieces } of cutsOf(input)) {
        const told: string[] = []
        const emulator = createEmulator({ columns, rows, historyLines: 100, onReply: text => told.push(text) })
        for (const piece of pieces) emulator.write(piece)
        t.same(trimmed(rowsOf(emulator)), trimmed(expected), how)
        if (cursor !== undefined) t.same([emulator.cursor.x, emulator.cursor.y], cursor, `${how}: the cursor`)
        if (history !== undefined) t.same(rowsOf(emulator, 'history'), history, `${how}: the history`)
        if (replies !== undefined) t.equal(told.join(''), replies.join(''), `${how}: the replies`)
      }
    })
  }
}
