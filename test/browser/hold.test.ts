import t from 'tap'
import { openStore } from '../../lib/core/store/durable-store.js'
import { updateProject } from '../../lib/core/store/tables/projects.js'
import type { Marks, Waiting } from '../../lib/model/marks.js'
import { gateOf, statusServer } from '../support/held.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { openWatched, startChromium } from './chromium.js'
import { desktop, giveSession, holds, onPhone, openDuring, photographer, until } from './stage.js'
import { survey } from './survey.js'

/*
 * The page of a deployment that is held: its checks, the time to confirm it, and both decisions. With PICTURES=1 in the
 * environment pictures are left in dist/screens.
 */

const { browser, skip } = await startChromium(t)
const photograph = photographer('hold')

t.test('five deployments that wait are shown, and the others on request', { skip }, async t => {
  const stage = await startServer(t)
  const bytes = await zipOf({ 'index.html': 'one' })
  for (let n = 0; n < 7; n++) {
    const { id, token } = await stage.createProject(`site-${n}`, { policy: { confirm: { seconds: 3600 } } })
    const pushed = stage.as(token).upload([
      ['projectId', id],
      ['file', { filename: 'site.zip', bytes }]
    ])
    // Its output never ends.
    pushed.catch(() => {})
  }
  await until(async () => (await stage.client.get('/api/marks')).body.waiting.length === 7)
  const { page } = await openDuring(t, browser, stage.url, '', { viewport: desktop })
  const names = page.locator('svc-waiting .mine .head a')
  await names.nth(4).waitFor()
  t.equal(await names.count(), 5)
  await page.getByRole('button', { name: 'Show 2 more' }).press('Enter')
  await names.nth(6).waitFor()
  await holds(page, `document.activeElement === document.querySelectorAll('svc-waiting .mine .head a')[5]`)
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'many')
})

t.test('who must decide sees it everywhere: title, overview, lists, page of the project', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('storefront')
  const other = await stage.createProject('library', { postDeployScript: 'exit 4', postDeployAsync: true })
  const bytes = await zipOf({ 'index.html': 'one' })
  const push = (project: { id: string; token: string }, confirm: string) =>
    stage
      .as(project.token)
      .upload([
        ['projectId', project.id],
        ...(confirm === '' ? [] : [['confirmSeconds', confirm] as [string, string]]),
        ['file', { filename: 'site.zip', bytes }]
      ])
  await push(other, '')
  const pushed = push(shop, '3600')
  pushed.catch(() => {})
  const marks = async () => (await stage.client.get('/api/marks')).body as Marks
  await until(async () => (await marks()).waiting.length === 1 && (await marks()).failedInBackground.length === 1)
  await stage.client.put(`/api/projects/${other.id}/lock`, { reason: 'audit' })
  const { deployId } = (await marks()).waiting[0] as Waiting

  const { page, watch } = await openDuring(t, browser, stage.url, '', { viewport: desktop })
  const card = page.locator('svc-waiting .mine')
  await card.getByText(/^waits for confirmation until (\d+ \w+ )?\d\d:\d\d$/).waitFor()
  t.equal(await page.title(), '● 1 waiting – Overview · svc')
  t.ok(
    await page.evaluate(
      `document.querySelector('svc-waiting').getBoundingClientRect().top < document.querySelector('svc-broken').getBoundingClientRect().top`
    )
  )
  t.same(await survey(page), [])
  await photograph(page, 'overview-desktop')
  await page.goto(`${stage.url}/projects`)
  const rows = page.locator('svc-project-list .row')
  await rows
    .filter({ hasText: 'storefront' })
    .getByText(/^waits for confirmation until/)
    .waitFor()
  const library = rows.filter({ hasText: 'library' })
  await rows.filter({ hasText: 'storefront' }).locator('svc-status[state=waiting]').waitFor()
  await library.getByText('locked', { exact: true }).waitFor()
  await library.locator('svc-status[state=failed]').waitFor()
  await photograph(page, 'projects-desktop')
  t.same(await survey(page), [])
  await page.goto(`${stage.url}/projects?status=failed`)
  await rows.filter({ hasText: 'library' }).waitFor()
  t.equal(await rows.count(), 1, 'the filter means the status that is shown')
  await page.goto(`${stage.url}/deployments`)
  await page.locator('svc-deployments svc-status[state=waiting]').waitFor()
  await photograph(page, 'deployments-desktop')
  t.same(await survey(page), [])
  await page.goto(`${stage.url}/projects/${shop.id}`)
  await page.locator('.facts a svc-marked').waitFor()
  await photograph(page, 'project-desktop')
  await page
    .locator('.facts a')
    .filter({ has: page.locator('svc-marked') })
    .click()
  await page.locator('.verdict svc-status[state=waiting]').waitFor()
  t.match(page.url(), new RegExp(`/deployments/${deployId}$`), 'the link leads to the decision')

  const { token } = (await stage.client.post('/api/tokens', { name: 'watcher', role: 'viewer' })).body
  const small = await openWatched(browser, stage.url, { ...onPhone, locale: 'zh-CN' })
  t.teardown(() => small.context.close())
  await giveSession(small.context, stage.url, token)
  await small.page.goto(`${stage.url}/`)
  await small.page.getByText('等待他人决定').waitFor()
  await small.page.getByText('由发起部署的令牌、操作员或管理员决定。').waitFor()
  t.equal(await small.page.title(), '概览 · svc', 'nothing waits for a viewer')
  t.same(await survey(small.page), [])
  await photograph(small.page, 'overview-viewer-phone-zh')
  await small.page.goto(`${stage.url}/projects`)
  await small.page.locator('svc-marked').first().waitFor()
  t.same(await survey(small.page), [])
  await photograph(small.page, 'projects-phone-zh')
  await small.page.goto(`${stage.url}/deployments`)
  await small.page.locator('svc-marked').first().waitFor()
  await photograph(small.page, 'deployments-phone-zh')
  t.same(await survey(small.page), [])

  await page.goto(`${stage.url}/deployments/${deployId}?decide=revert`)
  await holds(page, `document.activeElement?.textContent.includes('Revert now')`)
  t.equal((await marks()).waiting.length, 1, 'the link of a message changes nothing')
  await page.getByRole('button', { name: 'Confirm' }).click()
  await page.locator('.verdict svc-status[state=success]').waitFor()
  await holds(page, `!document.title.startsWith('●')`)

  const [failed] = (await stage.client.get(`/api/logs?projectId=${other.id}`)).body
  await page.goto(`${stage.url}/deployments/${failed.id}`)
  await page.getByRole('button', { name: 'Deploy again…' }).waitFor()
  await page.locator('.verdict svc-status[state=failed]').waitFor()
  t.equal(await page.getByRole('button', { name: 'Roll back to this…' }).count(), 0, 'its script failed')
  t.same([...watch.complaints, ...small.watch.complaints], [])
})

