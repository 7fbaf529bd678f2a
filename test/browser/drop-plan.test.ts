import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { onPhone, openDuring, photographer, stillDesktop } from './stage.js'
import { survey } from './survey.js'

/* The plan of a zip or of files, which is made in the browser and shown before their bytes are sent. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('drop-plan')

const files = (page: Page) => page.locator('input[type=file]:not([webkitdirectory])')
const asked = (page: Page) => page.getByRole('dialog')
const deploy = (page: Page) => asked(page).getByRole('button', { name: 'Deploy', exact: true })
/** Waits for the page of the deployment, which opens when it has started. */
const ended = async (page: Page, status: string) => {
  await page.waitForURL(/\/deployments\/dep_\w+$/)
  await page
    .locator(`svc-page-deployment h1 ~ * svc-status[state=${status}], .page-head svc-status[state=${status}]`)
    .first()
    .waitFor()
}
/** Opens the dialog of a project that has deployments. */
const open = async (page: Page, address: string) => {
  await page.goto(address)
  await page.getByRole('button', { name: 'Deploy…' }).click()
  await asked(page).getByText('Drop a zip, files or a folder here').waitFor()
}
const zipFile = async (contents: Record<string, string>) => ({
  name: 'site.zip',
  mimeType: 'application/zip',
  buffer: await zipOf(contents)
})
const first = { 'index.html': 'one', 'a.js': 'a', 'gone.js': 'old', 'same.css': 'same' }

t.test('a plan is shown, and the deployment is held to it', { skip }, async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('storefront')
  const { page, watch } = await openDuring(t, browser, stage.url, `projects/${project.id}`, stillDesktop)
  const looked = page.waitForResponse(response => response.url().includes('prune=foreign'))
  await files(page).setInputFiles(await zipFile(first))
  await looked
  await asked(page).getByText('The first deployment: 4 files added.').waitFor()
  t.equal(
    await asked(page).getByLabel('Remove also what svc did not put there').count(),
    0,
    'there is nothing to remove'
  )
  await deploy(page).click()
  await ended(page, 'success')

  const address = `${stage.url}/projects/${project.id}`
  await open(page, address)
  const edited = join(project.deployPath, 'a.js')
  writeFileSync(edited, 'edited on the server')
  const second = { 'index.html': 'two', 'a.js': 'b', 'same.css': 'same', 'new.js': 'n' }
  await files(page).setInputFiles(await zipFile(second))
  await asked(page).getByText('1 added · 2 changed · 1 as they are · 1 not in it, kept').waitFor()
  await asked(page).getByText('1 file edited on the server would be replaced').click()
  await asked(page).getByText('1 file added').click()
  await asked(page).locator('.plan li', { hasText: 'new.js' }).waitFor()
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'plan-desktop')

  writeFileSync(edited, 'edited after the plan')
  await deploy(page).click()
  await ended(page, 'failed')
  t.equal(readFileSync(edited, 'utf8'), 'edited after the plan', 'nothing was changed')
  t.match((await stage.client.get('/api/logs')).body[0].errorMessage ?? '', /Plan again/)

  await open(page, address)
  await page.evaluate('delete Crypto.prototype.subtle')
  await files(page).setInputFiles(
    Object.entries({ ...first, 'index.html': 'three' }).map(([name, text]) => ({
      name,
      mimeType: 'text/plain',
      buffer: Buffer.from(text)
    }))
  )
  await asked(page).getByText('1 file edited on the server would be replaced').waitFor()
  await deploy(page).click()
  await ended(page, 'success')
  t.equal(readFileSync(edited, 'utf8'), 'a', 'files are planned without crypto.subtle, too')
  t.same(watch.complaints, [])
})

