import type { DayCounts, RecentDays } from '../../../lib/model/health.js'
import { css, SvcElement } from '../element.js'
import { html, type Template } from '../../dom/html.js'
import { countWords, numberWords, t } from '../../words/t.js'
import { type Chart, datesUpTo, latest, niceBytesEnd, niceCountEnd, niceEnd, SvcChart } from './svc-chart.js'
import { dayWords, monthWords, percentWords, weekdayWords } from '../base/words.js'
import type { ResourceSnapshot } from '../../../lib/model/machine.js'
import { formatBytes } from '../../shared/api.js'

const barDays = 30
const calendarDays = 182

/** The results of deployments: each of the last thirty days, and six months as a calendar. Property: `days`. */
export class SvcTrends extends SvcElement {
  static override sheet = css`
    svc-trends {
      display: grid;
      grid-template-columns: minmax(0, 1fr) minmax(0, 1fr);
      gap: 32px 20px;

      .card { padding: 16px 20px; }
      .key { display: flex; flex-wrap: wrap; gap: 4px 16px; color: var(--muted); font-size: var(--size-13); }
      .key span { display: inline-flex; align-items: center; gap: 6px; }
      .key i { width: 10px; height: 10px; border-radius: 2px; }
      .key .success i { background: var(--success); }
      .key .failed i { background: var(--failure); }
      svc-chart { height: 168px; margin-top: 12px; }

      @media (max-width: 979px) { grid-template-columns: minmax(0, 1fr); }
      @media (max-width: 719px) { .card { padding: 12px 16px; } }
    }
  `

  days: RecentDays | null = null

  protected override view(): Template {
    if (this.days === null) return html``
    const days = filled(this.days, calendarDays)
    const month = days.slice(-barDays)
    const [success, failed] = [sumOf(month, 'success'), sumOf(month, 'failed')]
    const all = sumOf(days, 'success') + sumOf(days, 'failed')
    const rate = success + failed === 0 ? '–' : percentWords((success / (success + failed)) * 100)
    return html`
      <section class="section">
        <div class="section-head">
          <h2>${t('Last 30 days')}</h2>
          <b class="number">${t('{rate} succeeded', { rate })}</b>
        </div>
        <div class="card">
          <p class="key number">
            <span class="success"><i></i>${t('{count} succeeded', { count: numberWords(success) })}</span>
            <span class="failed"><i></i>${t('{count} failed', { count: numberWords(failed) })}</span>
          </p>
          <svc-chart .chart="${barsOf(month, { success, failed })}"></svc-chart>
        </div>
      </section>
      <section class="section">
        <div class="section-head">
          <h2>${t('Last six months')}</h2>
          <b class="number">${countWords(all, 'deployment')}</b>
        </div>
        <div class="card">
          <p class="key"><span>${t('A darker day has more deployments; × marks a day with a failure.')}</span></p>
          <svc-chart .chart="${calendarOf(days, all)}"></svc-chart>
        </div>
      </section>`
  }
}

/** Returns every day, including days on which no deployment ended. */
function filled({ today, items }: RecentDays, count: number): DayCounts[] {
  const known = new Map(items.map(item => [item.date, item]))
  return datesUpTo(today, count).map(date => known.get(date) ?? { date, success: 0, failed: 0 })
}

function sumOf(days: readonly DayCounts[], what: 'success' | 'failed'): number {
  return days.reduce((sum, day) => sum + day[what], 0)
}

function titleOf({ date, success, failed }: DayCounts): string {
  if (success + failed === 0) return t('{day}: no deployments', { day: dayWords(date) })
  return t('{day}: {success} succeeded, {failed} failed', {
    day: dayWords(date),
    success: numberWords(success),
    failed: numberWords(failed)
  })
}

function barsOf(days: readonly DayCounts[], sums: { success: number; failed: number }): Chart {
  return {
    kind: 'bars',
    summary: t('Deployments of the last 30 days: {success} succeeded, {failed} failed', {
      success: numberWords(sums.success),
      failed: numberWords(sums.failed)
    }),
    most: niceCountEnd(Math.max(...days.map(({ success, failed }) => success + failed))),
    words: numberWords,
    columns: days.map(day => ({
      words: dayWords(day.date),
      success: day.success,
      failed: day.failed,
      title: titleOf(day)
    }))
  }
}

function calendarOf(days: readonly DayCounts[], all: number): Chart {
  const busiest = days.reduce((most, day) => (day.success + day.failed > most.success + most.failed ? day : most))
  return {
    kind: 'calendar',
    summary: t('Deployments of the last six months: {count}; the busiest day was {day}', {
      count: numberWords(all),
      day: titleOf(busiest)
    }),
    // January 1, 2024 was a Monday.
    weekdays: [weekdayWords('2024-01-01'), weekdayWords('2024-01-03'), weekdayWords('2024-01-05')],
    months: monthWords,
    days: days.map(day => ({
      date: day.date,
      count: day.success + day.failed,
      failed: day.failed,
      title: titleOf(day)
    }))
  }
}

