import t from 'tap'
import { startServer } from '../support/server.js'
import { startChromium } from './chromium.js'
import { holds, openDuring } from './stage.js'

const { browser, skip } = await startChromium(t)

for (const publicUrl of ['', 'https://deploy.example.org']) {
  const what = publicUrl === '' ? "the page's own, where nobody has said another" : 'that of SVC_PUBLIC_URL'
  t.test(`the address that commands to copy name: ${what}`, { skip }, async t => {
    const stage = await startServer(t, { environment: { SVC_PUBLIC_URL: publicUrl } })
    const project = await stage.createProject('storefront')
    const { page } = await openDuring(t, browser, stage.url, '')
    const shows = (element: string, command = `--server ${publicUrl || stage.url} `) =>
      `[...document.querySelectorAll('${element} pre')].some(each => each.textContent.includes('${command}'))`
    await holds(page, shows('svc-first-steps'))
    await holds(page, shows('svc-first-steps', `curl -fsSL ${publicUrl || stage.url}/install.sh | sh`))
    t.equal(await page.getByText('Only this machine reaches').count(), publicUrl === '' ? 1 : 0)
    await page.goto(`${stage.url}/projects/${project.id}`)
    await holds(page, shows('svc-project-deploy'))
    t.pass('both do')
  })
}
