import { css, SvcElement } from '../element.js'
import { html, type Template } from '../../dom/html.js'
import type { HealthDetail } from '../../../lib/model/health.js'
import type { ResourceSnapshot } from '../../../lib/model/machine.js'
import { countWords, t } from '../../words/t.js'
import { exactWords, percentWords, spanWords } from '../base/words.js'
import { formatBytes } from '../../shared/api.js'

/** A part of a meter. `kind` determines its colour. */
export interface MeterPart {
  value: number
  kind: 'used' | 'warning' | 'failure' | 'first' | 'second' | 'third' | 'fourth'
}

/**
 * A bar that shows parts of a whole. Attribute: `label`, the text for screen readers, with the figures. Properties:
 * `parts`, `whole`.
 */
export class SvcMeter extends SvcElement {
  static readonly observedAttributes = ['label']

  static override sheet = css`
    svc-meter {
      display: block;
      height: 8px;
      min-width: 0;
      overflow: hidden;
      border-radius: 4px;
      background: var(--hover);

      svg { display: block; width: 100%; height: 100%; }
      [data-kind='used'], [data-kind='first'] { fill: var(--accent); }
      [data-kind='warning'] { fill: var(--warning); }
      [data-kind='failure'] { fill: var(--failure); }
      [data-kind='second'] { fill: var(--success); }
      [data-kind='third'] { fill: var(--warning); }
      [data-kind='fourth'] { fill: var(--edge); }
    }
  `

  parts: readonly MeterPart[] = []
  whole = 0

  protected override view(): Template {
    let from = 0
    const shares = this.parts.map(({ value, kind }) => {
      const share = this.whole <= 0 ? 0 : Math.min(100 - from, (value / this.whole) * 100)
      from += share
      return { kind, from: from - share, share }
    })
    return html`
      <svg role="img" aria-label="${this.getAttribute('label')}" viewBox="0 0 100 8" preserveAspectRatio="none">
        ${shares.map(
          ({ kind, from, share }) => html`
          <rect data-kind="${kind}" x="${from.toFixed(2)}" y="0" width="${share.toFixed(2)}" height="8"/>`
        )}
      </svg>`
  }
}

/** From this percentage on, the health of the server reports a full disk (§4.8). */
export const fullPercent = 95
/** From this percentage on, the page warns about the disk. */
export const nearlyFullPercent = 85

interface Meter {
  words: string
  what: string
  percent: number
}

/** Returns the resources of the machine and their use, its description, and that of svc. */
export function machineFacts(reading: ResourceSnapshot, health: HealthDetail | undefined): Template {
  return html`
    <section class="section">
      <h2>${t('Now')}</h2>
      <div class="card meters">${metersOf(reading).map(meter)}</div>
    </section>
    <div class="facts">
      <section class="section"><h2>${t('Host')}</h2><dl class="card">${hostFacts(reading).map(fact)}</dl></section>
      <section class="section"><h2>${t('Process')}</h2><dl class="card">${processFacts(reading, health).map(fact)}</dl></section>
    </div>`
}

function metersOf({ memory, disk, container }: ResourceSnapshot): Meter[] {
  const meters: Meter[] = [
    { words: t('Memory'), what: usedWords(memory.usedBytes, memory.totalBytes), percent: memory.percentUsed }
  ]
  if (disk.totalBytes !== null && disk.freeBytes !== null && disk.percentUsed !== null) {
    // Space that is reserved for root is neither used nor free, so the two do not add up to the total.
    const what = t('{free} free of {total}', { free: formatBytes(disk.freeBytes), total: formatBytes(disk.totalBytes) })
    meters.push({ words: t('Disk of the data directory'), what, percent: disk.percentUsed })
  }
  if (container !== null && container.memoryLimitBytes !== null) {
    const { memoryLimitBytes: totalBytes, memoryUsedBytes } = container
    const usedBytes = memoryUsedBytes ?? 0
    meters.push({
      words: t('Container memory'),
      what: usedWords(usedBytes, totalBytes),
      percent: (usedBytes / totalBytes) * 100
    })
  }
  return meters
}

function usedWords(usedBytes: number, totalBytes: number): string {
  return t('{used} of {total}', { used: formatBytes(usedBytes), total: formatBytes(totalBytes) })
}

function meter({ words, what, percent }: Meter): Template {
  const kind: MeterPart['kind'] = percent >= fullPercent ? 'failure' : percent >= nearlyFullPercent ? 'warning' : 'used'
  return html`
    <div>
      <p class="number"><span>${words}</span><b>${percentWords(percent)}</b></p>
      <svc-meter label="${`${words}: ${percentWords(percent)}`}" .parts="${[{ value: percent, kind }]}" .whole="${100}"></svc-meter>
      <p class="number muted small">${what}</p>
    </div>`
}

type Fact = readonly [name: string, value: unknown]

/** A value that is the same in every language. */
const own = (value: string): Template => html`<span translate="no">${value}</span>`

function hostFacts({ host, container }: ResourceSnapshot): Fact[] {
  const facts: Fact[] = [
    [t('Name'), own(host.hostname)],
    [t('System'), own(`${host.platform} ${host.arch}`)],
    [t('Processor'), [host.cpuModel === '' ? null : html`${own(host.cpuModel)}, `, countWords(host.cpuCount, 'core')]],
    [t('Load'), host.loadAvg.map(load => load.toFixed(2)).join('   ')],
    [t('Uptime'), spanWords(host.uptimeSec * 1000)]
  ]
  if (container !== null) {
    const limits = [
      container.cpuLimit === null ? null : countWords(container.cpuLimit, 'core'),
      container.memoryLimitBytes === null ? null : formatBytes(container.memoryLimitBytes)
    ]
    facts.push([t('Container limits'), limits.filter(Boolean).join(', ')])
  }
  return facts
}

function processFacts({ process }: ResourceSnapshot, health: HealthDetail | undefined): Fact[] {
  return [
    [t('svc version'), health?.version ?? '–'],
    [t('Runtime'), own(`${process.runtime} ${process.runtimeVersion}`)],
    [t('Process'), String(process.pid)],
    [t('Uptime'), spanWords(process.uptimeSec * 1000)],
    [
      t('Memory'),
      t('{size}, {heap} of it heap in use', {
        size: formatBytes(process.memoryRssBytes),
        heap: formatBytes(process.memoryHeapUsedBytes)
      })
    ],
    [t('Server time'), health === undefined ? '–' : exactWords(health.serverTime)]
  ]
}

function fact([name, value]: Fact): Template {
  return html`<div><dt>${name}</dt><dd class="number anywhere">${value}</dd></div>`
}
