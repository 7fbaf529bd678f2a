import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import t from 'tap'
import { startReceiver } from '../support/receiver.js'
import { adminToken, startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { findChromium, launchChromium, openWatched } from './chromium.js'
import { desktop, isWithin, phone, photographer, signIn } from './pages.js'

/* The room of what is set once: settings, categories and tags, export and import. */

const executable = findChromium()
const skip = executable === undefined ? 'no chromium or google-chrome on the PATH' : false
let browser: Browser

t.before(async () => {
  if (executable !== undefined) browser = await launchChromium(executable)
})
t.teardown(() => browser?.close())

t.test('settings: every field says what it is, and what is wrong with it', { skip }, async t => {
  const photograph = await photographer('settings')
  const receiver = await startReceiver(t)
  const stage = await startServer(t)
  const { page, watch, context } = await openWatched(browser, new URL(stage.url).origin, { viewport: desktop })
  t.teardown(() => context.close())
  const kept = async () => (await stage.client.get('/api/settings')).body as Record<string, string>

  await page.goto(`${stage.url}/settings?key=script_timeout`)
  await signIn(page, adminToken)
  const timeout = page.getByLabel('Time for a script')
  await timeout.waitFor()
  t.equal(await page.evaluate('document.activeElement.id'), 'setting-script_timeout', 'who comes for one may type')
  await timeout.fill('soon')
  await page.getByText('1 change not saved yet.').waitFor()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.locator('#setting-script_timeout-error').waitFor()
  t.match(watch.complaints.splice(0), [/400.*\/api\/settings/])
  t.equal(await timeout.inputValue(), 'soon', 'what was typed stays')
  await photograph(page, 'refused-desktop')
  await page.getByRole('button', { name: 'Discard' }).click()
  t.equal(await timeout.inputValue(), '1800')

  await page.getByRole('button', { name: 'Send a test message' }).isDisabled()
  await page.getByRole('textbox', { name: 'Address', exact: true }).fill(`${receiver.url}/hook`)
  await page.getByRole('textbox', { name: 'Secret' }).fill('a-secret-of-mine')
  await page.getByLabel('Pushes may bring scripts').uncheck()
  await timeout.fill('  90 ')
  await page.getByText('4 changes not saved yet.').waitFor()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('Saved', { exact: true }).waitFor()
  t.match(await kept(), { webhook_url: `${receiver.url}/hook`, webhook_secret: 'a-secret-of-mine', script_timeout: '90', allow_client_scripts: 'false' })
  t.equal(await timeout.inputValue(), '90', 'as the server keeps it')
  t.equal(await page.getByRole('textbox', { name: 'Secret' }).getAttribute('type'), 'password', 'hidden')
  await page.getByRole('button', { name: 'Show', exact: true }).first().click()
  t.equal(await page.getByRole('textbox', { name: 'Secret' }).getAttribute('type'), 'text')

  await page.getByRole('button', { name: 'Send a test message' }).click()
  await page.getByText(/^Delivered: status 200 after /).waitFor()
  receiver.behave(500)
  await page.getByRole('button', { name: 'Send a test message' }).click()
  await page.getByText(/^The test message was not delivered: answered 500 \(2 attempts, /).waitFor()
  await photograph(page, 'desktop', { isWhole: true })

  const change = page.getByRole('button', { name: 'Change token' })
  await page.getByLabel('Current token').fill('not-the-token')
  await page.getByLabel('New token').fill('short')
  await page.getByText('Too short: 3 more characters are needed').waitFor()
  t.ok(await change.isDisabled())
  await page.getByLabel('New token').fill('longer-now')
  await page.getByText('Weak: 14 more characters would make it strong').waitFor()
  await page.locator('svc-admin-token').getByRole('button', { name: 'Generate' }).click()
  await page.getByText('Strong', { exact: true }).waitFor()
  await change.click()
  await page.getByText('This is not the admin token.').waitFor()
  t.match(watch.complaints.splice(0), [/401.*\/api\/settings\/token/])
  const next = await page.getByLabel('New token').inputValue()
  await page.getByLabel('Current token').fill(adminToken)
  await change.click()
  await page.getByText('The admin token is new').waitFor()
  t.equal((await stage.client.get('/api/settings')).status, 401, 'the old one no longer opens anything')
  await page.reload()
  await timeout.waitFor()
  t.equal((await stage.as(next).get('/api/settings')).status, 200)

  await page.setViewportSize(phone)
  await photograph(page, 'phone', { isWhole: true })
  t.ok(await isWithin(page), 'nothing sticks out at the side')
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])
})

