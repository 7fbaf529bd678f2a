/* Measures text in cells, so that the rows of a line are known before it is drawn. */

const tabCells = 8
// Combining marks and joiners take no cell; East Asian wide characters and emoji take two (UAX #11, abridged).
// biome-ignore lint/suspicious/noMisleadingCharacterClass: each of these characters is matched on its own
const zeroWidth = /^[\p{Mn}\p{Me}\u200b-\u200f\ufe00-\ufe0f]$/u
const doubleWidth = new RegExp(
  '^[\\u1100-\\u115f\\u2e80-\\u303e\\u3041-\\ua4cf\\uac00-\\ud7a3\\uf900-\\ufaff\\ufe30-\\ufe6f\\uff00-\\uff60' +
    '\\uffe0-\\uffe6\\u{1f300}-\\u{1f64f}\\u{1f680}-\\u{1f9ff}\\u{20000}-\\u{3fffd}]$',
  'u'
)
const narrowText = /^[\x20-\x7e]*$/

/** Returns the number of cells of a text in a monospaced font. */
export function cellsOf(text: string): number {
  if (narrowText.test(text)) return text.length
  let cells = 0
  for (const character of text) {
    if (character === '\t') cells += tabCells - (cells % tabCells)
    else if (!zeroWidth.test(character)) cells += doubleWidth.test(character) ? 2 : 1
  }
  return cells
}
