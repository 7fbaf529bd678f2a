/*
 * The memory layout of a screen line. Each cell has three 32-bit words. All values are below 2^30, so a JavaScript
 * engine never has to box them.
 *
 *   character    bits 0–20: the code point, or the number of a cluster if bit 21 is set; 0: empty cell
 *                bit 22: the character takes this cell and the next one, which contains `spacer`
 *   foreground   bits 0–24: the colour; bits 25–29: bold, dim, italic, inverse, struck
 *   background   bits 0–24: the colour; bit 25: hidden; bit 26: blinking; bits 27–29: the underline (0 none, 1 single,
 *                2 double, 3 curly, 4 dotted, 5 dashed)
 *
 * A colour is 0 for the default, 1 + index for a colour of the 256-colour palette, or rgbBit | 0xrrggbb.
 */
import type { Parameters } from './parser.js'

/** Number of 32-bit words per cell. */
export const cellWords = 3
/** Mask of the code point or cluster number in the character word. */
export const codeMask = 0x1fffff
/** Bit of the character word: the code is a cluster number. */
export const clusterBit = 1 << 21
/** Bit of the character word: the character takes two cells. */
export const wideBit = 1 << 22
/** Character word of the right half of a wide character. */
export const spacer = 1 << 23

/** Mask of the colour in the foreground and background words. */
export const colorMask = 0x1ffffff
/** Bit of a colour: the other bits are 0xrrggbb, not a palette index. */
export const rgbBit = 1 << 24

/** Bit of the foreground word: bold text. */
export const bold = 1 << 25
/** Bit of the foreground word: dim text. */
export const dim = 1 << 26
/** Bit of the foreground word: italic text. */
export const italic = 1 << 27
/** Bit of the foreground word: foreground and background are swapped. */
export const inverse = 1 << 28
/** Bit of the foreground word: struck text. */
export const struck = 1 << 29

/** Bit of the background word: hidden text. */
export const hidden = 1 << 25
/** Bit of the background word: blinking text. */
export const blinking = 1 << 26
/** Position of the underline style in the background word. */
export const underlineShift = 27
/** Mask of the underline style in the background word. */
export const underlineMask = 7 << underlineShift

/** One line of the screen or of the history. */
export interface Line {
  /** `cellWords` words for each column. */
  cells: Int32Array
  /** Whether the text continues in the next line because it did not fit. */
  isWrapped: boolean
  /** Grows with each change, so the renderer can detect changed lines. */
  version: number
}

/** Creates an empty line. */
export function createLine(columns: number): Line {
  return { cells: new Int32Array(columns * cellWords), isWrapped: false, version: 0 }
}

/** Clears the cells from column `from` to before column `to` and sets their background colour. */
// biome-ignore lint/complexity/useMaxParams: called for each row; an object would cost
export function blank(line: Line, from: number, to: number, background: number): void {
  const { cells } = line
  cells.fill(0, from * cellWords, to * cellWords)
  if (background !== 0) {
    for (let at = from * cellWords + 2; at < to * cellWords; at += cellWords) cells[at] = background
  }
  line.version++
}

/**
 * Clears both halves of a wide character if `column` is its right half. Call it before one half is overwritten.
 */
export function splitWide(line: Line, column: number): void {
  const { cells } = line
  const at = column * cellWords
  if (column === 0 || at >= cells.length || cells[at] !== spacer) return
  cells[at - cellWords] = 0
  cells[at] = 0
}

/** Returns the number of columns up to the last one that is not empty. */
export function usedColumns(line: Line): number {
  const { cells } = line
  let at = cells.length - cellWords
  while (at >= 0 && cells[at] === 0) at -= cellWords
  return at / cellWords + 1
}

/** A table of the texts that have several code points but share one cell. Each text is stored once. */
export type Clusters = ReturnType<typeof createClusters>

/** Maximum number of texts per session. Further texts lose their combining marks. */
const maxClusters = 65_536
/** Maximum length in UTF-16 units. A family of emoji with skin colours has 20. */
const maxClusterLength = 32