t.test('categories and tags: made, ordered, changed, deleted', { skip }, async t => {
  const photograph = await photographer('labels')
  const stage = await startServer(t)
  const shop = await stage.createProject('storefront')
  const { page, watch, context } = await openWatched(browser, new URL(stage.url).origin, { viewport: desktop })
  t.teardown(() => context.close())
  await page.goto(`${stage.url}/labels`)
  await signIn(page, adminToken)
  await page.getByText('No categories yet.').waitFor()
  await photograph(page, 'empty-desktop')
  const categories = page.locator('svc-labels[kind=category]')
  const names = () => page.evaluate(
    `[...document.querySelectorAll('svc-labels[kind=category] li svc-label')].map(label => label.getAttribute('name'))`
  )

  const create = async (name: string, colour?: string): Promise<void> => {
    await categories.getByRole('button', { name: 'New category' }).click()
    await page.getByLabel('Name', { exact: true }).fill(name)
    if (colour !== undefined) await page.getByRole('radio', { name: colour }).check({ force: true })
    await page.getByRole('button', { name: 'Create', exact: true }).click()
  }
  for (const name of ['Customers', 'Internal', 'Old']) {
    await create(name, name === 'Old' ? 'Gray' : undefined)
    await categories.locator(`svc-label[name=${name}]`).waitFor()
  }
  t.same(await names(), ['Customers', 'Internal', 'Old'])
  await create('internal')
  await page.locator('#category-name-error').waitFor()
  t.match(watch.complaints.splice(0), [/409.*\/api\/categories/])
  await photograph(page, 'dialog-desktop')
  await page.keyboard.press('Escape')

  await categories.getByRole('button', { name: 'Move Old up' }).click()
  await page.getByText('Old is now at place 2 of 3').waitFor()
  t.same(await names(), ['Customers', 'Old', 'Internal'])
  await categories.locator('li', { hasText: 'Internal' }).dragTo(categories.locator('li', { hasText: 'Customers' }))
  await page.getByText('Internal is now at place 1 of 3').waitFor()
  await until(async () => (await stage.client.get('/api/categories')).body.map((each: { name: string }) => each.name).join() === 'Internal,Customers,Old')

  const [{ id }] = (await stage.client.get('/api/categories')).body
  await stage.client.put(`/api/projects/${shop.id}`, { categoryId: id })
  await categories.getByRole('button', { name: 'Change Internal' }).click()
  await page.getByLabel('Name', { exact: true }).fill('Ours')
  await page.getByRole('radio', { name: 'Pink' }).check({ force: true })
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await categories.locator('svc-label[name=Ours][color=pink]').waitFor()
  t.equal(await categories.getByRole('link', { name: '1 project' }).getAttribute('href'), `projects?category=${id}`)
  await page.locator('svc-labels[kind=tag]').getByRole('button', { name: 'New tag' }).click()
  await page.getByLabel('Name', { exact: true }).fill('nightly')
  await page.getByRole('button', { name: 'Create', exact: true }).click()
  await page.locator('svc-label[kind=tag][name=nightly]').waitFor()
  await photograph(page, 'desktop')

  await categories.getByRole('button', { name: 'Delete Ours' }).click()
  await page.getByText('1 project have it. Its projects are then in no category.').waitFor()
  await page.getByRole('button', { name: 'Delete', exact: true }).click()
  await page.getByText('Ours is deleted').waitFor()
  t.same(await names(), ['Customers', 'Old'])
  t.equal((await stage.client.get(`/api/projects/${shop.id}`)).body.categoryId, null)
  await page.setViewportSize(phone)
  await photograph(page, 'phone')
  t.ok(await isWithin(page), 'nothing sticks out at the side')
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])
})

