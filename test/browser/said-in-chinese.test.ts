import t from 'tap'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { cardOf, desktop, isWithin, openDuring, phone, photographer, submitCard } from './stage.js'

/* What the server says in English, as a Chinese reader sees it; and links that a script prints. */

const { browser, skip } = await startChromium(t)
const chinese = { viewport: desktop, locale: 'zh-CN' }

t.test('refusals, findings and audit details are in Chinese, the English sentence below', { skip }, async t => {
  const photograph = photographer('chinese')
  const stage = await startServer(t)
  const { id } = await stage.createProject('storefront')
  const { page } = await openDuring(t, browser, stage.url, `projects/${id}/settings`, chinese)
  await page.locator('#project-deployPath').fill('/etc')
  await page.locator('#project-description').fill('a shop')
  await cardOf(page, '常规').getByRole('button', { name: '保存', exact: true }).click()
  const error = page.locator('#project-deployPath-error')
  await error.waitFor()
  t.match(await error.textContent(), /^服务器上的目录不可用：“\/etc”是系统目录/)
  t.equal(
    await error.locator('.server-words').textContent(),
    'deployPath is invalid: "/etc" is a directory of the system; choose one below it'
  )
  await photograph(page, 'error-desktop')
  await page.setViewportSize(phone)
  await photograph(page, 'error-phone')
  t.ok(await isWithin(page))
  await page.setViewportSize(desktop)

  await page.locator('#project-deployPath').fill((await stage.client.get(`/api/projects/${id}`)).body.deployPath)
  await cardOf(page, '常规').getByRole('button', { name: '保存', exact: true }).click()
  await error.waitFor({ state: 'detached' })
  await page.goto(`${stage.url}/audit`)
  const changed = page.locator('.entries li').filter({ hasText: '项目已更改' }).first()
  await changed.waitFor()
  t.equal(await changed.locator('.what').textContent(), 'storefront · 描述: 无 → a shop')

  await page.goto(`${stage.url}/migration`)
  await page.getByText('项目表存在：1 个项目').waitFor()
  await photograph(page, 'findings-desktop', { isWhole: true })
})

t.test('in English, a refusal calls the field as the form does', { skip }, async t => {
  const stage = await startServer(t)
  const { id } = await stage.createProject('storefront')
  const { page } = await openDuring(t, browser, stage.url, `projects/${id}/settings`)
  await page.getByLabel('Directory on the server').fill('shop')
  await submitCard(page, 'General')
  await page
    .getByText('“Directory on the server” is invalid: "shop" is not an absolute path', { exact: true })
    .waitFor()
  t.equal(await page.locator('.server-words').count(), 0, 'said once')
})

t.test('a hyperlink that a script prints leads somewhere, but only in the web', { skip }, async t => {
  const link = (address: string, text: string): string =>
    `\\033]8;;${address}\\033\\\\\\\\${text}\\033]8;;\\033\\\\\\\\`
  const stage = await startServer(t)
  const project = await stage.createProject('storefront', {
    postDeployScript: `printf "see ${link('https://ci.example/run/7', 'the run')} or ${link('javascript:alert(1)', 'this')}\\n"`
  })
  const { headers } = await stage.client.upload(
    [
      ['projectId', project.id],
      ['file', { filename: 'site.zip', bytes: await zipOf({ 'index.html': 'x' }) }]
    ],
    { authorization: `Bearer ${project.token}` }
  )
  const { page, watch } = await openDuring(t, browser, stage.url, `deployments/${headers['x-svc-deploy-id']}`)
  const found = page
    .locator('.line')
    .filter({ hasText: /^(?!.*printf).*see the run or this/ })
    .getByRole('link')
  await found.first().waitFor()
  t.same(
    await page.evaluate(
      `[...document.querySelectorAll('svc-log .line .text a')].map(a => [a.textContent, a.href, a.rel, a.title])`
    ),
    [['the run', 'https://ci.example/run/7', 'noopener noreferrer', 'https://ci.example/run/7']]
  )
  t.same(watch.foreign, [])
})