/** Creates an empty table. */
export function createClusters() {
  const texts: string[] = []
  const ids = new Map<string, number>()
  return {
    /** Returns the number of a text, or null if the table is full or the text is too long. */
    idOf(text: string): number | null {
      const known = ids.get(text)
      if (known !== undefined) return known
      if (texts.length === maxClusters || text.length > maxClusterLength) return null
      ids.set(text, texts.length)
      return texts.push(text) - 1
    },

    textOf: (id: number): string => texts[id] as string
  }
}

/*
 * The number of cells of a character: 0, 1 or 2. Each code point is measured separately, like wcwidth(), because the
 * programs in the terminal do the same. So a family joined from four emoji takes eight cells, and U+FE0F widens
 * nothing.
 */

/** The first code point that may take other than one cell. Printable characters below it take one cell each. */
export const firstUnusual = 0x300

/*
 * Written by test/support/make-widths.ts from Unicode 17.0. Ranges in ascending order, in base 36. Each is its distance
 * from the end of the previous range, followed by a colon and its length if that is not 1.
 */

/** General categories Mn, Me and Cf, except the soft hyphen and the prepended marks; Hangul vowels and finals. */
const zeroWidthRanges =
  'lc:34 7n:7 7b:19 1 1:2 1:2 1 20:b 1 1a:l g 2t:7 2:6 2:2 1:4 z u:r 2j:b 1m:9 9 o:4 1:9 1:3 1:5 17:3 1n:9 ' +
  '16:o 1:w 1j 1 4:8 4 3:7 a:2 t 1m 4:4 8 k:2 q 2:2 1l 4:2 4:2 2:3 3 u:2 3 b:2 1l 4:5 1:2 4 k:2 m:6 1 1m 2 ' +
  '1:4 8 7:2 b:2 u 1p c 1e 3 1j 1:3 5:3 1:4 7:2 b:2 t 1m 2 6 5:2 k:2 s:2 1l:2 4:4 8 k:2 t 20 7:3 1 2i 2:7 c:8 ' +
  '2q 2:9 b:7 21:2 r 1 1 1j:e 1:5 1:2 5:b 1:10 9 2u:4 1:6 1:2 2:2 p:2 4:3 g:4 d 2:2 6 f 5e:4g 9p:3 qa:3 t:2 ' +
  'u:2 u:2 1s:2 1:7 8 2:b 9 19:5 39:2 y 3a:3 4:2 9 6:3 63:2 2 1m 1:7 1 1 2:8 6:a 2 1c:1a 2:c k:4 1c 1:5 1 5 ' +
  '14:9 c:2 w:4 2:2 1:3 1k 1:2 3 1:3 1m:8 2:2 48:3 1:d 1:7 4 6 3:2 5i:1s ej:5 q:5 1d:5 1:a 2o:x 2da:3 3x 2o:w ' +
  'fe:4 2z:2 n9w:4 1:a w:2 28:2 7k 3 4 p:2 5 47:2 q:i d 12:8 p:b 1a:3 1c 2:4 2:2 13 1v:6 2:2 2:2 c 8 1b 1f ' +
  '1:3 2:2 5:2 1 16:2 8 6m 2 4 8n6:28 6xq kh:g g:g 5r 6x:3 e9 6a 45:5 1ae:3 1:2 5:4 14:3 4 4l:2 fx:4 1t:5 ' +
  '8t:2 25:6 1y:b 1d:4 3f 1i:f 15 2:2 a:3 1d:4 2:2 7 1p:3 10:5 1:8 1q c:2 1g:9 a:4 2 2n:3 2 1:2 6 2 4d 3:8 ' +
  'l:2 1l:2 3 11:7 3:5 1y:6 d 1 1 e:2 2d:8 2:3 1 n 2c:6 1 4:2 1:2 6m:4 6:2 1:2 r:2 2d:8 2 1:2 2y 1 2:6 1 2t 1 ' +
  '2:4 1:5 77:9 1:2 74:2 1 4 40:4 2:2 4 w:a 14:6 2:4 8 9:6 2:3 1a:d 1:2 5i 1:3 1 5l:7 1:6 1 2a:m 2:7 1:2 1:2 ' +
  '3e:6 3 1:2 1:7 1 20:2 3 1 9n:2 b:2 1g:5 5 1 n 445:h 6:f 8ug:c 3:3 1xc:5 1n:7 t4 1r:4 29 f5k:2 1:4 3mk:1a ' +
  '2:n f4:3 9:g 2:7 u:4 44:3 1iz:1j 4:1e 8 e m:5 1:f 11s:7 1:h 2:7 1:2 1:5 2s 4g:7 af 1p:4 e4:4 72:2 6r 2 7:2 ' +
  '5 d6:7 31:7 gzau u:2o 3k:6o'

