import { css, SvcElement } from '../element.js'
import { html, type Template } from '../../dom/html.js'

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

/** The content of one chart. Screen readers read `summary` instead of the picture. */
export type Chart = { summary: string } & (Lines | Bars | Calendar)

interface ValueAxis {
  /** The end of the value axis, which begins at 0. */
  most: number
  words: (value: number) => string
}

/** A value over time. */
interface Lines extends ValueAxis {
  kind: 'lines'
  fromMs: number
  toMs: number
  /** The labels at the ends of the time axis. */
  ends: readonly [from: string, to: string]
  points: readonly Point[]
  gapMs: number
}

/** Counts, one column each. Failures are drawn on top of successes. */
interface Bars extends ValueAxis {
  kind: 'bars'
  columns: ReadonlyArray<{ words: string; success: number; failed: number; title: string }>
}

/** Days in columns of one week. A cross marks a day with a failure. */
interface Calendar {
  kind: 'calendar'
  days: ReadonlyArray<{ date: string; count: number; failed: number; title: string }>
  /** The labels of the first, the third and the fifth day of a week. */
  weekdays: readonly [string, string, string]
  months: (date: string) => string
}

const topPx = 8
const bottomPx = 20
/** Approximate width of a character of an axis. The longest label determines the margin. */
const characterPx = 6.6
const labelGapPx = 64

/**
 * A chart whose axes can be read without pointing at it. Property: `chart`. The element determines its height. Titles
 * show exact values; screen readers read `summary`.
 */
export class SvcChart extends SvcElement {
  static override sheet = css`
    svc-chart {
      display: block;
      height: 96px;
      min-width: 0;

      svg { display: block; width: 100%; height: 100%; overflow: visible; }
      text { fill: var(--muted); font: var(--size-12) / 1 var(--sans); font-variant-numeric: tabular-nums; }
      .grid { stroke: var(--line); }
      .line { fill: none; stroke: var(--accent); stroke-width: 1.5; stroke-linejoin: round; stroke-linecap: round; }
      .area { fill: var(--accent-quiet); }
      .success { fill: var(--success); }
      .failed { fill: var(--failure); }
      .hit { fill: transparent; }
      .hit:hover { fill: color-mix(in srgb, var(--text), transparent 94%); }
      .day { fill: var(--hover); }
      .day[data-level='1'] { fill: color-mix(in srgb, var(--success), var(--raised) 70%); }
      .day[data-level='2'] { fill: color-mix(in srgb, var(--success), var(--raised) 48%); }
      .day[data-level='3'] { fill: color-mix(in srgb, var(--success), var(--raised) 24%); }
      .day[data-level='4'] { fill: var(--success); }
      .cross { fill: none; stroke: var(--failure); stroke-width: 2; stroke-linecap: round; }
      .cross.under { stroke: var(--raised); stroke-width: 5; }
    }
  `

  chart: Chart | null = null
  #widthPx = 0
  #heightPx = 0

  protected override connected(): void {
    const observer = new ResizeObserver(([entry]) => {
      this.#widthPx = Math.round(entry?.contentRect.width ?? 0)
      this.#heightPx = Math.round(entry?.contentRect.height ?? 0)
      this.update()
    })
    observer.observe(this)
    this.signal.addEventListener('abort', () => observer.disconnect(), { once: true })
  }

