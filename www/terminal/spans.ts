import {
  blinking, bold, cellWords, colorMask, dim, hidden, inverse, italic, rgbBit, spacer, struck, underlineMask,
  underlineShift, wideBit
} from './cells.js'
import type { Line } from './cells.js'

/** Cells of one look beside one another, as they are drawn. */
export interface Span {
  text: string
  /** How many columns it takes. */
  columns: number
  /** Not each character takes one column: it has to be given its width. */
  isWide: boolean
  foreground: number
  background: number
}

/** The words of a look that is nothing but the default. */
export const isPlain = ({ foreground, background }: Pick<Span, 'foreground' | 'background'>): boolean =>
  foreground === 0 && background === 0

/**
 * A line as spans, from the left. Blanks at its end that have no look are left out. Characters that are not sure to be
 * one column wide in a font (wide ones, and all but Latin, Greek, Cyrillic and line drawing) stand in spans by themselves.
 */
export function spansOf(line: Line, textOf: (word: number) => string): Span[] {
  const { cells } = line
  const spans: Span[] = []
  let last: Span | undefined
  for (let at = 0; at < cells.length; at += cellWords) {
    const word = cells[at] as number
    if (word === spacer) continue
    const foreground = cells[at + 1] as number
    const background = cells[at + 2] as number
    const isWide = (word & wideBit) !== 0
    const isOdd = isWide || (word > 0x52f && !(word >= 0x2500 && word <= 0x259f) && word !== 0x2026)
    const text = word === 0 ? ' ' : textOf(word)
    if (last !== undefined && !isOdd && !last.isWide && last.foreground === foreground && last.background === background) {
      last.text += text
      last.columns++
      continue
    }
    last = { text, columns: isWide ? 2 : 1, isWide: isOdd, foreground, background }
    spans.push(last)
  }
  if (last !== undefined && isPlain(last)) {
    last.text = last.text.trimEnd()
    if (last.text === '') spans.pop()
  }
  return spans
}

/** A look as an element shows it. */
export interface Look {
  /** Names of classes. */
  classes: string[]
  /** `#rrggbb`, an index of the palette, or null for the default. Inverse is already carried out. */
  foreground: string | number | null
  background: string | number | null
  isInverse: boolean
}

const flags: Array<[bit: number, name: string]> = [
  [bold, 'bold'], [dim, 'dim'], [italic, 'italic'], [struck, 'struck']
]
const underlines = ['', 'underline', 'underline double', 'underline curly', 'underline dotted', 'underline dashed']

/** The look that a cell's two words describe. A program's colours 0 to 7 turn bright with bold in no case. */
export function lookOf({ foreground, background }: Pick<Span, 'foreground' | 'background'>): Look {
  const classes = flags.filter(([bit]) => (foreground & bit) !== 0).map(([, name]) => name)
  const underline = (background & underlineMask) >> underlineShift
  if (underline !== 0) classes.push(...(underlines[underline] as string).split(' '))
  if ((background & hidden) !== 0) classes.push('hidden')
  if ((background & blinking) !== 0) classes.push('blinking')
  const isInverse = (foreground & inverse) !== 0
  const colors = [colorOf(foreground & colorMask), colorOf(background & colorMask)] as const
  return {
    classes,
    isInverse,
    foreground: isInverse ? colors[1] : colors[0],
    background: isInverse ? colors[0] : colors[1]
  }
}

/** The first 16 of the palette are the theme's; then a cube of six steps a channel; then 24 greys (xterm's 256 colours). */
function colorOf(color: number): string | number | null {
  if (color === 0) return null
  if ((color & rgbBit) !== 0) return `#${(color & 0xffffff).toString(16).padStart(6, '0')}`
  const index = color - 1
  if (index < 16) return index
  if (index >= 232) return hex([8, 8, 8].map(value => value + (index - 232) * 10))
  const step = (value: number): number => (value === 0 ? 0 : 55 + value * 40)
  const cube = index - 16
  return hex([step(Math.floor(cube / 36)), step(Math.floor(cube / 6) % 6), step(cube % 6)])
}

const hex = (parts: number[]): string => `#${parts.map(value => value.toString(16).padStart(2, '0')).join('')}`
