/*
 * The clock of the server. Times of records are the server's, so ages and remaining times are measured by its clock: that of
 * the browser may be wrong by hours. Each answer has a header `Date`, in whole seconds.
 */

/** Differences below this are no more than the header and the way of the answer explain. */
const toleratedMs = 2000
/** An answer that took longer says too little about the time. */
const maxWayMs = 10_000
const halfSecondMs = 500

/** How far the clock of the server is ahead of that of the browser. */
let aheadMs = 0

/** Returns the time by the clock of the server. */
export function serverNow(): number {
  return Date.now() + aheadMs
}

/** Takes note of the header `Date` of an answer to a request that was sent at `sentAtMs` by the clock of the browser. */
export function noteServerDate(date: string | null, sentAtMs: number): void {
  const nowMs = Date.now()
  const wayMs = nowMs - sentAtMs
  const dateMs = Date.parse(date ?? '')
  if (Number.isNaN(dateMs) || wayMs < 0 || wayMs > maxWayMs) return
  const measuredMs = dateMs + halfSecondMs - (sentAtMs + wayMs / 2)
  if (Math.abs(measuredMs) <= toleratedMs) aheadMs = 0
  else if (Math.abs(measuredMs - aheadMs) > toleratedMs) aheadMs = measuredMs
}
