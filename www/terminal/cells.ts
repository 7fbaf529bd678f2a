/*
 * A line of the screen: three 32-bit words a cell, all below 2^30, so that an engine never has to box them.
 *
 *   what         bits 0–20 the code point, or with bit 21 the number of a cluster (clusters.ts); 0: nothing was written
 *                bit 22: the character takes this cell and the next one, which holds `spacer`
 *   foreground   bits 0–24 the colour, 25–29 bold, dim, italic, inverse, struck
 *   background   bits 0–24 the colour, 25 hidden, 26 blinking, 27–29 the underline (0 none, 1 single, 2 double, 3 curly,
 *                4 dotted, 5 dashed)
 *
 * A colour is 0 for the default, 1 + index for one of the palette of 256, or rgbBit | 0xrrggbb.
 */

export const cellWords = 3
export const codeMask = 0x1fffff
export const clusterBit = 1 << 21
export const wideBit = 1 << 22
/** The right half of a character of two cells. */
export const spacer = 1 << 23

export const colorMask = 0x1ffffff
export const rgbBit = 1 << 24

/** Of the foreground's word. */
export const bold = 1 << 25
export const dim = 1 << 26
export const italic = 1 << 27
export const inverse = 1 << 28
export const struck = 1 << 29

/** Of the background's word. */
export const hidden = 1 << 25
export const blinking = 1 << 26
export const underlineShift = 27
export const underlineMask = 7 << underlineShift

export interface Line {
  /** `cellWords` for each column. */
  cells: Int32Array
  /** The text goes on in the next line because it did not fit, not because it was told to. */
  isWrapped: boolean
  /** Grows with each change, so that who draws it knows. */
  version: number
}

/** A line with nothing in it. */
export function createLine(columns: number): Line {
  return { cells: new Int32Array(columns * cellWords), isWrapped: false, version: 0 }
}

/** Empties the cells from one column up to another, in a background colour. */
export function blank(line: Line, from: number, to: number, background: number): void {
  const { cells } = line
  cells.fill(0, from * cellWords, to * cellWords)
  if (background !== 0) {
    for (let at = from * cellWords + 2; at < to * cellWords; at += cellWords) cells[at] = background
  }
  line.version++
}

/** Before one half of a wide character is overwritten: empties both halves where `column` is the right one. */
export function splitWide(line: Line, column: number): void {
  const { cells } = line
  const at = column * cellWords
  if (column === 0 || at >= cells.length || cells[at] !== spacer) return
  cells[at - cellWords] = 0
  cells[at] = 0
}

/** How many columns have something written in them, from the left. */
export function usedColumns(line: Line): number {
  const { cells } = line
  let at = cells.length - cellWords
  while (at >= 0 && cells[at] === 0) at -= cellWords
  return at / cellWords + 1
}
