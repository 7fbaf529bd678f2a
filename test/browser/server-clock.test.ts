import t from 'tap'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { giveSession } from './stage.js'

const { browser, skip } = await startChromium(t)
const hourMs = 3_600_000

for (const [what, aheadMs] of [
  ['three hours ahead', 3 * hourMs],
  ['three hours behind', -3 * hourMs]
] as const) {
  t.test(`ages are measured by the clock of the server if that of the browser is ${what}`, { skip }, async t => {
    const stage = await startServer(t)
    const project = await stage.createProject('storefront')
    await stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', { filename: 'site.zip', bytes: await zipOf({ a: 'a' }) }]
    ])
    const context = await browser.newContext({ locale: 'en-GB' })
    t.teardown(() => context.close())
    await giveSession(context, stage.url)
    const page = await context.newPage()
    await page.clock.setSystemTime(Date.now() + aheadMs)
    await page.goto(`${stage.url}/deployments`)
    const age = page.locator('svc-deployments svc-time').first()
    await age.waitFor()
    t.notMatch(await age.textContent(), /\dh|hour|\d h/)
    t.match(await age.textContent(), /now|sec|\ds|\d s|min/)
  })
}
