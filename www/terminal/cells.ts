/*
 * The memory layout of a screen line. Each cell has three 32-bit words. All values are below 2^30, so a JavaScript
 * engine never has to box them.
 *
 *   character    bits 0–20: the code point, or the number of a cluster (clusters.ts) if bit 21 is set; 0: empty cell
 *                bit 22: the character takes this cell and the next one, which contains `spacer`
 *   foreground   bits 0–24: the colour; bits 25–29: bold, dim, italic, inverse, struck
 *   background   bits 0–24: the colour; bit 25: hidden; bit 26: blinking; bits 27–29: the underline (0 none, 1 single,
 *                2 double, 3 curly, 4 dotted, 5 dashed)
 *
 * A colour is 0 for the default, 1 + index for a colour of the 256-colour palette, or rgbBit | 0xrrggbb.
 */

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