  protected override view(): Template {
    const chart = this.chart
    if (chart === null || this.#widthPx === 0) return html``
    return html`
      <svg role="img" aria-label="${chart.summary}" viewBox="0 0 ${this.#widthPx} ${this.#heightPx}">
        ${chart.kind === 'calendar' ? this.#calendar(chart) : this.#withAxis(chart)}
      </svg>`
  }

  #withAxis(chart: Lines | Bars): Template {
    const words = [0, chart.most / 2, chart.most].map(value => ({ value, words: chart.words(value) }))
    const leftPx = Math.ceil(Math.max(...words.map(({ words }) => words.length)) * characterPx) + 8
    const groundPx = this.#heightPx - bottomPx
    const y: Scale = { from: 0, to: chart.most, fromPx: groundPx, toPx: topPx }
    const box: Box = { leftPx, rightPx: this.#widthPx, groundPx, y }
    return html`
      <g aria-hidden="true">
        ${words.map(
          ({ value, words }) => html`
          <path class="grid" d="M${leftPx} ${Math.round(placeOf(value, y)) + 0.5}H${this.#widthPx}"/>
          <text x="${leftPx - 8}" y="${placeOf(value, y) + 4}" text-anchor="end">${words}</text>`
        )}
        ${chart.kind === 'lines' ? lines(chart, box) : bars(chart, box)}
      </g>`
  }

  #calendar({ days, weekdays, months }: Calendar): Template {
    const leftPx = 34
    const before = weekdayOf(days[0]?.date ?? '1970-01-05')
    const weeks = Math.ceil((before + days.length) / 7)
    const stepPx = Math.min((this.#widthPx - leftPx) / weeks, (this.#heightPx - bottomPx) / 7)
    const sizePx = Math.max(2, stepPx - 3)
    const most = Math.max(1, ...days.map(({ count }) => count))
    const cells = days.map((day, index) => {
      const x = Math.round((leftPx + Math.floor((index + before) / 7) * stepPx) * 10) / 10
      return { ...day, x, y: Math.round((bottomPx + ((index + before) % 7) * stepPx) * 10) / 10 }
    })
    const firsts = cells.filter(
      ({ date }, index) => date.endsWith('-01') || (index === 0 && Number(date.slice(8)) < 15)
    )
    return html`
      <g aria-hidden="true">
        ${weekdays.map(
          (words, index) => html`
          <text x="0" y="${bottomPx + index * 2 * stepPx + sizePx / 2 + 4}">${words}</text>`
        )}
        ${firsts.filter(({ x }) => x < this.#widthPx - 20).map(({ x, date }) => html`<text x="${x}" y="10">${months(date)}</text>`)}
        ${cells.map(
          ({ x, y, count, failed, title }) => html`
          <g>
            <title>${title}</title>
            <rect class="day" data-level="${levelOf(count, most)}" x="${x}" y="${y}" width="${sizePx}" height="${sizePx}" rx="2"/>
            ${failed === 0 ? null : crossIn(x, y, sizePx)}
          </g>`
        )}
      </g>`
  }
}

/** The area in which a chart with axes draws. */
interface Box {
  leftPx: number
  rightPx: number
  groundPx: number
  y: Scale
}

function lines({ points, gapMs, fromMs, toMs, ends }: Lines, { leftPx, rightPx, groundPx, y }: Box): Template {
  const x: Scale = { from: fromMs, to: toMs, fromPx: leftPx, toPx: rightPx - 1 }
  const stretches = stretchesOf(points, { x, y, gapMs })
  return html`
    <path class="area" d="${stretches.map(stretch => areaPath(stretch, groundPx)).join('')}"/>
    <path class="line" d="${stretches.map(linePath).join('')}"/>
    <text x="${leftPx}" y="${groundPx + 16}">${ends[0]}</text>
    <text x="${rightPx}" y="${groundPx + 16}" text-anchor="end">${ends[1]}</text>`
}

function bars({ columns }: Bars, { leftPx, rightPx, groundPx, y }: Box): Template {
  const stepPx = (rightPx - leftPx) / columns.length
  const widthPx = Math.max(1, Math.min(24, stepPx - 2))
  const every = Math.max(1, Math.ceil(labelGapPx / stepPx))
  return html`${columns.map(({ words, success, failed, title }, index) => {
    const left = Math.round((leftPx + index * stepPx + (stepPx - widthPx) / 2) * 10) / 10
    const whole = placeOf(success + failed, y)
    const part = placeOf(success, y)
    // Counted from the newest column, which always has its label.
    const isNamed = (columns.length - 1 - index) % every === 0
    return html`
      <g>
        <title>${title}</title>
        <rect class="hit" x="${left - 1}" y="${y.toPx}" width="${widthPx + 2}" height="${groundPx - y.toPx}"/>
        <rect class="success" x="${left}" y="${part}" width="${widthPx}" height="${groundPx - part}"/>
        <rect class="failed" x="${left}" y="${whole}" width="${widthPx}" height="${part - whole}"/>
        ${
          isNamed
            ? html`<text x="${index === columns.length - 1 ? rightPx : left + widthPx / 2}" y="${groundPx + 16}"
            text-anchor="${index === columns.length - 1 ? 'end' : 'middle'}">${words}</text>`
            : null
        }
      </g>`
  })}`
}

function crossIn(x: number, y: number, sizePx: number): Template {
  const near = Math.round(sizePx * 3) / 10
  const far = Math.round(sizePx * 7) / 10
  const path = `M${x + near} ${y + near}L${x + far} ${y + far}M${x + far} ${y + near}L${x + near} ${y + far}`
  return html`<path class="cross under" d="${path}"/><path class="cross" d="${path}"/>`
}
