import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readReceipt } from '../../lib/core/proof/receipt.js'
import { eventsOf } from '../support/client.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { desktop, isWithin, onPhone, openDuring, photographer } from './stage.js'
import { survey, violations } from './survey.js'

/* The receipt of a deployment and the number of its components, on its page. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('receipt')

t.test('the page of a deployment offers its receipt', { skip }, async t => {
  const stage = await startServer(t)
  const { id } = await stage.createProject('storefront')
  const { token } = (await stage.client.get(`/api/projects/${id}`)).body
  const file = { filename: 'site.zip', bytes: await zipOf({ 'index.html': 'one' }) }
  const events = eventsOf(
    await stage.as(token).upload([
      ['projectId', id],
      ['file', file]
    ])
  )
  const { deployId } = events.at(-1) as { deployId: string }
  const { page } = await openDuring(t, browser, stage.url, `deployments/${deployId}`, { viewport: desktop })
  const saved = page.waitForEvent('download')
  await page.locator('button.receipt').click()
  const download = await saved
  t.equal(download.suggestedFilename(), `${deployId}.receipt.json`)
  t.match(readReceipt(readFileSync(await download.path(), 'utf8')), { receipt: { deployment: { id: deployId } } })
  await photograph(page, 'deployment')
  t.equal(await page.getByText('SBOM', { exact: true }).count(), 0, 'nothing is known of its components')

  const components = Array.from({ length: 1214 }, (_, at) => ({ name: `c${at}`, version: '1' }))
  const list = JSON.stringify({ bomFormat: 'CycloneDX', specVersion: '1.5', components })
  writeFileSync(join(stage.home.deployments, `${deployId}.sbom.json`), list)
  for (const [name, options, words] of [
    ['components-desktop', { viewport: desktop }, '1,214 components'],
    ['components-phone-zh', { ...onPhone, locale: 'zh-CN' }, '1,214 个组件']
  ] as const) {
    const { page } = await openDuring(t, browser, stage.url, `deployments/${deployId}`, options)
    await page.locator('.facts').getByText(words, { exact: true }).waitFor()
    await page.locator('.facts').getByText('SBOM', { exact: true }).waitFor()
    t.same([...(await survey(page)), ...(await violations(page))], [], name)
    t.ok(await isWithin(page), name)
    await photograph(page, name, { isWhole: true })
  }
})
