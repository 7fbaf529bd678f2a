import type { HealthDetail } from '../../lib/model/health.js'
import type { ResourceSnapshot } from '../../lib/model/machine.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { countWords, t } from '../words/t.js'
import type { MeterPart } from './svc-meter.js'
import { exactWords, percentWords, sizeWords, spanWords } from './words.js'

/** From here on a disk is full for the server's own health (§4.8), and before that it is time to say so. */
export const fullPercent = 95
export const nearlyFullPercent = 85

interface Meter {
  words: string
  what: string
  percent: number
}

/** What the machine has and how much of it is used, what it is, and what svc is there. */
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
    // What root has reserved is neither used nor free, so the two do not add up to the whole.
    const what = t('{free} free of {total}', { free: sizeWords(disk.freeBytes), total: sizeWords(disk.totalBytes) })
    meters.push({ words: t('Disk of the data directory'), what, percent: disk.percentUsed })
  }
  if (container !== null && container.memoryLimitBytes !== null) {
    const { memoryLimitBytes: totalBytes, memoryUsedBytes } = container
    const usedBytes = memoryUsedBytes ?? 0
    meters.push({ words: t('Memory of the container'), what: usedWords(usedBytes, totalBytes), percent: (usedBytes / totalBytes) * 100 })
  }
  return meters
}

function usedWords(usedBytes: number, totalBytes: number): string {
  return t('{used} of {total}', { used: sizeWords(usedBytes), total: sizeWords(totalBytes) })
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

/** What the machine calls itself: the same in every language. */
const own = (value: string): Template => html`<span translate="no">${value}</span>`

function hostFacts({ host, container }: ResourceSnapshot): Fact[] {
  const facts: Fact[] = [
    [t('Name'), own(host.hostname)],
    [t('System'), own(`${host.platform} ${host.arch}`)],
    [t('Processor'), [host.cpuModel === '' ? null : html`${own(host.cpuModel)}, `, countWords(host.cpuCount, 'core')]],
    [t('Load'), host.loadAvg.map(load => load.toFixed(2)).join('   ')],
    [t('Up for'), spanWords(host.uptimeSec * 1000)]
  ]
  if (container !== null) {
    const limits = [
      container.cpuLimit === null ? null : countWords(container.cpuLimit, 'core'),
      container.memoryLimitBytes === null ? null : sizeWords(container.memoryLimitBytes)
    ]
    facts.push([t('Limits of the container'), limits.filter(Boolean).join(', ')])
  }
  return facts
}

function processFacts({ process }: ResourceSnapshot, health: HealthDetail | undefined): Fact[] {
  return [
    [t('Version of svc'), health?.version ?? '–'],
    [t('Runtime'), own(`${process.runtime} ${process.runtimeVersion}`)],
    [t('Process'), String(process.pid)],
    [t('Up for'), spanWords(process.uptimeSec * 1000)],
    [t('Memory'), t('{size}, {heap} of it objects', { size: sizeWords(process.memoryRssBytes), heap: sizeWords(process.memoryHeapUsedBytes) })],
    [t('Server time'), health === undefined ? '–' : exactWords(health.serverTime)]
  ]
}

function fact([name, value]: Fact): Template {
  return html`<div><dt>${name}</dt><dd class="number anywhere">${value}</dd></div>`
}
