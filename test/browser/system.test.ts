import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openStore } from '../../lib/core/store/durable-store.js'
import { insertMachineMinutes } from '../../lib/core/store/tables/server.js'
import { standInPm2 } from '../support/pm2.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { comeBack, isWithin, openDuring, phone, photographer } from './stage.js'

/* The pages for administrators: health, resources, storage, audit log. */

const { browser, skip } = await startChromium(t)

t.test('health and resources', { skip }, async t => {
  const photograph = photographer('system')
  const pm2 = standInPm2(t)
  const stage = await startServer(t, { environment: pm2.env })
  const { page, watch } = await openDuring(t, browser, stage.url, 'system')
  await page.getByRole('heading', { level: 1, name: /^The server is (un)?healthy$/ }).waitFor()
  await page.getByText(/^svc \d+\.\d+\.\d+, running for /).waitFor()
  await page.getByRole('img', { name: /^Memory: .* now, between/ }).waitFor()
  await page.getByText(/^Answers (in|within) /).waitFor()
  await page.getByText(stage.home.directory, { exact: true }).waitFor()
  await page.getByText(String(process.pid), { exact: true }).waitFor()
  await page.getByRole('heading', { name: 'PM2 is not installed' }).waitFor()
  await photograph(page, 'desktop', { isWhole: true })
  // Once it is installed, it is asked what it runs.
  const list = [
    ['shop', 'online'],
    ['worker', 'errored']
  ].map(([name, status], index) => {
    return { name, pm_id: index, pid: 2, monit: { memory: 3, cpu: 4 }, pm2_env: { status, exec_mode: 'fork_mode' } }
  })
  pm2.install(list)
  await page.getByRole('link', { name: 'Storage' }).click()
  await page.getByRole('heading', { name: 'Clean up' }).waitFor()
  await page.goBack()
  await comeBack(page, page.locator('.apps li', { hasText: 'worker' }).getByText('Errored'))
  pm2.daemon.close()
  await page.getByText(/^The PM2 daemon of this user is not running/).waitFor()
  await page.setViewportSize(phone)
  await photograph(page, 'phone', { isWhole: true })
  t.ok(await isWithin(page), 'nothing sticks out at the side')
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])
})

t.test('certificates that expire soon', { skip }, async t => {
  const stage = await startServer(t)
  for (const [locale, says] of [
    ['en-US', /The certificate "a" expired on 2020-01-01\. Renew it: the hub reads/],
    ['zh-CN', /^证书“a”已于 2020-01-01 过期。请更新/]
  ] as const) {
    const { page } = await openDuring(t, browser, stage.url, 'storage', { locale })
    await page.route('**/api/health/detail', async route => {
      const response = await route.fetch()
      const cure = 'Renew it: the hub reads the file again'
      const certificates = [{ name: 'The certificate "a"', expiresAt: '2020-01-01T00:00:00.000Z', cure }]
      await route.fulfill({ response, json: { ...(await response.json()), certificates } })
    })
    await page.goto(`${stage.url}/system`)
    await page.locator('.checks .warning').getByText(says).waitFor()
  }
})

t.test('a day of history', { skip }, async t => {
  const photograph = photographer('history')
  const stage = await startServer(t)
  const { page, watch } = await openDuring(t, browser, stage.url, 'system')
  await page.getByText('The first data appears after one minute.').waitFor()
  await stage.server.stop({ wait: false })
  const store = await openStore({ directory: stage.home.directory })
  const minuteMs = 60_000
  const nowMs = Math.floor(Date.now() / minuteMs) * minuteMs
  await store.write(tx =>
    insertMachineMinutes(
      tx,
      Array.from({ length: 24 * 60 }, (_, n) => n)
        .filter(n => n < 700 || n > 800)
        .map(n => ({
          at: new Date(nowMs - n * minuteMs).toISOString(),
          cpuPercent: 30 + 25 * Math.sin(n / 90),
          processCpuPercent: 2,
          memoryUsedBytes: 5e9 + 1e9 * Math.sin(n / 200),
          memoryTotalBytes: 16e9,
          memoryRssBytes: 8e7,
          diskUsedPercent: 61,
          diskFreeBytes: 4e10,
          load: 1 + Math.sin(n / 60),
          succeeded: n % 40 === 0 ? 1 : 0,
          failed: n % 170 === 0 ? 1 : 0
        }))
    )
  )
  await store.close()
  await stage.restart()
  watch.complaints.length = 0
  const again = await openDuring(t, browser, stage.url, 'system')
  await again.page
    .getByRole('img', { name: /^Deployments of the last 24 hours: 3\d succeeded, [789] failed$/ })
    .waitFor()
  for (const what of ['Processor', 'Memory', 'Disk', 'Load']) {
    await again.page.getByRole('img', { name: new RegExp(`^${what}: between .* in the last 24 hours`) }).waitFor()
  }
  await photograph(again.page, 'desktop', { isWhole: true })
  await again.page.setViewportSize(phone)
  await photograph(again.page, 'phone', { isWhole: true })
  t.ok(await isWithin(again.page), 'nothing sticks out at the side')
  t.same(again.watch.complaints, [])
})

