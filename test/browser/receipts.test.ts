import { readFileSync } from 'node:fs'
import t from 'tap'
import { readReceipt } from '../../lib/core/proof/receipt.js'
import { eventsOf } from '../support/client.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { desktop, openDuring, photographer } from './stage.js'

/* The receipt of a deployment, on its page. */

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
})
