import {
  blinking,
  bold,
  cellWords,
  colorMask,
  dim,
  hidden,
  inverse,
  italic,
  type Line,
  rgbBit,
  spacer,
  struck,
  underlineMask,
  underlineShift,
  wideBit
} from './cells.js'

/** Adjacent cells with the same attributes, which are drawn together. */
export interface Span {
  text: string
  /** Number of columns. */
  columns: number
  /** Whether the font may not draw it one column wide, so its width must be set. */
  isWide: boolean
  foreground: number
  background: number
}

/** Returns whether the attributes are all default. */
export const isPlain = ({ foreground, background }: Pick<Span, 'foreground' | 'background'>): boolean =>
  foreground === 0 && background === 0

/**
 * Divides a line into spans, from the left. Blanks at its end are left out if they have default attributes. Characters
 * that may not be one column wide in a font get spans of their own: wide ones, and all except Latin, Greek, Cyrillic
 * and line drawing.
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
    if (
      last !== undefined &&
      !isOdd &&
      !last.isWide &&
      last.foreground === foreground &&
      last.background === background
    ) {
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

/** The attributes of a span in the form that an element needs. */
export interface Look {
  /** Names of CSS classes. */
  classes: string[]
  /** `#rrggbb`, an index of the palette, or null for the default. Inverse colours are already swapped. */
  foreground: string | number | null
  background: string | number | null
  isInverse: boolean
}

const flags: Array<[bit: number, name: string]> = [
  [bold, 'bold'],
  [dim, 'dim'],
  [italic, 'italic'],
  [struck, 'struck']
]
const underlines = ['', 'underline', 'underline double', 'underline curly', 'underline dotted', 'underline dashed']

/** Returns the look of a cell's foreground and background words. Bold never turns the colours 0 to 7 bright. */
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

/**
 * Converts a colour of xterm's 256-colour palette or an RGB colour. The first 16 of the palette are the theme's
 * colours. Then follow a cube with six steps per channel and 24 greys.
 */
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