t.test('storage: what is kept, and what may go', { skip }, async t => {
  const photograph = photographer('storage')
  const stage = await startServer(t)
  const shop = await stage.createProject('storefront')
  const docs = await stage.createProject('docs-with-a-name-that-is-longer-than-the-space-there-is-for-it')
  const bytes = await zipOf({ 'index.html': Buffer.alloc(200_000, 'x') })
  for (const { id, token } of [shop, shop, shop, docs]) {
    await stage.as(token).upload([
      ['projectId', id],
      ['file', { filename: 'a.zip', bytes }]
    ])
  }
  const archives = (): number =>
    readdirSync(join(stage.home.directory, 'deployments')).filter(name => name.endsWith('.zip')).length
  t.equal(archives(), 4)

  const { page, watch } = await openDuring(t, browser, stage.url, 'storage')
  await page.getByRole('heading', { level: 1, name: /in use$/ }).waitFor()
  await page
    .getByRole('img', { name: /^Archives and earlier files: .*, Output and file lists: .*, Database: / })
    .waitFor()
  t.match(await page.locator('.projects a').first().textContent(), /^\s*storefront/, 'the largest first')
  t.equal(await page.getByLabel('Archives to keep per project').inputValue(), '10', 'as the setting says')
  await photograph(page, 'desktop', { isWhole: true })

  await page.getByLabel('Archives to keep per project').fill('none')
  await page.getByRole('button', { name: 'Preview…' }).click()
  await page.locator('#clean-keep-error').waitFor()
  t.match(watch.complaints.splice(0), [/400.*\/api\/storage\/clean/])
  await page.getByLabel('Archives to keep per project').fill('10')
  await page.getByRole('button', { name: 'Preview…' }).click()
  await page.getByText('Nothing to delete').waitFor()
  await page.getByRole('button', { name: 'Close' }).click()

  await page.getByLabel('Archives to keep per project').fill('1')
  await page.getByLabel('Scope').selectOption({ label: 'storefront' })
  await page.getByRole('button', { name: 'Preview…' }).click()
  await page.getByRole('dialog').getByText('2 archives').waitFor()
  await photograph(page, 'trial-desktop')
  t.equal(archives(), 4, 'a trial removes nothing')
  await page.getByRole('button', { name: 'Delete 2 files' }).click()
  await page.getByText(/ freed$/).waitFor()
  t.equal(archives(), 2)
  t.ok(existsSync(join(shop.deployPath, 'index.html')), 'targets stay')

  await page.setViewportSize(phone)
  await photograph(page, 'phone', { isWhole: true })
  t.ok(await isWithin(page), 'nothing sticks out at the side')
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])
})

t.test('the audit log: who did what, from where, and what failed', { skip }, async t => {
  const photograph = photographer('audit')
  const stage = await startServer(t)
  const shop = await stage.createProject('storefront')
  await stage.as(null).post('/api/auth/login', { token: 'wrong' })
  const bytes = await zipOf({ 'index.html': 'one' })
  await stage.as(shop.token).upload([
    ['projectId', shop.id],
    ['file', { filename: 'a.zip', bytes }]
  ])
  for (let count = 0; count < 110; count++)
    await stage.client.put('/api/settings', { keep_archives: String(10 + (count % 2)) })

  const { page, watch } = await openDuring(t, browser, stage.url, 'audit?action=auth.login_failed')
  const row = page.locator('.entries li')
  await row.first().waitFor()
  t.equal(await row.count(), 1)
  t.match(await row.textContent(), /Sign-in refused\s*Failed/)
  t.equal(await page.getByLabel('Filter by action').inputValue(), 'auth.login_failed')

  await page.getByLabel('Filter by action').selectOption('')
  await page.getByText('100 lines').waitFor()
  await page.getByRole('button', { name: 'Load more' }).click()
  await page.getByText(/^11\d lines$/).waitFor()
  await row.getByText('Project created').waitFor()
  t.equal(await page.getByRole('button', { name: 'Load more' }).count(), 0)
  await photograph(page, 'desktop')

  await page.getByLabel('Filter by project').selectOption({ label: 'storefront' })
  await page.getByText('3 lines').waitFor()
  t.match(page.url(), /audit\?project=proj_\w+$/)
  t.match(await row.first().textContent(), /Deployment ended\s*storefront · dep_\w+ · Status: Success/i)
  const pushed = row.filter({ hasText: 'Archive pushed' })
  t.match(await pushed.textContent(), /Archive pushed\s*storefront · dep_\w+\s*the deploy token of storefront/)
  t.equal(await page.locator('svc-page-audit h2.day').count(), 1)
  const created = row.filter({ hasText: 'Project created' })
  await created.locator('summary').focus()
  await page.keyboard.press('Enter')
  await created.locator('.changes').getByText('Directory on the server').waitFor()
  t.match(await created.locator('dl').textContent(), /127\.0\.0\.1.*proj_\w+.*storefront.*project\.create/)
  await page.getByLabel('Filter by period').selectOption('7')
  await page.getByText('3 lines').waitFor()
  t.match(page.url(), /days=7$/)
  await page.goBack()
  await photograph(page, 'project-desktop')
  await page.getByLabel('Filter by action').selectOption('migration.import')
  await page.getByRole('heading', { name: 'No matches' }).waitFor()
  await page.goBack()
  await page.getByText('3 lines').waitFor()
  await page.setViewportSize(phone)
  await photograph(page, 'phone')
  t.ok(await isWithin(page), 'nothing sticks out at the side')
  await pushed.locator('summary').click()
  await pushed.getByRole('link', { name: /^dep_/ }).click()
  await page.waitForURL(/\/deployments\/dep_/)
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])
})
