import { plainText } from './terminal-text.js'

export interface Column<T> {
  header: string
  cell(row: T): string
  /** Colours the finished cell. Colours do not count for its width. */
  paint?(text: string, row: T): string
  align?: 'right'
  /**
   * Minimum width if the terminal is too narrow: what people need of it. The widest such column is shortened first. Absent:
   * shortened only if nothing else helps.
   */
  shrinkTo?: number
  /**
   * Whether the column is left out on a terminal: `first` if the table does not fit as it is, `last` if it does not fit
   * with every other column at its minimum.
   */
  drop?: 'first' | 'last'
  /** Whether a long cell continues on more lines instead of being cut, if the column is the last one. */
  wraps?: true
}

const gap = '  '
/** Minimum width of a column that wraps and names none. */
const wrapColumns = 20
/** What is left of a column that is shortened below its minimum. */
const leastColumns = 8
/** What is left if even that does not fit. */
const lastColumns = 3

/** Renders rows as lines of aligned columns. No line is longer than `columns`, the width of a terminal. */
export function renderTable<T>(rows: readonly T[], given: readonly Column<T>[], columns: number | undefined): string[] {
  const table = columns === undefined ? given : kept(rows, given, columns)
  const cells = rows.map(row => table.map(column => plainText(column.cell(row))))
  const widths = widthsOf(rows, table)
  if (columns !== undefined) shrink(widths, table, columns)
  const head = line(
    table.map(column => column.header),
    column => column
  )
  return [head, ...cells.flatMap((texts, row) => linesOf(texts, rows[row] as T))]

  /** Returns the lines of a row: one, and more if its last cell wraps. */
  function linesOf(texts: string[], row: T): string[] {
    const at = table.length - 1
    const rest = table[at]?.wraps ? pieces(texts[at] as string, widths[at] as number) : [texts[at] as string]
    return rest.map((piece, n) =>
      line([...texts.slice(0, at).map(text => (n === 0 ? text : '')), piece], (text, at) => painted(text, at, row))
    )
  }

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

function widthsOf<T>(rows: readonly T[], table: readonly Column<T>[]): number[] {
  return table.map(({ header, cell }) => Math.max(widthOf(header), ...rows.map(row => widthOf(plainText(cell(row))))))
}

function totalOf(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + gap.length * (widths.length - 1)
}

/** Returns the columns that a terminal has room for. */
function kept<T>(rows: readonly T[], given: readonly Column<T>[], columns: number): readonly Column<T>[] {
  if (totalOf(widthsOf(rows, given)) <= columns) return given
  let table = given.filter(({ drop }) => drop !== 'first')
  for (;;) {
    const least = widthsOf(rows, table).map((width, at) => Math.min(width, table[at]?.shrinkTo ?? width))
    const last = totalOf(least) <= columns ? -1 : table.findLastIndex(({ drop }) => drop === 'last')
    if (last === -1) return table
    table = table.filter((_, at) => at !== last)
  }
}

/** Shortens the widest column by one, again and again: those that may be shortened or that wrap, then all. */
function shrink<T>(widths: number[], table: readonly Column<T>[], columns: number): void {
  const floors = (least: number): number[] =>
    table.map(({ shrinkTo, wraps }, at) => {
      if (shrinkTo !== undefined) return Math.min(shrinkTo, least)
      return wraps && at === table.length - 1 ? wrapColumns : Infinity
    })
  const least = [floors(Infinity), floors(leastColumns), table.map(() => leastColumns), table.map(() => lastColumns)]
  for (const floor of least) {
    while (totalOf(widths) > columns) {
      let widest = -1
      widths.forEach((width, at) => {
        if (width > (floor[at] as number) && width > (widths[widest] ?? 0)) widest = at
      })
      if (widest === -1) break
      widths[widest] = (widths[widest] as number) - 1
    }
  }
}

/** Cuts a text into pieces of at most this many columns; at least one. */
function pieces(text: string, columns: number): string[] {
  if (widthOf(text) <= columns) return [text]
  const found: string[] = ['']
  for (const { segment } of graphemes(text)) {
    const last = found.at(-1) as string
    if (widthOf(last + segment) <= columns) found[found.length - 1] = last + segment
    else {
      // At the last space, unless that leaves less than half of the line.
      const at = segment === ' ' ? last.length : last.lastIndexOf(' ') + 1
      const rest = at > columns / 2 ? last.slice(at) : ''
      found[found.length - 1] = last.slice(0, last.length - rest.length).trimEnd()
      found.push(segment === ' ' ? '' : rest + segment)
    }
  }
  return found
}

/*
 * Measures the width of text in columns of a terminal, by the East Asian Width of Unicode (UAX #11) as terminals apply
 * it. Wide and Fullwidth characters take two columns; combining marks and format characters take none. A grapheme is
 * as wide as its widest part, so a family emoji of four joined characters takes two columns.
 * Differences: ambiguous characters take one column, as in every locale except legacy CJK locales.
 */

/** Made when they are needed: most tables contain ASCII only, and these expressions take longer to make than a table. */
let expressions: { wide: RegExp; zero: RegExp } | undefined

function createExpressions() {
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
  return { wide, zero }
}

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

/** A segmenter takes longer to make than most commands compute. */
function graphemes(text: string): Iterable<{ segment: string }> {
  if (plain.test(text)) return Array.from(text, segment => ({ segment }))
  return new Intl.Segmenter('en', { granularity: 'grapheme' }).segment(text)
}

function graphemeWidth(segment: string): 0 | 1 | 2 {
  if (plain.test(segment)) return 1
  const { wide, zero } = (expressions ??= createExpressions())
  if (wide.test(segment)) return 2
  return zero.test(segment) ? 0 : 1
}
