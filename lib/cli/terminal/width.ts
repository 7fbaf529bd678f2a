/*
 * Measures the width of text in columns of a terminal, by the East Asian Width of Unicode (UAX #11) as terminals apply
 * it. Wide and Fullwidth characters take two columns; combining marks and format characters take none. A grapheme is
 * as wide as its widest part, so a family emoji of four joined characters takes two columns.
 * Differences: ambiguous characters take one column, as in every locale except legacy CJK locales.
 */
import { plainText } from './terminal-text.js'

const wide = new RegExp(
  [
    '[\\u1100-\\u115f\\u2329\\u232a\\u2e80-\\u303e\\u3041-\\u33ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\ua000-\\ua4cf]',
    '[\\ua960-\\ua97f\\uac00-\\ud7a3\\uf900-\\ufaff\\ufe30-\\ufe6f\\uff00-\\uff60\\uffe0-\\uffe6]',
    '[\\u{1b000}-\\u{1b2ff}\\u{1f200}-\\u{1f2ff}\\u{20000}-\\u{3fffd}]',
    '\\p{Emoji_Presentation}',
    // The variation selector for the emoji form (UTS #51 §2.8).
    '\\ufe0f'
  ].join('|'),
  'u'
)
const zero = /^[\p{Mn}\p{Me}\p{Cf}]+$/u
const plain = /^[\x20-\x7e]*$/

/** Returns the width of `text` in columns. Colour sequences take none. */
export function widthOf(text: string): number {
  const bare = plainText(text)
  if (plain.test(bare)) return bare.length
  let width = 0
  for (const { segment } of graphemes(bare)) width += graphemeWidth(segment)
  return width
}

/** Returns `text` without colours. A text wider than `columns` is cut and ends with `…`. */
export function cutToWidth(text: string, columns: number): string {
  const bare = plainText(text)
  if (widthOf(bare) <= columns) return bare
  const kept: string[] = []
  let width = 0
  for (const { segment } of graphemes(bare)) {
    width += graphemeWidth(segment)
    if (width > columns - 1) break
    kept.push(segment)
  }
  return `${kept.join('')}…`
}

function graphemes(text: string): Iterable<{ segment: string }> {
  return new Intl.Segmenter('en', { granularity: 'grapheme' }).segment(text)
}

function graphemeWidth(segment: string): 0 | 1 | 2 {
  if (wide.test(segment)) return 2
  return zero.test(segment) ? 0 : 1
}
