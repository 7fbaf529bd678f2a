import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { openDuring, stillDesktop } from './stage.js'

/* Large zips of the panel, and those that a proxy refuses, go to the server in pieces. */

const { browser, skip } = await startChromium(t)

async function openProject(t: Test) {
  const stage = await startServer(t)
  const project = await stage.createProject('storefront')
  const { page, watch } = await openDuring(t, browser, stage.url, `projects/${project.id}`, stillDesktop)
  const deployed = () =>
    until(async () =>
      (await stage.client.get('/api/logs')).body.some(({ status }: { status: string }) => status === 'success')
    )
  async function deploy(path: string): Promise<void> {
    await page.locator('input[type=file]:not([webkitdirectory])').setInputFiles(path)
    await page.getByRole('dialog').getByRole('button', { name: 'Deploy', exact: true }).click()
  }
  return { stage, page, watch, deployed, deploy }
}

t.test('a large zip goes in pieces, and on after a broken connection', { skip }, async t => {
  const { stage, page, deployed, deploy } = await openProject(t)
  const bytes = randomBytes(33 * 1024 * 1024)
  const path = join(stage.sites, '..', 'large.zip')
  writeFileSync(path, await zipOf({ 'large.bin': bytes }))
  const offsets: number[] = []
  page.on('request', request => {
    if (request.method() === 'PATCH') offsets.push(Number(request.headers()['upload-offset']))
  })
  await page.route('**/api/uploads/*', async route => {
    if (offsets.length < 3) return route.continue()
    await route.abort('connectionreset')
    // The browser hands large bodies to this process otherwise, which takes long.
    await page.unroute('**/api/uploads/*')
  })
  await page.evaluate(`
    window.stages = []
    new MutationObserver(() => {
      for (const bar of document.querySelectorAll('svc-upload progress'))
        if (bar.value > 0 && window.stages.at(-1) !== bar.ariaLabel) window.stages.push(bar.ariaLabel)
    }).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true })`)
  await deploy(path)
  await deployed()
  t.strictSame(((await page.evaluate('window.stages')) as string[]).slice(0, 2), ['Reading', 'Uploading'])
  t.strictSame(offsets.slice(0, 4), [0, 983_040, 3 * 983_040, 3 * 983_040], 'the piece that was lost comes again')
  t.ok(bytes.equals(readFileSync(join(stage.sites, 'storefront/large.bin'))))
})

t.test('after a reload of the page, the same file continues what was begun', { skip }, async t => {
  const { stage, page, deployed, deploy } = await openProject(t)
  const bytes = randomBytes(33 * 1024 * 1024)
  const path = join(stage.sites, '..', 'large.zip')
  writeFileSync(path, await zipOf({ 'large.bin': bytes }))
  const offsets: number[] = []
  page.on('request', request => {
    if (request.method() === 'PATCH') offsets.push(Number(request.headers()['upload-offset']))
  })
  await page.route('**/api/uploads/*', route => (offsets.length < 3 ? route.continue() : route.abort()))
  await deploy(path)
  await until(() => offsets.length >= 3)
  await page.reload()
  await page.unroute('**/api/uploads/*')
  offsets.length = 0
  await deploy(path)
  await deployed()
  t.equal(offsets[0], 3 * 983_040)
  t.ok(bytes.equals(readFileSync(join(stage.sites, 'storefront/large.bin'))))
})

t.test('what is too large for a proxy goes in pieces', { skip }, async t => {
  const { stage, page, deployed, deploy } = await openProject(t)
  const path = join(stage.sites, '..', 'site.zip')
  writeFileSync(path, await zipOf({ 'index.html': 'through a proxy' }))
  let refused = 0
  await page.route('**/api/deploy/upload', route => {
    const isWhole = route.request().postData()?.includes('filename=') ?? true
    if (!isWhole) return route.continue()
    refused++
    return route.fulfill({ status: 413, contentType: 'text/html', body: '<h1>413 Request Entity Too Large</h1>' })
  })
  await deploy(path)
  await deployed()
  t.equal(refused, 1)
  t.equal(readFileSync(join(stage.sites, 'storefront/index.html'), 'utf8'), 'through a proxy')
})

t.test('cancelling leaves nothing on the server', { skip }, async t => {
  const { stage, page, deploy } = await openProject(t)
  const path = join(stage.sites, '..', 'large.zip')
  writeFileSync(path, await zipOf({ 'large.bin': randomBytes(33 * 1024 * 1024) }))
  let pieces = 0
  await page.route('**/api/uploads/*', async route => {
    if (route.request().method() !== 'PATCH' || ++pieces < 2) return route.continue()
    await new Promise(resolve => setTimeout(resolve, 3000))
    return route.continue().catch(() => {})
  })
  await deploy(path)
  await until(() => pieces >= 2)
  await page.locator('svc-upload').getByRole('button', { name: 'Cancel' }).click()
  await until(() => readdirSync(stage.home.tmp).length === 0)
  t.same((await stage.client.get('/api/logs')).body, [])
})
