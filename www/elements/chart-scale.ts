/* Where the values of a chart stand. Pure: knows no DOM. Sizes in pixels, times in ms. */

export interface Point {
  atMs: number
  value: number
}

/** What an axis runs from and to, and where that lies on the screen. */
export interface Scale {
  from: number
  to: number
  fromPx: number
  toPx: number
}

/** The place of a value; what is beyond an end stays at it. */
export function placeOf(value: number, { from, to, fromPx, toPx }: Scale): number {
  const share = to === from ? 0 : Math.min(1, Math.max(0, (value - from) / (to - from)))
  return Math.round((fromPx + share * (toPx - fromPx)) * 10) / 10
}

/** The end of an axis that begins at 0: the first of 1, 2, 5, 10, 20 … that is not below `most`. */
export function niceEnd(most: number): number {
  if (most <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(most))
  return [1, 2, 5, 10].map(step => step * power).find(end => end >= most * 0.999_999) ?? most
}

/** As niceEnd, for sizes: steps of 1, 2, 4 … 512 of B, KB, MB. */
export function niceBytesEnd(most: number): number {
  return most <= 1 ? 1 : 2 ** Math.ceil(Math.log2(most) - 1e-9)
}

/** The end of an axis of whole numbers, with a whole number in its middle. */
export function niceCountEnd(most: number): number {
  const end = most <= 10 ? Math.max(2, Math.ceil(most)) : niceEnd(most)
  return end % 2 === 0 ? end : end + 1
}

/** Those that are not older than `spanMs` before the newest. Points are in the order of time. */
export function latest<T extends { atMs: number }>(points: readonly T[], spanMs: number): T[] {
  const newestMs = points.at(-1)?.atMs ?? 0
  return points.filter(({ atMs }) => atMs >= newestMs - spanMs)
}

export interface LineScales {
  x: Scale
  y: Scale
  /** Between two points further apart nothing is known, and nothing is drawn. */
  gapMs: number
}

/** Points as stretches without a gap: each a list of places. */
export function stretchesOf(points: readonly Point[], { x, y, gapMs }: LineScales): Array<Array<[x: number, y: number]>> {
  const stretches: Array<Array<[number, number]>> = []
  let lastMs = -Infinity
  for (const { atMs, value } of points) {
    if (atMs - lastMs > gapMs) stretches.push([])
    stretches.at(-1)?.push([placeOf(atMs, x), placeOf(value, y)])
    lastMs = atMs
  }
  return stretches
}

/** A stretch as the path of its line; one point alone becomes a dot. */
export function linePath(stretch: ReadonlyArray<readonly [number, number]>): string {
  const [first] = stretch
  if (first === undefined) return ''
  if (stretch.length === 1) return `M${first.join(' ')}h0.1`
  return `M${stretch.map(place => place.join(' ')).join('L')}`
}

/** What lies between a stretch and the axis at `groundPx`. */
export function areaPath(stretch: ReadonlyArray<readonly [number, number]>, groundPx: number): string {
  const [first] = stretch
  const last = stretch.at(-1)
  if (first === undefined || last === undefined || stretch.length === 1) return ''
  return `${linePath(stretch)}L${last[0]} ${groundPx}L${first[0]} ${groundPx}Z`
}

/** How dark a day of a calendar is: 0 for nothing, 1 to 4 by its share of the fullest day. */
export function levelOf(count: number, most: number): 0 | 1 | 2 | 3 | 4 {
  if (count === 0) return 0
  return Math.min(4, Math.max(1, Math.ceil((count / most) * 4))) as 1 | 2 | 3 | 4
}

const dayMs = 86_400_000

/** The dates (UTC) of `count` days up to `today`, oldest first. */
export function datesUpTo(today: string, count: number): string[] {
  const endMs = Date.parse(today)
  return Array.from({ length: count }, (_, index) => new Date(endMs - (count - 1 - index) * dayMs).toISOString().slice(0, 10))
}

/** The weekday of a date (UTC): 0 is Monday. */
export function weekdayOf(date: string): number {
  return (new Date(date).getUTCDay() + 6) % 7
}