/** Time span of the charts; older readings are dropped. */
const spanMs = 600_000
/** Readings arrive every five seconds. After three missing ones, the line is interrupted. */
const gapMs = 20_000

/** Adds a reading, and removes those that are older than the charts show. */
export function addReading(readings: ResourceSnapshot[], reading: ResourceSnapshot): void {
  const timed = [...readings, reading].map(each => ({ atMs: Date.parse(each.collectedAt), each }))
  readings.splice(0, Infinity, ...latest(timed, spanMs).map(({ each }) => each))
}

interface Series {
  /** English; passed to t(). */
  words: string
  note: (reading: ResourceSnapshot) => string
  value: (reading: ResourceSnapshot) => number
  say: (value: number) => string
  most: (reading: ResourceSnapshot, highest: number) => number
}

const allSeries: readonly Series[] = [
  {
    words: 'Processor',
    value: ({ cpu }) => cpu.percent,
    say: percentWords,
    most: () => 100,
    note: ({ host }) =>
      t(host.cpuCount === 1 ? 'load {load} on 1 core' : 'load {load} on {count} cores', {
        load: (host.loadAvg[0] ?? 0).toFixed(2),
        count: host.cpuCount
      })
  },
  {
    words: 'Memory',
    value: ({ memory }) => memory.usedBytes,
    say: formatBytes,
    most: ({ memory }) => memory.totalBytes,
    note: ({ memory }) =>
      t('{size} available of {total}', {
        size: formatBytes(memory.availableBytes),
        total: formatBytes(memory.totalBytes)
      })
  },
  {
    words: "svc's processor time",
    value: ({ process }) => process.cpuPercent,
    say: percentWords,
    most: (_, highest) => niceEnd(Math.max(10, highest)),
    note: () => t('100 % is one core')
  },
  {
    words: "svc's memory",
    value: ({ process }) => process.memoryRssBytes,
    say: formatBytes,
    most: (_, highest) => niceBytesEnd(highest),
    note: ({ process }) => t('{size} of it heap in use', { size: formatBytes(process.memoryHeapUsedBytes) })
  }
]

/** What the machine and the server use, now and in the last ten minutes. Property: `readings`, oldest first. */
export class SvcMachine extends SvcElement {
  static override sheet = css`
    svc-machine {
      display: grid;
      grid-template-columns: repeat(4, minmax(0, 1fr));

      > div { display: grid; grid-template-columns: minmax(0, 1fr); align-content: start; gap: 2px; padding: 16px 20px; }
      > div + div { border-left: 1px solid var(--line); }
      h3 { color: var(--muted); font-size: var(--size-13); font-weight: 400; }
      .value { font-size: var(--size-20); font-weight: 600; letter-spacing: -0.01em; }
      .value.none { color: var(--muted); }
      .note { color: var(--muted); font-size: var(--size-13); min-height: 1.5em; }
      svc-chart { margin-top: 10px; }

      @media (max-width: 979px) {
        grid-template-columns: repeat(2, minmax(0, 1fr));
        > div:nth-child(odd) { border-left: 0; }
        > div:nth-child(n + 3) { border-top: 1px solid var(--line); }
      }
      @media (max-width: 719px) {
        > div { padding: 12px 16px; }
      }
    }
  `

  readings: readonly ResourceSnapshot[] = []

  protected override view(): Template {
    return html`${allSeries.map(series => this.#series(series))}`
  }

  #series(series: Series): Template {
    const newest = this.readings.at(-1)
    return html`
      <div>
        <h3>${t(series.words)}</h3>
        <p class="${newest === undefined ? 'value number none' : 'value number'}">
          ${newest === undefined ? '–' : series.say(series.value(newest))}
        </p>
        <p class="note number cut" title="${newest && series.note(newest)}">${newest && series.note(newest)}</p>
        <svc-chart .chart="${newest === undefined ? null : chartOf(series, this.readings, newest)}"></svc-chart>
      </div>`
  }
}

function chartOf(series: Series, readings: readonly ResourceSnapshot[], newest: ResourceSnapshot): Chart {
  const points = readings.map(reading => ({ atMs: Date.parse(reading.collectedAt), value: series.value(reading) }))
  const values = points.map(({ value }) => value)
  const [lowest, highest] = [Math.min(...values), Math.max(...values)]
  const toMs = Date.parse(newest.collectedAt)
  return {
    kind: 'lines',
    summary: t('{what}: {now} now, between {lowest} and {highest} in the last ten minutes', {
      what: t(series.words),
      now: series.say(series.value(newest)),
      lowest: series.say(lowest),
      highest: series.say(highest)
    }),
    fromMs: toMs - spanMs,
    toMs,
    ends: [t('{count} min ago', { count: spanMs / 60_000 }), t('now')],
    most: series.most(newest, highest),
    words: series.say,
    points,
    gapMs
  }
}

/** The elements that a page registers for the machine's charts and its trends. */
export const elements = { 'svc-machine': SvcMachine, 'svc-trends': SvcTrends, 'svc-chart': SvcChart }
