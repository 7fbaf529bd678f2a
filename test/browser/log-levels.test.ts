import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startCutProxy } from '../support/cut-proxy.js'
import { startServer } from '../support/server.js'
import { startChromium } from './chromium.js'
import { desktop, onPhone, openDuring, photographer } from './stage.js'
import { survey } from './survey.js'

/* Levels, times and the search in all files of a project, in a real browser. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('log-levels')

const startMs = Date.parse('2026-11-20T00:00:00Z')
const at = (index: number): string => new Date(startMs + index * 1000).toISOString()
const levels = ['INFO', 'INFO', 'WARN', 'DEBUG', 'ERROR'] as const

async function stageOf(t: Test) {
  const stage = await startServer(t)
  const { id } = await stage.createProject('storefront')
  const lines = (name: string, count: number): string =>
    Array.from(
      { length: count },
      (_, index) =>
        `${at(index)} ${levels[index % 5]} ${name} request ${index}\n${index % 5 === 4 ? '    at handler.js:7\n' : ''}`
    ).join('')
  const json = Array.from(
    { length: 50 },
    (_, index) =>
      `${JSON.stringify({ level: [30, 40, 50][index % 3], time: startMs + index * 1000 + 500, msg: `worker job ${index}`, pid: 7, queue: 'mail' })}\n`
  )
  writeFileSync(join(stage.sites, 'app.log'), lines('app', 10_000))
  writeFileSync(join(stage.sites, 'worker.jsonl'), json.join(''))
  writeFileSync(join(stage.sites, 'plain.log'), 'a line without time and level\n'.repeat(10))
  const { body } = await stage.client.post(`/api/projects/${id}/log-sources`, {
    items: [['app.log'], ['worker.jsonl', 'json'], ['plain.log']].map(([name, kind = 'plain']) => ({
      filePath: join(stage.sites, name as string),
      kind
    }))
  })
  const [app, worker, plain] = (body.items as Array<{ id: string }>).map(item => item.id) as [string, string, string]
  return { stage, id, app, worker, plain }
}

t.test('lines are marked by their level, and chosen by it', { skip }, async t => {
  const { stage, id, app, plain } = await stageOf(t)
  const { page, watch } = await openDuring(t, browser, stage.url, `projects/${id}/logs/${app}`, { viewport: desktop })
  const line = (words: string) => page.locator('svc-log .line', { hasText: words })
  await line('app request 9999').waitFor()
  t.equal(await line('app request 9999').getAttribute('data-level'), 'error')
  t.equal(await line('app request 9997').getAttribute('data-level'), 'warn')
  t.equal(await line('app request 9996').getAttribute('data-level'), 'info')
  await photograph(page, 'file-desktop')
  t.same(await survey(page), [])
  await page.locator('svc-log .bar').getByLabel('Level').selectOption('error')
  await line('app request 9998').waitFor({ state: 'detached' })
  await line('app request 9999').waitFor()
  await line('handler.js').last().waitFor()
  t.same(
    [
      ...new Set(
        (await page.locator('svc-log .line .text').allTextContents()).map(
          text => / (ERROR|INFO|WARN|DEBUG|at) /.exec(text)?.[1]
        )
      )
    ].sort(),
    ['ERROR', 'at']
  )
  await photograph(page, 'filtered-desktop')
  t.same(await survey(page), [])
  await page.locator('svc-log .scroll').press('/')
  await page.getByLabel('Search the whole file').fill('request 4')
  await page.keyboard.press('Enter')
  // A slow machine: a frame has no time for all lines, so the hit is at the end of those that the view knows.
  await page.evaluate(`(() => {
    const [now, calls] = [performance.now.bind(performance), [0]]
    performance.now = () => now() + 10 * calls[0]++
  })()`)
  await page.locator('svc-log-search .hits button', { hasText: 'request 4999' }).first().click()
  await page.locator('svc-log .line.here', { hasText: 'request 4999' }).waitFor()
  await page.locator('svc-log .bar').getByLabel('Level').selectOption('')
  await line('app request 4998').waitFor()

  // By level and time only, with the keyboard.
  await page.getByLabel('Search the whole file').fill('')
  await page.locator('svc-log-search').getByLabel('Level').selectOption('warn')
  await page.getByText('Time range').press('Enter')
  const local = (index: number): Promise<string> =>
    page.evaluate(
      `(date => new Date(date - new Date(date).getTimezoneOffset() * 60000).toISOString().slice(0, 19))(${startMs + index * 1000})`
    )
  await page.getByLabel('From').fill(await local(100))
  await page.getByLabel('Until').fill(await local(110))
  await page.getByLabel('Search the whole file').press('Enter')
  await page.getByText('6 hits', { exact: true }).waitFor()
  t.match(page.url(), /level=warn&since=2026-11-20T00%3A01%3A40.000Z&until=2026-11-20T00%3A01%3A50.000Z/)
  t.match(await page.locator('svc-log-search .hits b').allTextContents(), [
    /handler/,
    /request 109/,
    /request 107/,
    /handler/,
    /request 104/,
    /request 102/
  ])
  await photograph(page, 'search-desktop')
  t.same(await survey(page), [])

  await page.goto(`${stage.url}/projects/${id}/logs/${plain}?q=line&since=2026-11-20T00:00:00.000Z`)
  await page.getByText('Cannot search this log by time: its lines have no timestamps').waitFor()
  await page.locator('svc-log .bar').getByLabel('Level').selectOption('error')
  await page.getByText('No loaded line has this level.').waitFor()
  t.same(await survey(page), [])
  t.same(watch.complaints, [])
})

t.test('one search in all files of a project, its hits named, and a way to each', { skip }, async t => {
  const { stage, id, app } = await stageOf(t)
  const { page, watch } = await openDuring(t, browser, stage.url, `projects/${id}/logs`, { viewport: desktop })
  const box = page.getByRole('searchbox', { name: 'Search these files' })
  await box.fill('(request|job) 4')
  await page.getByLabel('Regular expression').check()
  await page.keyboard.press('Enter')
  await page.getByText('The newest 200 hits; there are older hits.').waitFor()
  t.match(page.url(), /logs\?q=%28request%7Cjob%29\+4&regex=1$/)
  t.equal(await page.locator('svc-log-search .of').first().textContent(), 'app.log')
  await box.fill('job 4')
  await page.keyboard.press('Enter')
  await page.getByText('11 hits', { exact: true }).waitFor()
  t.equal(await page.locator('svc-log-search .of').first().textContent(), 'worker.jsonl')
  await photograph(page, 'project-desktop')
  t.same(await survey(page), [])
  await box.fill('app request 44')
  await page.keyboard.press('Enter')
  await page.locator('svc-log-search .hits button', { hasText: 'request 4400' }).first().waitFor()
  await page.locator('svc-log-search .hits button', { hasText: 'request 4400' }).last().click()
  await page.waitForURL(new RegExp(`/logs/${app}\\?at=\\d+&q=app`))
  await page.locator('svc-log .line', { hasText: 'app request 4400' }).waitFor()
  await page.goBack()
  await page.locator('svc-log-search .hits button', { hasText: 'request 4499' }).first().waitFor()
  t.same(watch.complaints, [])

  const small = await openDuring(t, browser, stage.url, `projects/${id}/logs?q=job`, {
    ...onPhone,
    colorScheme: 'dark',
    locale: 'zh-CN'
  })
  await small.page.locator('svc-log-search .hits button').first().waitFor()
  await photograph(small.page, 'project-phone')
  t.same(await survey(small.page), [])
  t.same(small.watch.complaints, [])
})

t.test('JSON lines are columns in merged logs, too, and levels choose there', { skip }, async t => {
  const { stage, app, worker } = await stageOf(t)
  writeFileSync(
    join(stage.sites, 'app.log'),
    Array.from({ length: 50 }, (_, index) => `${at(index)} ${levels[index % 5]} app request ${index}\n`).join('')
  )
  const { page, watch } = await openDuring(t, browser, stage.url, `logs?source=${app}&source=${worker}&merged=1`, {
    viewport: desktop
  })
  const line = (words: string) => page.locator('svc-log .line', { hasText: words })
  await line('worker job 49').waitFor()
  t.match(
    await line('worker job 49').locator('.text').textContent(),
    /^2026-11-20T00:00:49.500Z {2}WARN {3}worker job 49 {2}\{pid, queue\}$/
  )
  await line('worker job 49').click()
  await page.locator('svc-log .unfolded', { hasText: '"queue": "mail"' }).waitFor()
  await photograph(page, 'merged-desktop')
  t.same(await survey(page), [])
  await page.locator('svc-log .bar').getByLabel('Level').selectOption('error')
  await line('worker job 49').waitFor({ state: 'detached' })
  await line('worker job 47').waitFor()
  await line('app request 49').waitFor()
  t.equal(await line('app request 48').count(), 0)
  t.same(watch.complaints, [])
  const small = await openDuring(t, browser, stage.url, `logs?source=${app}&source=${worker}&merged=1`, {
    ...onPhone,
    colorScheme: 'dark'
  })
  await small.page.locator('svc-log .line', { hasText: 'worker job 49' }).waitFor()
  await photograph(small.page, 'merged-phone')
  t.same(await survey(small.page), [])
})

t.test('merged logs of which one stepped back in time show the lines of both', { skip }, async t => {
  const { stage, app, worker } = await stageOf(t)
  const lines = (name: string, from: number, count: number): string =>
    Array.from({ length: count }, (_, index) => `${at(from + index)} ${name} ${index} ${'.'.repeat(60)}\n`).join('')
  // More than is held at first, and the end of one is older than all that is held of the other.
  writeFileSync(join(stage.sites, 'app.log'), lines('late', 20_000, 10_000) + lines('back', 0, 200))
  writeFileSync(join(stage.sites, 'worker.jsonl'), lines('steady', 20_000, 10_000))
  const { page, watch } = await openDuring(t, browser, stage.url, `logs?source=${app}&source=${worker}&merged=1`, {
    viewport: desktop
  })
  await page.locator('svc-log .line', { hasText: 'back 199' }).waitFor()
  await page.locator('svc-log .line', { hasText: 'steady 9999' }).waitFor()
  await page.locator('svc-log .scroll').press('Home')
  await page.locator('svc-log .line').first().waitFor()
  t.same(watch.complaints, [])
})

t.test('a search continues after a cut network from the oldest hit', { skip }, async t => {
  const { stage, id, app } = await stageOf(t)
  const proxy = await startCutProxy(t, stage.url)
  const { page } = await openDuring(t, browser, proxy.url, `projects/${id}/logs/${app}?q=request`, {
    viewport: desktop
  })
  await page.getByText('The newest 200 hits; there are older hits.').waitFor()
  proxy.cut()
  const older = page.getByRole('button', { name: 'Older hits' })
  await older.click()
  await older.click()
  await page.locator('svc-log-search [role=alert], svc-log-search .error').first().waitFor()
  t.equal(await page.locator('svc-log-search .hits li').count(), 200, 'what was found stays')
  proxy.mend()
  await older.click()
  await page.locator('svc-log-search .hits li').nth(250).waitFor()
  t.equal(await page.locator('svc-log-search .hits b').nth(200).textContent(), `${at(9799)} ERROR app request 9799`)
})
