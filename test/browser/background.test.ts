import { open } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { desktop, isWithin, onPhone, openDuring, photographer } from './stage.js'
import { survey } from './survey.js'

/* A script in the background that fails after its deployment has succeeded: said where the deployment is shown. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('background')

t.test('a failure in the background is beside the status everywhere', { skip }, async t => {
  const stage = await startServer(t)
  const postDeployScript = 'mkfifo ../go; cat ../go; echo no such table; exit 4'
  const project = await stage.createProject('storefront', { postDeployScript, postDeployAsync: true })
  const file = { filename: 'site.zip', bytes: await zipOf({ 'index.html': '<h1>one</h1>' }) }
  const message = 'A message that is long enough to be cut on a telephone'
  const { headers } = await stage.as(project.token).upload([
    ['projectId', project.id],
    ['message', message],
    ['file', file]
  ])
  const id = String(headers['x-svc-deploy-id'])

  const { page } = await openDuring(t, browser, stage.url, `deployments/${id}`, { viewport: desktop })
  const step = page.locator('svc-steps li', { hasText: 'Post-deploy script, in the background' })
  await page.locator('svc-steps li[data-state=running]', { hasText: 'in the background' }).waitFor()
  t.equal(await page.locator('svc-background-failure').count(), 0)
  await (await open(join(stage.sites, 'go'), 'w')).close()
  await page.locator('.verdict svc-background-failure').waitFor()
  await page.locator('.verdict svc-status[state=failed]').waitFor()
  await page.locator('svc-log').getByText('no such table').first().waitFor()
  t.match(await step.textContent(), /failed[^]*exit 4/)
  t.same(await survey(page), [])
  await photograph(page, 'deployment')

  for (const [name, path] of [
    ['list', 'deployments'],
    ['project', `projects/${project.id}`],
    ['overview', '']
  ] as const) {
    await page.goto(`${stage.url}/${path}`)
    await page.locator('svc-deployments a', { hasText: 'Failed in the background' }).waitFor()
    t.same(await survey(page), [], name)
    await photograph(page, name)
  }
  const { page: small } = await openDuring(t, browser, stage.url, 'deployments', onPhone)
  await small.locator('svc-background-failure').waitFor()
  t.ok(await isWithin(small))
  t.same(await survey(small), [])
  await photograph(small, 'phone-list')
  await small.goto(`${stage.url}/deployments/${id}`)
  await small.locator('.verdict svc-background-failure').waitFor()
  t.ok(await isWithin(small))
  await photograph(small, 'phone-deployment')
})