/** East_Asian_Width Wide and Fullwidth (UAX #11), which includes emoji, except the code points above. */
const doubleWidthRanges =
  '3cw:2o 3i2:2 d:2 5a:4 3 2 eh:2 l:2 q:8 g:c 17 a:6 3 d 8:2 h:2 5:2 8 5 l 7:2 1 4 2 7 4:2 s z 1 4:3 1 1p:3 o ' +
  'e nv:2 1f 4 mi:q 1:2h c:5y q:1m 4:h 2:2e 4:2t 5:17 1:2m 1:2e 9:1c 1:14 8:mkd 3:1j wp:t hv:8mc 6l8:e8 ls:a ' +
  'm:z 1:j 1:4 45:2o 3j:7 m49:4 c:7 9:5p7 10:y 2n:37 d:pe e:1f 5y5:4 1:7 1:2 1:89 9 t:3 2 e:5 7:b0 6bo:2f 9:n ' +
  '5n1 5m 5a 2:a j 29:3 d:18 4:9 7:2 e:6 4a:x c:9 1:1y 1:m c:17 4:5 c:h 3 3:1z 1 1:57 2:1r d:4 1:o i q:2 d ' +
  '2e:2d 1c:1y 6 3:3 2:5 2:4 b:2 7:9 65 5:c 4 7v:1b 1:a 1:55 34:d 3:1z 1 3:i 1:d 3:c zp:1eke 2:1eke'

const zero = decode(zeroWidthRanges)
const double = decode(doubleWidthRanges)
/** Widths of the basic plane. Two bits would be enough, but a byte is faster. */
const basic = new Uint8Array(0x10000).fill(1)
for (const [ranges, width] of [
  [double, 2],
  [zero, 0]
] as const) {
  for (let at = 0; at < ranges.length; at += 2) basic.fill(width, ranges[at], ranges[at + 1])
}

/** Decodes ranges into pairs: the first code point, and the one after the last. */
function decode(text: string): number[] {
  const ranges: number[] = []
  let at = 0
  for (const word of text.split(' ')) {
    const [distance, length = '1'] = word.split(':')
    const from = at + Number.parseInt(distance as string, 36)
    at = from + Number.parseInt(length, 36)
    ranges.push(from, at)
  }
  return ranges
}

function has(ranges: number[], code: number): boolean {
  let low = 0
  let high = ranges.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((ranges[middle] as number) <= code) low = middle + 1
    else high = middle
  }
  // An odd index is inside a range: after its start and before its end.
  return low % 2 === 1
}

/** Returns the number of cells of a printable code point. 0 means that it joins the character before it. */
export function widthOf(code: number): number {
  if (code < 0x10000) return basic[code] as number
  return has(double, code) ? 2 : has(zero, code) ? 0 : 1
}

/** The attributes of the next character: the foreground and background words of a cell (cells.ts). */
export interface Pen {
  foreground: number
  background: number
}

/**
 * SGR: sets the attributes of the pen (ECMA-48 §8.3.117; ISO 8613-6 for colours). Colours are written as `38;2;r;g;b`
 * or `38;5;n`, or with colons. The form with colons has a colour space (`38:2::r:g:b`), which many programs omit. The
 * colour of an underline is ignored.
 */
export function selectRendition(pen: Pen, { values, isSub, count }: Parameters): void {
  for (let at = 0; at < count; at++) {
    const value = values[at] as number
    let subs = 0
    while (at + subs + 1 < count && isSub[at + subs + 1] === 1) subs++
    if (value === 38 || value === 48 || value === 58) {
      at += extended(pen, values, { at, count, subs })
      continue
    }
    if (subs === 0) select(pen, value)
    else if (value === 4) underline(pen, values[at + 1] as number)
    at += subs
  }
}

