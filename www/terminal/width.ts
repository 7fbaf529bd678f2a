import { doubleWidthRanges, zeroWidthRanges } from './width-ranges.js'

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
