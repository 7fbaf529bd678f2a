import { plainText } from './terminal-text.js'

/** A column of a table. */
export interface Column<T> {
  header: string
  cell(row: T): string
  /** Colours the finished cell. Colours do not count for its width. */
  paint?(text: string, row: T): string
  align?: 'right'
  /**
   * Minimum width if the terminal is too narrow. The widest such column is shortened first. Absent: never shortened.
   */
  shrinkTo?: number
}

const gap = '  '

/** Renders rows as lines of aligned columns. If possible, no line is longer than `columns`, the width of a terminal. */
export function renderTable<T>(rows: readonly T[], table: readonly Column<T>[], columns: number | undefined): string[] {
  const cells = rows.map(row => table.map(column => plainText(column.cell(row))))
  const widths = table.map((column, at) =>
    Math.max(widthOf(column.header), ...cells.map(line => widthOf(line[at] as string)))
  )
  if (columns !== undefined) shrink(widths, table, columns)
  const head = line(
    table.map(column => column.header),
    column => column
  )
  return [head, ...cells.map((texts, row) => line(texts, (text, at) => painted(text, at, rows[row] as T)))]

  function line(texts: string[], finish: (text: string, at: number) => string): string {
    return texts
      .map((text, at) => finish(fit(text, at), at))
      .join(gap)
      .trimEnd()
  }

  function fit(text: string, at: number): string {
    const cut = cutToWidth(text, widths[at] as number)
    const padding = ' '.repeat((widths[at] as number) - widthOf(cut))
    if (table[at]?.align === 'right') return padding + cut
    return at === table.length - 1 ? cut : cut + padding
  }

  function painted(text: string, at: number, row: T): string {
    return table[at]?.paint?.(text, row) ?? text
  }
}

function shrink<T>(widths: number[], table: readonly Column<T>[], columns: number): void {
  let over = widths.reduce((sum, width) => sum + width, 0) + gap.length * (widths.length - 1) - columns
  while (over > 0) {
    let widest = -1
    widths.forEach((width, at) => {
      const least = table[at]?.shrinkTo
      if (least !== undefined && width > least && width > (widths[widest] ?? 0)) widest = at
    })
    if (widest === -1) return
    widths[widest] = (widths[widest] as number) - 1
    over--
  }
}

/*
 * Measures the width of text in columns of a terminal, by the East Asian Width of Unicode (UAX #11) as terminals apply
 * it. Wide and Fullwidth characters take two columns; combining marks and format characters take none. A grapheme is
 * as wide as its widest part, so a family emoji of four joined characters takes two columns.
 * Differences: ambiguous characters take one column, as in every locale except legacy CJK locales.
 */

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

/** Breaks a text between words into lines of at most this many characters. A longer word has its own line. */
export function wrap(text: string, columns: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > columns) {
      lines.push(line)
      line = ''
    }
    line += line === '' ? word : ` ${word}`
  }
  return [...lines, line]
}
