import type { Emulator } from '../../www/terminal/emulator.js'

/** One cell as tests compare it: its text and its look as words. */
export interface TestCell {
  text: string
  style: string
  /** Whether the capture ended before the cell: nothing was written there, and its colour is unknown. */
  isUntold?: boolean
}

const names = ['bold', 'dim', 'italic', 'blinking', 'inverse', 'hidden', 'struck']
const codes = [1, 2, 3, 5, 7, 8, 9]
const graphics: Record<string, string> = Object.fromEntries(
  [...'`afgijklmnopqrstuvwxyz{|}~'].map((key, at) => [key, [...'◆▒°±␉┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·'][at] as string])
)
graphics['i'] = '␋'

/**
 * The cells of a text with SGR, as `tmux capture-pane -e` prints it: a line for each row, the look lasting over its
 * end, SO and SI for line drawing. Written for this output alone, so that the emulator does not judge itself.
 */
export function cellsOfCapture(capture: string, size: { columns: number; rows: number }): TestCell[][] {
  const look: Look = { flags: new Set(), underline: '', foreground: '', background: '' }
  const lines = capture.split('\n').slice(0, size.rows)
  return lines.map(line => {
    const row: TestCell[] = []
    let isGraphic = false
    for (const [, sgr, shift, character] of line.matchAll(
      // biome-ignore lint/suspicious/noMisleadingCharacterClass: a base character and the marks that join it
      /\x1b\[([\d;:]*)m|([\x0e\x0f])|(\P{M}[\p{M}\u200d\ufe0f]*)/gsu
    )) {
      if (sgr !== undefined) applySgr(look, sgr)
      else if (shift !== undefined) isGraphic = shift === '\x0e'
      else if (character !== undefined) {
        const text = isGraphic ? (graphics[character] ?? character) : character
        row.push({ text: text === ' ' ? '' : text, style: styleWords(look) })
        if (isWide(character)) row.push({ text: '', style: styleWords(look) })
      }
    }
    while (row.length < size.columns) row.push({ text: '', style: '', isUntold: true })
    return row
  })
}

interface Look {
  flags: Set<string>
  underline: string
  foreground: string
  background: string
}

const isWide = (character: string): boolean =>
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\u{1f300}-\u{1faff}]/u.test(character)

function applySgr(look: Look, sgr: string): void {
  const words = sgr.split(';')
  for (let at = 0; at < words.length; at++) {
    const word = words[at] as string
    const code = Number.parseInt(word === '' ? '0' : word, 10)
    if (code === 0) Object.assign(look, { flags: new Set(), underline: '', foreground: '', background: '' })
    else if (word.startsWith('4:')) look.underline = word.slice(2)
    else if (code === 4) look.underline = '1'
    else if (code === 21) look.underline = '2'
    else if (codes.includes(code)) look.flags.add(names[codes.indexOf(code)] as string)
    else if (code === 38 || code === 48) {
      const length = words[at + 1] === '5' ? 2 : 4
      const color = words.slice(at + 2, at + 1 + length).join(',')
      look[code === 38 ? 'foreground' : 'background'] = color
      at += length
    } else if (code === 39) look.foreground = ''
    else if (code === 49) look.background = ''
    else if (code >= 90) look[code < 100 ? 'foreground' : 'background'] = String((code % 10) + 8)
    else if (code >= 30) look[code < 40 ? 'foreground' : 'background'] = String(code % 10)
  }
}

function styleWords({ flags, underline, foreground, background }: Look): string {
  const words = names.filter(name => flags.has(name))
  if (underline !== '') words.push(`underline ${underline}`)
  if (foreground !== '') words.push(`text ${foreground}`)
  if (background !== '') words.push(`ground ${background}`)
  return words.join(' ')
}

/** Returns the cells of an emulator's screen. */
export function cellsOfEmulator(emulator: Emulator): TestCell[][] {
  return Array.from({ length: emulator.rows }, (_, row) => {
    const { cells } = emulator.line(emulator.historyLength + row)
    return Array.from({ length: emulator.columns }, (_, column) => {
      const [what, foreground, background] = cells.subarray(column * 3, column * 3 + 3) as unknown as [
        number,
        number,
        number
      ]
      const text = emulator.textOf(what)
      return { text: text === ' ' ? '' : text, style: cellWords(foreground, background) }
    })
  })
}

/** Reads the layout that www/terminal/cells.ts documents. */
function cellWords(foreground: number, background: number): string {
  const isOn = [
    foreground & (1 << 25),
    foreground & (1 << 26),
    foreground & (1 << 27),
    background & (1 << 26),
    foreground & (1 << 28),
    background & (1 << 25),
    foreground & (1 << 29)
  ]
  const words = names.filter((_, index) => isOn[index] !== 0)
  const underline = (background >> 27) & 7
  if (underline !== 0) words.push(`underline ${underline}`)
  for (const [what, word] of [
    ['text', foreground],
    ['ground', background]
  ] as const) {
    const color = word & 0x1ffffff
    if (color >= 1 << 24) words.push(`${what} ${(color >> 16) & 255},${(color >> 8) & 255},${color & 255}`)
    else if (color > 0) words.push(`${what} ${color - 1}`)
  }
  return words.join(' ')
}

/** Returns the differing cells as words, at most eight per row. */
export function differences(found: TestCell[][], wanted: TestCell[][]): string[] {
  return wanted.flatMap((row, y) =>
    row
      .flatMap((cell, x) => {
        const mine = found[y]?.[x]
        if (mine?.text === cell.text && (mine.style === cell.style || cell.isUntold === true)) return []
        return [`row ${y} column ${x}: "${mine?.text}" [${mine?.style}], wanted "${cell.text}" [${cell.style}]`]
      })
      .slice(0, 8)
  )
}
