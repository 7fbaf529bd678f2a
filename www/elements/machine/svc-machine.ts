import type { ResourceSnapshot } from '../../../lib/model/machine.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { latest, niceBytesEnd, niceEnd } from './chart-scale.js'
import { SvcChart, type Chart } from './svc-chart.js'
import { percentWords } from '../base/words.js'
import { formatBytes } from '../../shared/size.js'

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

/** The elements that a page registers for the machine's charts. */
export const elements = { 'svc-machine': SvcMachine, 'svc-chart': SvcChart }
