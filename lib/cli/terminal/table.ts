import { plainText } from './terminal-text.js'
import { cutToWidth, widthOf } from './width.js'

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
