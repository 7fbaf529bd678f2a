import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServer } from '../support/server.js'
import { startChromium } from './chromium.js'
import { desktop, openDuring, photographer } from './stage.js'
import { survey } from './survey.js'

/* Log files that are shown as one are searched as one, far beyond what of them is held. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('logs-merged-search')

t.test('a search in merged logs finds in all of them, in order of time, and leads there', { skip }, async t => {
  const stage = await startServer(t)
  const { id } = await stage.createProject('storefront')
  const startMs = Date.parse('2026-03-01T00:00:00Z')
  const names = ['access.log', 'worker.log']
  for (const [place, name] of names.entries()) {
    const lines = Array.from({ length: 20_000 }, (_, index) => {
      const at = new Date(startMs + index * 2000 + place * 1000).toISOString()
      return `${at} ${name} ${index % 9_000 === 40 ? 'needle' : 'nothing'} ${index} ${'.'.repeat(30)}\n`
    })
    writeFileSync(join(stage.sites, name), lines.join(''))
  }
  const { body } = await stage.client.post(`/api/projects/${id}/log-sources`, {
    items: names.map(name => ({ filePath: join(stage.sites, name) }))
  })
  const query = (body.items as Array<{ id: string }>).map(({ id }) => `source=${id}`).join('&')
  const { page, watch } = await openDuring(t, browser, stage.url, `logs?${query}&merged=1`, { viewport: desktop })
  await page.locator('svc-log').getByText('worker.log nothing 19999').waitFor()
  await page.locator('svc-log .scroll').press('/')
  await page.getByRole('searchbox', { name: 'Search these files' }).fill('needle')
  await page.keyboard.press('Enter')
  await page.getByText('6 hits').waitFor()
  const hits = page.locator('svc-log-search .hits b')
  t.same(
    (await hits.allTextContents()).map(text => text.split(' ').slice(1, 4).join(' ')),
    [18_040, 9040, 40].flatMap(index => [...names].reverse().map(name => `${name} needle ${index}`))
  )
  t.same(
    await page.locator('svc-log-search .of').allTextContents(),
    [0, 1, 2].flatMap(() => [...names].reverse())
  )

  await hits.last().click()
  const here = page.locator('svc-log .line.here')
  await here.getByText('access.log needle 40 ').waitFor()
  await page.locator('svc-log').getByText('worker.log nothing 39 ').waitFor()
  await page.locator('svc-log').getByText('worker.log needle 40 ').waitFor()
  await page.locator('svc-log .scroll').press('N')
  await here.getByText('worker.log needle 40 ').waitFor()
  for (let step = 0; step < 2; step++) await page.locator('svc-log .scroll').press('N')
  await here.getByText('worker.log needle 9040 ').waitFor()
  await photograph(page, 'desktop')
  t.same(await survey(page), [])
  await page.getByRole('button', { name: 'Go to end' }).click()
  await page.locator('svc-log').getByText('worker.log nothing 19999').waitFor()
  t.same(watch.complaints, [])
})
