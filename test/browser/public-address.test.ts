import type { Browser } from 'playwright-core'
import t from 'tap'
import { startServer } from '../support/server.js'
import { findChromium, launchChromium } from './chromium.js'
import { holds, openSignedIn } from './stage.js'

const executable = findChromium()
const skip = executable === undefined ? 'no chromium or google-chrome on the PATH' : false
let browser: Browser

t.before(async () => {
  if (executable !== undefined) browser = await launchChromium(executable)
})
t.teardown(() => browser?.close())

for (const publicUrl of ['', 'https://deploy.example.org']) {
  const what = publicUrl === '' ? "the page's own, where nobody has said another" : 'that of SVC_PUBLIC_URL'
  t.test(`the address that commands to copy name: ${what}`, { skip }, async t => {
    const stage = await startServer(t, { environment: { SVC_PUBLIC_URL: publicUrl } })
    const project = await stage.createProject('storefront')
    const { page, context } = await openSignedIn(browser, stage.url, '')
    t.teardown(() => context.close())
    const shows = (element: string) =>
      `document.querySelector('${element} pre')?.textContent.includes('--server ${publicUrl || stage.url} ')`
    await holds(page, shows('svc-first-steps'))
    await page.goto(`${stage.url}/projects/${project.id}`)
    await holds(page, shows('svc-project-deploy'))
    t.pass('both do')
  })
}
