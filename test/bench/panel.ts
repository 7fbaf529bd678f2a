/**
 * The panel in a real browser, without a screen: what frames cost while 10,000 deployments and a log are scrolled through,
 * what a visit costs the browser, and what is held after a million lines of a log that is followed. No rival: the figures are
 * held against the 16.7 ms of a frame at 60 a second. The browser's own time is told beside that of the clock, since
 * another program's work makes only the latter longer.
 */
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, CDPSession, Page } from 'playwright-core'
import { openStore } from '../../lib/core/store/durable-store.js'
import { findChromium, launchChromium } from '../browser/chromium.js'
import { openSignedIn } from '../browser/stage.js'
import { machine, median, sized } from '../support/bench.js'
import { insertDeployments } from '../support/many-deployments.js'
import { startServer, type Stage } from '../support/server.js'

const deploymentCount = sized(10_000, 60)
const visits = sized(7, 1)
/** Scrolls like a wheel, a finger and a dragged scrollbar. */
const speeds = [
  { name: 'wheel', px: 50 },
  { name: 'flick', px: 400 },
  { name: 'bar', px: 4000 }
]
const frames = sized(240, 20)
/** An hour of a busy log, with some hundred lines per second. */
const followedLines = sized(1_000_000, 2000)
const linesAtOnce = sized(10_000, 1000)

const executable = findChromium()
const works: Array<() => unknown> = []
const directory = mkdtempSync(join(tmpdir(), 'svc-bench-panel-'))

async function measure(executable: string): Promise<void> {
  const stage = await startServer({ testdir: () => directory, teardown: work => void works.push(work) })
  const project = await stage.createProject('storefront')
  await stage.server.stop({ wait: true })
  const store = await openStore(stage.home)
  await insertDeployments(store, { count: deploymentCount, projectId: project.id, projectName: project.name })
  await store.close()
  await stage.restart()
  const browser = await launchChromium(executable)
  works.push(() => browser.close())
  console.log(`\npanel in ${browser.version()}, ${machine()}`)
  await measureVisits(browser, stage)
  await measureScrolling(browser, stage)
  await measureFollowing(browser, stage, project.id)
}

/** Returns heap and nodes after a garbage collection, before and after. */
async function measureFollowing(browser: Browser, stage: Stage, projectId: string): Promise<void> {
  const filePath = join(stage.sites, 'app.log')
  writeFileSync(filePath, 'begin\n')
  const { body } = await stage.client.post(`/api/projects/${projectId}/log-sources`, { items: [{ filePath }] })
  const { page, context } = await openSignedIn(browser, stage.url, `projects/${projectId}/logs/${body.items[0].id}`)
  await page.locator('svc-log .line').first().waitFor()
  const wire = await context.newCDPSession(page)
  await wire.send('HeapProfiler.enable')
  const held = async (): Promise<string> => {
    await wire.send('HeapProfiler.collectGarbage')
    const { usedSize } = await wire.send('Runtime.getHeapUsage')
    const { nodes, jsEventListeners } = await wire.send('Memory.getDOMCounters')
    return `${(usedSize / 1e6).toFixed(1)} MB, ${nodes} nodes, ${jsEventListeners} listeners`
  }
  const before = await held()
  const halves: string[] = []
  for (let line = 0; line < followedLines; ) {
    const upTo = line + linesAtOnce
    let text = ''
    for (; line < upTo; line++)
      text += `2026-01-01T00:00:00.000Z line ${line} GET /items/${line % 977} 200 ${line % 89} ms\n`
    appendFileSync(filePath, text)
    await page
      .locator('svc-log')
      .getByText(`line ${line - 1} GET`)
      .waitFor()
    if (line === followedLines / 2) halves.push(await held())
  }
  console.log(
    `  ${followedLines} lines of a log followed: ${before} before; ${halves.join()} half-way; ${await held()} at the end`
  )
  await page.evaluate(`globalThis.scrolled = document.querySelector('svc-log .scroll')`)
  await measureSpeeds(page, await metricsOf(page), 'followed log, ')
  await context.close()
}

/** Measures the time from an empty cache to the first page with its data. */
async function measureVisits(browser: Browser, stage: Stage): Promise<void> {
  const taken: Cost[] = []
  for (let visit = 0; visit < visits; visit++) {
    const { page, context } = await openSignedIn(browser, stage.url, '')
    const metrics = await metricsOf(page)
    await page.locator('svc-deployments li').first().waitFor()
    const paint = await page.evaluate(`performance.getEntriesByName('first-contentful-paint')[0].startTime`)
    taken.push({ ...(await metrics.read()), clock: Number(paint) })
    await context.close()
  }
  print('the overview, from an empty cache', taken)
}