t.test('shows the checks and the time that is left, and takes the decision', { skip }, async t => {
  const stage = await startServer(t)
  const checked = await statusServer(t)
  const { id, token } = await stage.createProject('storefront')
  await stage.server.stop({ wait: false })
  const store = await openStore(stage.home)
  const policy = { gate: gateOf([{ http: checked.url }, { command: 'test -e index.html' }], { deadline: 60 }) }
  await store.write(tx => updateProject(tx, id, { policy }))
  await store.close()
  await stage.restart()
  const push = async (text: string) => {
    const pushed = stage.as(token).upload([
      ['projectId', id],
      ['confirmSeconds', '3600'],
      ['file', { filename: 'site.zip', bytes: await zipOf({ 'index.html': text }) }]
    ])
    pushed.catch(() => {})
    for (;;) {
      const [row] = (await stage.client.get('/api/logs?limit=1&status=running')).body as Array<{ id: string }>
      if (row !== undefined) return row.id
    }
  }

  checked.status = 503
  const first = await push('one')
  const { page, watch } = await openDuring(t, browser, stage.url, `deployments/${first}`, { viewport: desktop })
  const hold = page.locator('svc-hold')
  await hold.getByText('503').waitFor()
  await hold.getByRole('button', { name: 'Revert now' }).waitFor()
  t.equal(await hold.getByRole('button', { name: 'Confirm' }).count(), 0, 'not before the checks have passed')
  await photograph(page, 'checks-desktop')
  checked.status = 200
  await hold.getByRole('timer').waitFor()
  t.match(await hold.getByRole('timer').textContent(), /^(1 h|59 min)/)
  await photograph(page, 'waiting-desktop')
  t.same(await survey(page), [])
  await hold.getByRole('button', { name: 'Confirm' }).click()
  await page.locator('.verdict svc-status[state=success]').waitFor()
  t.equal(await hold.getByRole('button').count(), 0)

  const second = await push('two')
  const small = await openDuring(t, browser, stage.url, `deployments/${second}`, {
    ...onPhone,
    locale: 'zh-CN',
    colorScheme: 'dark'
  })
  await small.page.getByRole('timer').waitFor()
  const red = (await small.page.locator('button.danger').allTextContents()).map(text => text.trim())
  t.same(red, ['立即恢复'], 'a cancel, which does the same, is not offered above the decision')
  await photograph(small.page, 'waiting-phone-dark-zh')
  t.same(await survey(small.page), [])
  await small.page.getByRole('button', { name: '立即恢复' }).click()
  await small.page.locator('.verdict svc-status[state=failed]').waitFor()
  await photograph(small.page, 'reverted-phone-dark-zh')
  const overview = page.waitForResponse(/\/overview$/)
  await page.goto(`${stage.url}/deployments/${second}`)
  await page.getByRole('button', { name: 'Deploy again…' }).waitFor()
  await (await overview).finished()
  t.equal(await page.getByRole('button', { name: 'Roll back to last successful…' }).count(), 0, 'it is live already')
  t.match((await stage.client.get(`/api/logs/${second}`)).body, { revertReason: 'operator', placed: null })
  t.same([...watch.complaints, ...small.watch.complaints], [])
})
