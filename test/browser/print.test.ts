import type { Page } from 'playwright-core'
import t from 'tap'
import { startServer } from '../support/server.js'
import { startChromium } from './chromium.js'
import { openDuring, photographer, stillDesktop } from './stage.js'
import { furnish, settle } from './tour.js'

/* On paper: no navigation and no controls, black on white, whole texts, also from a dark screen. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('print')

interface Paper {
  /** What can be seen of the frame and of controls. */
  controls: number
  ground: string
  text: string
  words: string
}

const paperOf = (page: Page): Promise<Paper> =>
  page.evaluate(`(() => {
  const seen = [...document.querySelectorAll('nav, header.top, button, select, input, .button')].filter(element => element.checkVisibility())
  const style = getComputedStyle(document.documentElement)
  return { controls: seen.length, ground: style.backgroundColor, text: style.color, words: document.querySelector('main').innerText }
})()`)

t.test('a deployment and the audit log print readably from a dark screen', { skip }, async t => {
  const stage = await startServer(t)
  const { failed } = await furnish(stage)
  const options = { ...stillDesktop, colorScheme: 'dark' as const }
  for (const [address, words] of [
    [`deployments/${failed}`, 'one line'],
    ['audit', 'Archive pushed']
  ] as const) {
    const { page, watch } = await openDuring(t, browser, stage.url, address, options)
    await settle(page)
    await page.locator('main :is(.printed, svc-log, li)').getByText(words).first().waitFor()
    await page.evaluate(`dispatchEvent(new Event('beforeprint'))`)
    await page.emulateMedia({ media: 'print' })
    const paper = await paperOf(page)
    t.match(paper, { controls: 0, ground: 'rgb(255, 255, 255)', text: 'rgb(0, 0, 0)' }, address)
    t.match(paper.words, words)
    await photograph(page, address.split('/')[0] as string, { isWhole: true })
    await page.evaluate(`dispatchEvent(new Event('afterprint'))`)
    const pdf = await page.pdf()
    t.equal(pdf.subarray(0, 5).toString(), '%PDF-', 'the browser prints it')
    await page.emulateMedia({ media: 'screen' })
    t.ok(await page.locator('nav').first().isVisible(), 'the screen is as before')
    t.same(watch.complaints, [])
  }
})