async function measureScrolling(browser: Browser, stage: Stage): Promise<void> {
  const { page, context } = await openSignedIn(browser, stage.url, 'deployments')
  await page.locator('svc-deployments li').first().waitFor()
  const metrics = await metricsOf(page)
  await loadAll(page)
  const loading = await metrics.read()
  console.log(`  ${deploymentCount} deployments loaded page by page: ${ms(loading.task)} of the browser's time`)
  await page.evaluate(`globalThis.scrolled = document.scrollingElement`)
  await measureSpeeds(page, metrics, '')
  await context.close()
}

/** Scrolls the element `scrolled` of the page. */
async function measureSpeeds(page: Page, metrics: Awaited<ReturnType<typeof metricsOf>>, what: string): Promise<void> {
  for (const { name, px } of speeds) {
    await page.evaluate('scrolled.scrollTop = 0')
    const before = await metrics.read()
    const { times, longTasks } = await scroll(page, px)
    const after = await metrics.read()
    const perFrame = (key: keyof Cost): string => ms((after[key] - before[key]) / times.length)
    const sorted = times.sort((a, b) => a - b)
    const at = (share: number): string => ms(sorted[Math.floor(sorted.length * share)] as number)
    console.log(
      `  ${what}${name} (${px} px a frame): a frame takes ${perFrame('task')} (script ${perFrame('script')}, style ` +
        `${perFrame('style')}, layout ${perFrame('layout')}); by the clock half within ${at(0.5)}, 95 % within ${at(0.95)}, ` +
        `99 % within ${at(0.99)}; ${longTasks.length} tasks over 50 ms${longTasks.length === 0 ? '' : `, the longest ${Math.max(...longTasks)} ms`}`
    )
  }
}

/** Polls from here, because the content security policy of the page allows no long evaluation. */
async function loadAll(page: Page): Promise<void> {
  const loaded = `Number(document.querySelector('svc-deployments li').getAttribute('aria-setsize'))`
  while (Number(await page.evaluate(loaded)) < deploymentCount) {
    await page.evaluate('scrollTo(0, 1e9)')
    await page.waitForTimeout(10)
  }
}

/** Scrolls down and up again, so that it never reaches an end. */
async function scroll(page: Page, px: number): Promise<{ times: number[]; longTasks: number[] }> {
  await page.evaluate(`(() => {
    const taken = globalThis.taken = { times: [], longTasks: [], isDone: false }
    const observer = new PerformanceObserver(list => taken.longTasks.push(...list.getEntries().map(each => Math.round(each.duration))))
    observer.observe({ type: 'longtask' })
    let last = performance.now()
    const frame = now => {
      taken.times.push(now - last)
      last = now
      const isDown = Math.floor(taken.times.length / 60) % 2 === 0
      scrolled.scrollTop += isDown ? ${px} : -${px}
      if (taken.times.length < ${frames}) return requestAnimationFrame(frame)
      observer.disconnect()
      taken.isDone = true
    }
    requestAnimationFrame(frame)
  })()`)
  while ((await page.evaluate('taken.isDone')) !== true) await page.waitForTimeout(50)
  return (await page.evaluate('taken')) as { times: number[]; longTasks: number[] }
}

/** Sleeps for this many milliseconds. */
interface Cost {
  clock: number
  task: number
  script: number
  style: number
  layout: number
}

async function metricsOf(page: Page): Promise<{ read(): Promise<Cost> }> {
  const wire: CDPSession = await page.context().newCDPSession(page)
  await wire.send('Performance.enable', { timeDomain: 'threadTicks' })
  return {
    async read() {
      const { metrics } = await wire.send('Performance.getMetrics')
      const of = (name: string): number => (metrics.find(each => each.name === name)?.value ?? NaN) * 1000
      return {
        clock: 0,
        task: of('TaskDuration'),
        script: of('ScriptDuration'),
        style: of('RecalcStyleDuration'),
        layout: of('LayoutDuration')
      }
    }
  }
}

const ms = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} ms`

function print(name: string, taken: readonly Cost[]): void {
  const of = (key: keyof Cost): string => ms(median(taken.map(each => each[key])))
  console.log(
    `  ${name}: first paint of its contents after ${of('clock')}; ${of('task')} of the browser's time ` +
      `(script ${of('script')}, style ${of('style')}, layout ${of('layout')})`
  )
}

if (executable === undefined) console.log('\npanel: left out, no chromium or google-chrome on the PATH')
else {
  try {
    await measure(executable)
  } finally {
    for (const work of works.reverse()) await work()
    rmSync(directory, { recursive: true, force: true })
  }
}
