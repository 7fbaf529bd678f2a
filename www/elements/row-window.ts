/** What of a long list is on the page. */
export interface RowWindow {
  first: number
  /** Behind the last. */
  end: number
}

export interface RowGeometry {
  count: number
  rowPx: number
  /** From the top of what is seen to the top of the list; negative once it is scrolled past. */
  topPx: number
  seenPx: number
  /** Kept on the page above and below what is seen. */
  spareRows: number
}

/** The rows that are seen, and some more. Pure. */
export function rowWindow({ count, rowPx, topPx, seenPx, spareRows }: RowGeometry): RowWindow {
  if (rowPx <= 0) return { first: 0, end: Math.min(count, 1) }
  const firstSeen = Math.floor(-topPx / rowPx)
  const endSeen = Math.ceil((seenPx - topPx) / rowPx)
  const first = Math.min(Math.max(0, firstSeen - spareRows), Math.max(0, count - 1))
  return { first, end: Math.max(Math.min(count, endSeen + spareRows), Math.min(count, first + 1)) }
}

/** How far the page must scroll so that a row is seen whole between two margins. Pure. */
export function scrollToRow(
  { rowPx, topPx, seenPx }: Pick<RowGeometry, 'rowPx' | 'topPx' | 'seenPx'>, index: number,
  { above, below }: { above: number; below: number }
): number {
  const rowTop = topPx + index * rowPx
  if (rowTop < above) return rowTop - above
  return Math.max(0, rowTop + rowPx - (seenPx - below))
}
