/** The part of a long list that is on the page. */
export interface RowWindow {
  first: number
  /** Index after the last row. */
  end: number
}

/** The position and size of a list. */
export interface RowGeometry {
  count: number
  rowPx: number
  /** Distance from the top of the visible area to the top of the list; negative if the list is scrolled past it. */
  topPx: number
  seenPx: number
  /** Rows kept on the page above and below the visible area. */
  spareRows: number
}

/** Returns the visible rows and the spare rows around them. Pure. */
export function rowWindow({ count, rowPx, topPx, seenPx, spareRows }: RowGeometry): RowWindow {
  if (rowPx <= 0) return { first: 0, end: Math.min(count, 1) }
  const firstSeen = Math.floor(-topPx / rowPx)
  const endSeen = Math.ceil((seenPx - topPx) / rowPx)
  const first = Math.min(Math.max(0, firstSeen - spareRows), Math.max(0, count - 1))
  return { first, end: Math.max(Math.min(count, endSeen + spareRows), Math.min(count, first + 1)) }
}

/** Returns how far the page must scroll to show a row completely between two margins. Pure. */
export function scrollToRow(
  { rowPx, topPx, seenPx }: Pick<RowGeometry, 'rowPx' | 'topPx' | 'seenPx'>,
  index: number,
  { above, below }: { above: number; below: number }
): number {
  const rowTop = topPx + index * rowPx
  if (rowTop < above) return rowTop - above
  return Math.max(0, rowTop + rowPx - (seenPx - below))
}