function select(pen: Pen, value: number): void {
  switch (value) {
    case 0:
      pen.foreground = 0
      pen.background = 0
      return
    case 1:
      pen.foreground |= bold
      return
    case 2:
      pen.foreground |= dim
      return
    case 3:
      pen.foreground |= italic
      return
    case 4:
      return underline(pen, 1)
    case 5:
    case 6:
      pen.background |= blinking
      return
    case 7:
      pen.foreground |= inverse
      return
    case 8:
      pen.background |= hidden
      return
    case 9:
      pen.foreground |= struck
      return
    case 21:
      return underline(pen, 2)
    case 22:
      pen.foreground &= ~(bold | dim)
      return
    case 23:
      pen.foreground &= ~italic
      return
    case 24:
      return underline(pen, 0)
    case 25:
      pen.background &= ~blinking
      return
    case 27:
      pen.foreground &= ~inverse
      return
    case 28:
      pen.background &= ~hidden
      return
    case 29:
      pen.foreground &= ~struck
      return
    case 39:
      return setForeground(pen, 0)
    case 49:
      return setBackground(pen, 0)
  }
  if (value >= 30 && value <= 37) setForeground(pen, value - 30 + 1)
  else if (value >= 40 && value <= 47) setBackground(pen, value - 40 + 1)
  else if (value >= 90 && value <= 97) setForeground(pen, value - 90 + 9)
  else if (value >= 100 && value <= 107) setBackground(pen, value - 100 + 9)
}

function underline(pen: Pen, style: number): void {
  pen.background = (pen.background & ~underlineMask) | (Math.min(style, 5) << underlineShift)
}

function setForeground(pen: Pen, color: number): void {
  pen.foreground = (pen.foreground & ~colorMask) | color
}

function setBackground(pen: Pen, color: number): void {
  pen.background = (pen.background & ~colorMask) | color
}

/** Sets a colour that takes further parameters after `at`. Returns the number of those parameters. */
function extended(
  pen: Pen,
  values: Int32Array,
  { at, count, subs }: { at: number; count: number; subs: number }
): number {
  const kind = values[at + 1]
  // With colons, the colour is all sub-parameters. With semicolons, it is the next four parameters, or two.
  const taken = subs > 0 ? subs : Math.min(count - at - 1, kind === 2 ? 4 : kind === 5 ? 2 : 1)
  const last = at + taken
  let color = -1
  if (kind === 5 && taken >= 2) {
    const index = values[at + 2] as number
    if (index <= 255) color = index + 1
  } else if (kind === 2 && taken >= 4) {
    const first = subs > 4 ? at + 3 : at + 2
    const [red, green, blue] = [values[first], values[first + 1], values[first + 2]] as [number, number, number]
    if (first + 2 <= last && red <= 255 && green <= 255 && blue <= 255)
      color = rgbBit | (red << 16) | (green << 8) | blue
  }
  if (color >= 0 && values[at] === 38) setForeground(pen, color)
  if (color >= 0 && values[at] === 48) setBackground(pen, color)
  return taken
}

/** Returns the SGR parameters that produce the pen, for a report. */
export function renditionOf({ foreground, background }: Pen): string {
  const codes = ['0']
  const flags: Array<[isOn: boolean, code: string]> = [
    [(foreground & bold) !== 0, '1'],
    [(foreground & dim) !== 0, '2'],
    [(foreground & italic) !== 0, '3'],
    [(background & blinking) !== 0, '5'],
    [(foreground & inverse) !== 0, '7'],
    [(background & hidden) !== 0, '8'],
    [(foreground & struck) !== 0, '9']
  ]
  for (const [isOn, code] of flags) if (isOn) codes.push(code)
  const line = (background & underlineMask) >> underlineShift
  if (line > 0) codes.push(line === 1 ? '4' : `4:${line}`)
  for (const [color, base] of [
    [foreground & colorMask, 30],
    [background & colorMask, 40]
  ] as const) {
    if (color === 0) continue
    if ((color & rgbBit) !== 0) codes.push(`${base + 8}:2::${(color >> 16) & 255}:${(color >> 8) & 255}:${color & 255}`)
    else if (color <= 8) codes.push(String(base + color - 1))
    else if (color <= 16) codes.push(String(base + 60 + color - 9))
    else codes.push(`${base + 8}:5:${color - 1}`)
  }
  return codes.join(';')
}

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