t.test('a refused plan cannot be deployed, and a failed one leaves the old way', { skip }, async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('storefront')
  await stage.client.put(`/api/projects/${project.id}`, { policy: { onFailureScript: 'true' } })
  await stage.client.put(`/api/projects/${project.id}/lock`, { reason: 'audit' })
  const { page, watch } = await openDuring(t, browser, stage.url, `projects/${project.id}`, onPhone)
  await files(page).setInputFiles(await zipFile({ ...first, [`${'a-long-name/'.repeat(10)}x.js`]: 'x' }))
  await asked(page).getByText('The server would refuse this deployment.').waitFor()
  await asked(page).getByText('the on-failure script runs if the deployment fails').waitFor()
  t.ok(await deploy(page).isDisabled())
  await asked(page).locator('.plan summary').click()
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'refused-phone')
  await stage.client.delete(`/api/projects/${project.id}/lock`)
  await asked(page).getByRole('button', { name: 'Plan again' }).click()
  await asked(page).getByText('The server would refuse this deployment.').waitFor({ state: 'detached' })
  await asked(page).locator('button.primary:enabled').waitFor()
  await page.keyboard.press('Escape')

  await page.route('**/api/deploy/plan*', route =>
    route.fulfill({ status: 404, json: { success: false, error: 'Not found', code: 'not_found' } })
  )
  await files(page).setInputFiles(await zipFile(first))
  await asked(page)
    .getByText(/^No plan: .*The files can be deployed without one\.$/)
    .waitFor()
  await photograph(page, 'no-plan-phone')
  await deploy(page).click()
  await ended(page, 'success')
  t.same(
    watch.complaints.filter(line => !line.includes('404')),
    []
  )
})

t.test('a reason opens the windows of the project, with a plan and without one', { skip }, async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('storefront')
  const freeze = [{ from: '2020-01-01', to: '2100-01-01', reason: 'audit' }]
  await stage.client.put(`/api/projects/${project.id}`, { policy: { windows: { allow: [], freeze, tz: 'UTC' } } })
  const address = `projects/${project.id}`
  const { page, watch } = await openDuring(t, browser, stage.url, address, stillDesktop)
  const why = asked(page).getByLabel('Why outside of the windows')

  await files(page).setInputFiles(await zipFile(first))
  await asked(page).getByText('no deployments now ("audit")').waitFor()
  t.ok(await deploy(page).isDisabled())
  t.notMatch(await asked(page).textContent(), /--override/, 'no option of the command line')
  await why.fill('the site is down')
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'outside-desktop')
  await why.press('Tab')
  await asked(page).locator('button.primary:enabled').waitFor()
  await deploy(page).click()
  await ended(page, 'success')
  t.match((await stage.client.get('/api/logs')).body, [{ override: 'the site is down' }])

  // Without a plan, as for nodes, the server is asked what it would refuse.
  await page.route('**/api/deploy/plan*', route =>
    route.fulfill({ status: 404, json: { success: false, error: 'Not found', code: 'not_found' } })
  )
  await open(page, `${stage.url}/${address}`)
  await files(page).setInputFiles(await zipFile(first))
  await why.waitFor()
  t.ok(await deploy(page).isDisabled())
  await why.fill('still down')
  await deploy(page).click()
  await ended(page, 'success')
  t.match((await stage.client.get('/api/logs')).body, [{ override: 'still down' }, {}])
  t.same(
    watch.complaints.filter(line => !/404|409/.test(line)),
    []
  )
})

for (const [language, words] of Object.entries({
  en: [
    'Remove also what svc did not put there',
    '1 file of these not put there by svc',
    /1 file not put there by svc stay/
  ],
  'zh-CN': [
    '也移除不是由 svc 放置的文件',
    /其中 1 个文件不是由 svc 放置的/,
    /1 个文件不是由 svc 放置，受策略保护而保留/
  ]
} as const))
  t.test(`the first clean of a directory is planned, and done (${language})`, { skip }, async t => {
    const stage = await startServer(t)
    const project = await stage.createProject('storefront', { policy: { protect: ['uploads/**'] } })
    const place = (path: string): string => join(project.deployPath, path)
    mkdirSync(place('uploads'), { recursive: true })
    for (const path of ['old.html', 'uploads/photo']) writeFileSync(place(path), path)
    const options = { ...stillDesktop, locale: language }
    const { page, watch } = await openDuring(t, browser, stage.url, `projects/${project.id}`, options)
    await files(page).setInputFiles(await zipFile(first))
    const [wish, removed, held] = words
    await asked(page).getByLabel(wish).check()
    await page.locator('.plan').getByText(removed).click()
    await page.locator('.plan li', { hasText: 'old.html (8 B)' }).waitFor()
    await page.locator('.plan').getByText(held).waitFor()
    t.same(await survey(page), [], 'readable and named')
    await asked(page)
      .getByRole('button', { name: /^(Deploy|部署)$/ })
      .click()
    await ended(page, 'success')
    t.strictSame([existsSync(place('old.html')), existsSync(place('uploads/photo'))], [false, true])
    t.same(watch.complaints, [])
  })
