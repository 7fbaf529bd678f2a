import type { MachineHistory, MachineMinute } from '../../../lib/model/machine.js'
import { css, SvcElement } from '../element.js'
import { html, type Template } from '../../dom/html.js'
import { numberWords, t } from '../../words/t.js'
import { type Chart, niceCountEnd, niceEnd, SvcChart } from './svc-chart.js'
import { percentWords, timeWords } from '../base/words.js'
import { formatBytes } from '../../shared/api.js'

const hourMs = 3_600_000
const hours = 24

interface Series {
  /** English; passed to t(). */
  words: string
  value: (minute: MachineMinute) => number | null
  say: (value: number) => string
  most: (highest: number, newest: MachineMinute) => number
}

const loadWords = (value: number): string => value.toFixed(value < 10 ? 1 : 0)

const allSeries: readonly Series[] = [
  { words: 'Processor', value: ({ cpuPercent }) => cpuPercent, say: percentWords, most: () => 100 },
  {
    words: 'Memory',
    value: ({ memoryUsedBytes }) => memoryUsedBytes,
    say: formatBytes,
    most: (_, { memoryTotalBytes }) => memoryTotalBytes
  },
  { words: 'Disk', value: ({ diskUsedPercent }) => diskUsedPercent, say: percentWords, most: () => 100 },
  { words: 'Load', value: ({ load }) => load, say: loadWords, most: highest => niceEnd(Math.max(1, highest)) }
]

/** The last day of the machine and its deployments as small charts. Property: `history`. */
export class SvcHistory extends SvcElement {
  static override sheet = css`
    svc-history {
      display: grid;
      grid-template-columns: repeat(4, minmax(0, 1fr));

      > div { display: grid; grid-template-columns: minmax(0, 1fr); align-content: start; gap: 2px; padding: 16px 20px; }
      > div:nth-child(-n + 4) + div:not(.wide) { border-left: 1px solid var(--line); }
      > .wide { grid-column: 1 / -1; border-top: 1px solid var(--line); }
      h3 { color: var(--muted); font-size: var(--size-13); font-weight: 400; }
      svc-chart { margin-top: 8px; }

      @media (max-width: 979px) {
        grid-template-columns: repeat(2, minmax(0, 1fr));
        > div:nth-child(odd) { border-left: 0 !important; }
        > div:nth-child(n + 3) { border-top: 1px solid var(--line); }
      }
      @media (max-width: 719px) {
        > div { padding: 12px 16px; }
      }
    }
  `

  history: MachineHistory | null = null

  protected override view(): Template {
    const history = this.history
    if (history === null) return html``
    return html`
      ${allSeries.map(series => html`<div><h3>${t(series.words)}</h3><svc-chart .chart="${lineOf(series, history)}"></svc-chart></div>`)}
      <div class="wide"><h3>${t('Deployments per hour')}</h3><svc-chart .chart="${barsOf(history)}"></svc-chart></div>`
  }
}

function lineOf(series: Series, { items, to, stepMinutes }: MachineHistory): Chart | null {
  const points = items.flatMap(minute => {
    const value = series.value(minute)
    return value === null ? [] : [{ atMs: Date.parse(minute.at), value }]
  })
  const newest = items.at(-1)
  if (newest === undefined || points.length === 0) return null
  const values = points.map(({ value }) => value)
  const [lowest, highest] = [Math.min(...values), Math.max(...values)]
  const toMs = Date.parse(to)
  return {
    kind: 'lines',
    summary: t('{what}: between {lowest} and {highest} in the last 24 hours', {
      what: t(series.words),
      lowest: series.say(lowest),
      highest: series.say(highest)
    }),
    fromMs: toMs - hours * hourMs,
    toMs,
    ends: [t('{count} h ago', { count: hours }), t('now')],
    most: series.most(highest, newest),
    words: series.say,
    points,
    // A missing step is a gap.
    gapMs: stepMinutes * 60_000 * 1.5
  }
}

function barsOf({ items, to }: MachineHistory): Chart {
  const lastHour = Math.floor(Date.parse(to) / hourMs)
  const columns = Array.from({ length: hours }, (_, index) => ({
    hour: lastHour - (hours - 1 - index),
    success: 0,
    failed: 0
  }))
  for (const { at, succeeded, failed } of items) {
    const column = columns[Math.floor(Date.parse(at) / hourMs) - lastHour + hours - 1]
    if (column === undefined) continue
    column.success += succeeded
    column.failed += failed
  }
  const [success, failed] = [sumOf(columns, 'success'), sumOf(columns, 'failed')]
  return {
    kind: 'bars',
    summary: t('Deployments of the last 24 hours: {success} succeeded, {failed} failed', {
      success: numberWords(success),
      failed: numberWords(failed)
    }),
    most: niceCountEnd(Math.max(...columns.map(column => column.success + column.failed))),
    words: numberWords,
    columns: columns.map(({ hour, success, failed }) => {
      const words = timeWords(new Date(hour * hourMs).toISOString())
      const title = t('{day}: {success} succeeded, {failed} failed', {
        day: words,
        success: numberWords(success),
        failed: numberWords(failed)
      })
      return { words, success, failed, title }
    })
  }
}

function sumOf(columns: ReadonlyArray<{ success: number; failed: number }>, what: 'success' | 'failed'): number {
  return columns.reduce((sum, column) => sum + column[what], 0)
}

/** The elements that a page registers for the history. */
export const elements = { 'svc-history': SvcHistory, 'svc-chart': SvcChart }
