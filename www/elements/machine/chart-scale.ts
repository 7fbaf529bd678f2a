/* Positions of the values of a chart. Pure: uses no DOM. Sizes are in pixels, times in ms. */

/** A value at a time. */
export interface Point {
  atMs: number
  value: number
}

/** The range of an axis, and its position on the screen. */
export interface Scale {
  from: number
  to: number
  fromPx: number
  toPx: number
}

/** Returns the position of a value. A value outside of the range gets the position of the nearest end. */
export function placeOf(value: number, { from, to, fromPx, toPx }: Scale): number {
  const share = to === from ? 0 : Math.min(1, Math.max(0, (value - from) / (to - from)))
  return Math.round((fromPx + share * (toPx - fromPx)) * 10) / 10
}

/** Returns the end of an axis that begins at 0: the first of 1, 2, 5, 10, 20 … that is at least `most`. */
export function niceEnd(most: number): number {
  if (most <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(most))
  return [1, 2, 5, 10].map(step => step * power).find(end => end >= most * 0.999_999) ?? most
}

/** Like niceEnd, for sizes: in steps of 1, 2, 4 … 512 B, KB, MB. */
export function niceBytesEnd(most: number): number {
  return most <= 1 ? 1 : 2 ** Math.ceil(Math.log2(most) - 1e-9)
}

/** Returns the end of an axis of whole numbers whose middle is a whole number, too. */
export function niceCountEnd(most: number): number {
  const end = most <= 10 ? Math.max(2, Math.ceil(most)) : niceEnd(most)
  return end % 2 === 0 ? end : end + 1
}

/** Returns the points that are at most `spanMs` older than the newest one. Points are ordered by time. */
export function latest<T extends { atMs: number }>(points: readonly T[], spanMs: number): T[] {
  const newestMs = points.at(-1)?.atMs ?? 0
  return points.filter(({ atMs }) => atMs >= newestMs - spanMs)
}

/** The axes of a line chart. */
export interface LineScales {
  x: Scale
  y: Scale
  /** If two points are further apart than this, the line between them is interrupted. */
  gapMs: number
}

/** Splits points at gaps. Returns each stretch as a list of positions. */
export function stretchesOf(
  points: readonly Point[],
  { x, y, gapMs }: LineScales
): Array<Array<[x: number, y: number]>> {
  const stretches: Array<Array<[number, number]>> = []
  let lastMs = -Infinity
  for (const { atMs, value } of points) {
    if (atMs - lastMs > gapMs) stretches.push([])
    stretches.at(-1)?.push([placeOf(atMs, x), placeOf(value, y)])
    lastMs = atMs
  }
  return stretches
}

/** Returns the path of the line of a stretch. A single point becomes a dot. */
export function linePath(stretch: ReadonlyArray<readonly [number, number]>): string {
  const [first] = stretch
  if (first === undefined) return ''
  if (stretch.length === 1) return `M${first.join(' ')}h0.1`
  return `M${stretch.map(place => place.join(' ')).join('L')}`
}

/** Returns the path of the area between a stretch and the axis at `groundPx`. */
export function areaPath(stretch: ReadonlyArray<readonly [number, number]>, groundPx: number): string {
  const [first] = stretch
  const last = stretch.at(-1)
  if (first === undefined || last === undefined || stretch.length === 1) return ''
  return `${linePath(stretch)}L${last[0]} ${groundPx}L${first[0]} ${groundPx}Z`
}

/** Returns the darkness of a day in a calendar: 0 for no events, 1 to 4 by its share of the busiest day. */
export function levelOf(count: number, most: number): 0 | 1 | 2 | 3 | 4 {
  if (count === 0) return 0
  return Math.min(4, Math.max(1, Math.ceil((count / most) * 4))) as 1 | 2 | 3 | 4
}

const dayMs = 86_400_000

/** Returns the dates (UTC) of the `count` days that end with `today`, oldest first. */
export function datesUpTo(today: string, count: number): string[] {
  const endMs = Date.parse(today)
  return Array.from({ length: count }, (_, index) =>
    new Date(endMs - (count - 1 - index) * dayMs).toISOString().slice(0, 10)
  )
}

/** Returns the weekday of a date (UTC): 0 is Monday. */
export function weekdayOf(date: string): number {
  return (new Date(date).getUTCDay() + 6) % 7
}
