import t from 'tap'
import { startServer } from '../support/server.js'
import { startChromium } from './chromium.js'
import { onPhone, openSignedIn, photographer, stillDesktop } from './stage.js'
import { survey } from './survey.js'

/* Locks in a real browser: placed and removed on the page of a project, taken over, and listed in the overview. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('locks')

t.test('a project is locked and unlocked on its page', { skip }, async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('storefront')
  const { page, watch } = await openSignedIn(browser, stage.url, `projects/${project.id}`, stillDesktop)
  await page.getByRole('button', { name: 'Lock…', exact: true }).click()
  t.same(await survey(page), [], 'the dialog is readable and named')
  await photograph(page, 'dialog-desktop')
  await page.getByLabel('Reason').fill('audit until Friday')
  await page.getByLabel('Expires after').selectOption('1 week')
  await page.getByRole('button', { name: 'Lock', exact: true }).click()
  await page.getByText('This project is locked').waitFor()
  t.match((await stage.client.get('/api/locks')).body, [{ reason: 'audit until Friday', owner: 'admin' }])
  t.same(await survey(page), [])
  await photograph(page, 'bar-desktop')
  t.equal(
    await page.getByRole('button', { name: 'Lock…', exact: true }).count(),
    0,
    'a locked project is not locked again'
  )

  await page.getByRole('button', { name: 'Unlock…' }).click()
  await photograph(page, 'unlock-desktop')
  await page.getByRole('button', { name: 'Unlock', exact: true }).click()
  await page.getByRole('button', { name: 'Lock…', exact: true }).waitFor()
  t.same((await stage.client.get('/api/locks')).body, [])
  t.same(watch.complaints, [])
})

t.test('a lock of a deploy token is taken over with a reason, and the overview lists locks', { skip }, async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('storefront')
  await stage.as(project.token).put(`/api/projects/${project.id}/lock`, { reason: 'release train' })
  await stage.client.put('/api/lock', { reason: 'moving to a new disk' })
  const { page, watch } = await openSignedIn(browser, stage.url, '', { ...onPhone, locale: 'zh-CN' })
  await page.getByText('整个服务器已锁定').waitFor()
  await page.getByText('release train').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'overview-phone-zh')

  await page.goto(`${stage.url}/projects/${project.id}`)
  await page.getByText('锁定者：storefront 的部署令牌').waitFor()
  await photograph(page, 'bar-phone-zh')
  await page.getByRole('button', { name: '接管…' }).click()
  t.same(await survey(page), [])
  await photograph(page, 'take-over-phone-zh')
  await page.getByRole('textbox').fill('urgent fix')
  await page.getByRole('button', { name: '接管', exact: true }).click()
  await page.locator('svc-locks .why', { hasText: 'release train' }).waitFor({ state: 'detached' })
  t.match((await stage.client.get('/api/locks')).body, [{ projectId: null }])
  const [entry] = (await stage.client.get('/api/audit')).body.items
  t.match(entry, { action: 'project.unlock', detail: /urgent fix$/ })
  t.same(watch.complaints, [])
})
