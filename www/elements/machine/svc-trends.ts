import type { DayCounts, RecentDays } from '../../../lib/model/health.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import { countWords, numberWords, t } from '../../words/t.js'
import { datesUpTo, niceCountEnd } from './chart-scale.js'
import { SvcChart, type Chart } from './svc-chart.js'
import { dayWords, monthWords, percentWords, weekdayWords } from '../base/words.js'

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

/** The elements that a page registers for the trends. */
export const elements = { 'svc-trends': SvcTrends, 'svc-chart': SvcChart }