t.test('export, and import on another server: first what would happen, then it', { skip }, async t => {
  const photograph = await photographer('migration')
  const from = await startServer(t)
  const shop = await from.createProject('storefront')
  await from.createProject('docs')
  const bytes = await zipOf({ 'index.html': 'one' })
  await from.as(shop.token).upload([['projectId', shop.id], ['file', { filename: 'a.zip', bytes }]])
  await from.client.post('/api/tags', { name: 'nightly' })
  const { page, watch, context } = await openWatched(browser, new URL(from.url).origin, { viewport: desktop })
  t.teardown(() => context.close())
  await page.goto(`${from.url}/migration`)
  await signIn(page, adminToken)
  await page.getByText('Every deployment has its project').waitFor()
  await page.getByText('does not exist yet').waitFor()

  await page.getByLabel('Only some').check()
  t.ok(await page.getByRole('button', { name: 'Download the package' }).isDisabled(), 'nothing is chosen yet')
  await page.getByRole('checkbox', { name: 'storefront' }).check()
  await page.getByLabel('Of each project the last').fill('many')
  await page.getByRole('button', { name: 'Download the package' }).click()
  await page.getByText('“many” is not a number of deployments.').waitFor()
  await page.getByLabel('Of each project the last').fill('5')
  await photograph(page, 'export-desktop')
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download the package' }).click()
  const got = await download
  t.match(got.suggestedFilename(), /^svc-export-.*\.zip$/)
  const path = join(from.sites, 'package.zip')
  await got.saveAs(path)

  // Here everything is known: an import that replaces says so, and asks.
  await page.locator('svc-import input[type=file]').setInputFiles(path)
  await page.getByRole('button', { name: 'Show what would happen' }).click()
  await page.getByRole('heading', { name: 'Nothing would change' }).waitFor()
  await page.getByLabel('Replace them').check()
  await page.getByRole('button', { name: 'Show what would happen' }).click()
  await page.getByRole('heading', { name: 'What would happen' }).waitFor()
  await photograph(page, 'trial-desktop', { isWhole: true })
  await from.client.put(`/api/projects/${shop.id}`, { description: 'changed since' })
  await page.getByRole('button', { name: 'Import and replace…' }).click()
  await page.getByRole('dialog').getByText('What they say now is lost for good').waitFor()
  await page.getByRole('button', { name: /^Replace \d+ records$/ }).click()
  await page.getByRole('heading', { name: 'Imported' }).waitFor()
  t.equal((await from.client.get(`/api/projects/${shop.id}`)).body.description, '', 'as in the package')
  await photograph(page, 'done-desktop', { isWhole: true })

  await page.getByRole('button', { name: 'Import another' }).click()
  const broken = join(from.sites, 'broken.zip')
  writeFileSync(broken, 'no zip')
  await page.locator('svc-import input[type=file]').setInputFiles(broken)
  await page.getByRole('button', { name: 'Show what would happen' }).click()
  await page.locator('svc-import [role=alert]').waitFor()
  t.equal(watch.complaints.splice(0).length, 1, 'the refusal is in the console')
  await page.setViewportSize(phone)
  await photograph(page, 'phone', { isWhole: true })
  t.ok(await isWithin(page), 'nothing sticks out at the side')

  // Gone from here, all of it is new: no question is asked.
  await from.client.delete(`/api/projects/${shop.id}`)
  rmSync(shop.deployPath, { recursive: true })
  await page.getByLabel('Leave them as they are').check()
  await page.locator('svc-import input[type=file]').setInputFiles(path)
  await page.getByRole('button', { name: 'Show what would happen' }).click()
  await page.getByRole('heading', { name: 'What would happen' }).waitFor()
  t.notOk(existsSync(shop.deployPath), 'a trial changes nothing')
  await page.getByRole('button', { name: 'Import', exact: true }).click()
  await page.getByRole('heading', { name: 'Imported' }).waitFor()
  t.equal((await from.client.get(`/api/projects/${shop.id}`)).status, 200)
  t.equal(readFileSync(join(shop.deployPath, 'index.html'), 'utf8'), 'one', 'its archive is in place')
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])
})

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise(resolve => setTimeout(resolve, 50))
}
