import t from 'tap'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { openWatched, startChromium } from './chromium.js'
import { comeBack, desktop, holds, phone, photographer, signIn } from './stage.js'

/* The first page of a server that is in use: its answer and its charts. What it costs: weights.test.ts. */

const { browser, skip } = await startChromium(t)

t.test('the overview of a server in use', { skip }, async t => {
  const stage = await startServer(t)
  const photograph = photographer('overview-used')
  const shop = await stage.createProject('storefront')
  const docs = await stage.createProject('a-very-long-name-of-a-project-that-documents-everything-there-is', {
    postDeployScript: 'exit 3'
  })
  for (const { id } of [shop, docs]) await stage.client.put(`/api/projects/${id}/pin`, { pinned: true })
  const bytes = await zipOf({ 'index.html': 'one' })
  const push = (project: { id: string; token: string }, message = '') =>
    stage.as(project.token).upload([
      ['projectId', project.id],
      ['message', message],
      ['file', { filename: 'a.zip', bytes }]
    ])
  for (const project of [shop, docs, shop, shop]) await push(project)

  const { page, watch, context } = await openWatched(browser, new URL(stage.url).origin, { viewport: desktop })
  t.teardown(() => context.close())
  await page.goto(stage.url)
  await signIn(page)
  await page.getByRole('heading', { level: 1, name: /^a-very-long-name.* failed to deploy$/ }).waitFor()
  await stage.client.put(`/api/projects/${docs.id}`, { postDeployScript: '' })
  await push(docs)
  await page.reload()
  await page.getByRole('heading', { level: 1, name: /^a-very-long-name.* is deployed$/ }).waitFor()
  await page.waitForLoadState('networkidle')

  t.equal(await page.locator('.pinned a').count(), 2)
  t.equal(await page.locator('svc-deployments li').count(), 5)
  await page.locator('[data-late=trends]').scrollIntoViewIfNeeded()
  await page.getByRole('img', { name: 'Deployments of the last 30 days: 4 succeeded, 1 failed' }).waitFor()
  await page
    .getByRole('img', {
      name: /^Deployments of the last six months: 5; the busiest day was .*: 4 succeeded, 1 failed$/
    })
    .waitFor()
  t.equal(await page.locator('svc-trends .cross:not(.under)').count(), 1, 'one day has a failure')
  await photograph(page, 'desktop', { isWhole: true })

  await page.getByRole('link', { name: 'Projects', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor()
  await page.goBack()
  await page.getByRole('img', { name: /^Processor: / }).waitFor()
  await holds(page, `document.querySelector('svc-machine').readings.length >= 2`)
  t.match(
    await page.locator('svc-machine .line').first().getAttribute('d'),
    /^M[\d.]+ [\d.]+L/,
    'the history outlives the page'
  )

  await page.setViewportSize(phone)
  await photograph(page, 'phone', { isWhole: true })
  // One word that is wider than the phone.
  await push(docs, 'm'.repeat(120))
  await comeBack(page, page.locator('.answer', { hasText: 'mmm' }))
  t.equal(await page.evaluate('document.documentElement.scrollWidth'), phone.width, 'nothing sticks out at the side')

  await stage.client.put(`/api/projects/${shop.id}`, { postDeployScript: 'sleep 30' })
  const going = push(shop)
  await comeBack(page, page.getByRole('heading', { level: 1, name: 'Deploying storefront' }))
  const [{ id }] = (await stage.client.get('/api/logs?limit=1')).body
  await stage.client.post(`/api/deployments/${id}/cancel`)
  await going
  await comeBack(page, page.getByRole('heading', { level: 1, name: 'storefront failed to deploy' }))
  t.match(await page.getByRole('link', { name: 'See why' }).getAttribute('href'), `deployments/${id}`)

  // The overlays are loaded with the first shortcut, which also opens the pages for administrators.
  await page.setViewportSize(desktop)
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Search and commands' }).fill('script_timeout')
  await page.getByRole('option', { name: /^script_timeout/ }).click()
  await holds(page, `document.activeElement.id === 'setting-script_timeout'`)
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Search and commands' }).fill('auth.login')
  await page
    .getByRole('option', { name: /^Signed in/ })
    .first()
    .click()
  await page.locator('.entries').getByText('Signed in').first().waitFor()
  await page.locator('body').press('g')
  await page.locator('body').press('o')
  await page.getByRole('heading', { level: 1, name: 'storefront failed to deploy' }).waitFor()
  t.same(watch.complaints, [], 'the console is quiet')
  t.same(watch.foreign, [])
})
