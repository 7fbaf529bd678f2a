/*
 * Where a page says that a deployment waits: also before the server was asked what waits, and on a phone without cutting off
 * the time until which somebody must decide.
 */
import t from 'tap'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { desktop, isWithin, onPhone, openDuring, photographer } from './stage.js'
import { survey, violations } from './survey.js'

const { browser, skip } = await startChromium(t)
const photograph = photographer('waiting-places')

/** A project whose deployment waits for an approval, all of it with long names, and more deployments than one screen shows. */
async function startWaiting(t: Parameters<typeof startServer>[0]) {
  const stage = await startServer(t)
  const name = 'storefront-of-the-northern-warehouse-europe-production'
  const project = await stage.createProject(name, { deployPath: `${stage.sites}/shop` })
  const push = async (message: string) =>
    stage.as(project.token).upload([
      ['projectId', project.id],
      ['message', message],
      ['file', { filename: 'a.zip', bytes: await zipOf({ 'index.html': message }) }]
    ])
  for (let at = 0; at < 3; at++) await push(`Release ${at}`)
  await stage.client.put(`/api/projects/${project.id}`, {
    policy: { approval: { count: 1, roles: ['operator'], notPusher: false, hours: 48 } }
  })
  const pushed = push('Replace the payment provider and lower the prices of everything in the winter sale')
  await until(async () => ((await stage.client.get('/api/marks')).body as { waiting: unknown[] }).waiting.length === 1)
  return { stage, project, pushed }
}

t.test('a project with something that waits says so on every tab, before the marks are known', { skip }, async t => {
  const { stage, project } = await startWaiting(t)
  const { page } = await openDuring(t, browser, stage.url, '', { viewport: desktop })
  await page.route('**/api/marks*', () => {})
  for (const tab of ['', '/files', '/settings']) {
    await page.goto(`${stage.url}/projects/${project.id}${tab}`)
    await page.locator('.page-head svc-status[state=waiting]').waitFor()
    t.equal(await page.getByText('Queued').count(), 0, tab)
  }
  await page.goto(`${stage.url}/projects/${project.id}`)
  await page.locator('svc-deployments svc-marked').getByText('waits for approval until').first().waitFor()
})

t.test('a phone shows until when something waits, in every list', { skip }, async t => {
  const { stage, project } = await startWaiting(t)
  const whole = `[...document.querySelectorAll('svc-marked')].map(each =>
    [each, ...each.querySelectorAll('*')].every(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth || clientWidth === 0))`
  for (const locale of ['en-US', 'zh-CN']) {
    const { page } = await openDuring(t, browser, stage.url, '', { ...onPhone, locale })
    for (const place of ['', 'projects', 'deployments', `projects/${project.id}`]) {
      await page.goto(`${stage.url}/${place}`)
      await page.locator('main svc-marked').first().waitFor()
      const name = `${place.replace(/\W/g, '-').replace(project.id, 'one')}-${locale}`
      t.same(await page.evaluate(whole).then(found => (found as boolean[]).filter(isWhole => !isWhole)), [], name)
      t.ok(await isWithin(page), name)
      t.same([...(await survey(page)), ...(await violations(page))], [], name)
      await photograph(page, `phone-${name}`)
    }
  }
})
