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
import { doubleWidthRanges, zeroWidthRanges } from './width-ranges.js'
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

    /** Returns the text of a number. */
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
