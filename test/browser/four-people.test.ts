/*
 * A day of four people in the panel, on one server, from one to the next: a developer deploys to staging, an engineer promotes
 * the release, a manager approves it on a phone and in Chinese, a bad release breaks production and is rolled back, and an
 * auditor finds all of it. Each page is surveyed. With PICTURES=1 pictures are left in dist/screens.
 */
import t from 'tap'
import type { Page } from 'playwright-core'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { openWatched, startChromium } from './chromium.js'
import { type ContextOptions, desktop, giveSession, isWithin, onPhone, photographer } from './stage.js'
import { survey, violations } from './survey.js'

const { browser, skip } = await startChromium(t)
const photograph = photographer('people')

t.test('a day of four people', { skip }, async t => {
  const stage = await startServer(t)
  const { client } = stage
  const staging = await stage.createProject('shop-staging', { env: 'staging' })
  const shop = await stage.createProject('shop')
  const approval = { count: 1, roles: ['operator'], notPusher: true, hours: 24 }
  const policy = { approval, promoteFrom: { projectId: staging.id, soakMinutes: 0 } }
  await client.put(`/api/projects/${shop.id}`, { policy })
  const person = async (name: string, role: string, options: ContextOptions) => {
    const { token } = (await client.post('/api/tokens', { name, role })).body as { token: string }
    const opened = await openWatched(browser, stage.url, options)
    t.teardown(() => opened.context.close())
    await giveSession(opened.context, stage.url, token)
    await opened.page.goto(stage.url)
    return opened
  }
  const [dan, ana, ben, eve] = [
    await person('dan', 'deployer', { viewport: desktop }),
    await person('ana', 'operator', { viewport: desktop, colorScheme: 'dark' }),
    await person('ben', 'operator', { ...onPhone, locale: 'zh-CN' }),
    await person('eve', 'operator', { viewport: desktop, colorScheme: 'dark' })
  ]
  const look = async (page: Page, name: string): Promise<void> => {
    t.ok(await isWithin(page), name)
    t.same([...(await survey(page)), ...(await violations(page))], [], name)
    await photograph(page, name, { isWhole: true })
  }
  const deploy = async (text: string): Promise<void> => {
    await dan.page.goto(`${stage.url}/projects/${staging.id}`)
    const buffer = await zipOf({ 'index.html': text, 'app.js': `"${text}"` })
    const file = { name: 'site.zip', mimeType: 'application/zip', buffer }
    const input = dan.page.locator('input[type=file]:not([webkitdirectory])')
    const button = dan.page.getByRole('button', { name: 'Deploy…' })
    // The first deployment begins on the page itself.
    await input.or(button).first().waitFor({ state: 'attached' })
    if (await button.isVisible()) await button.click()
    await input.setInputFiles(file)
    const dialog = dan.page.getByRole('dialog')
    await dialog.getByText('2 files').first().waitFor()
    await look(dan.page, `developer-deploys-${text}`)
    await dialog.getByRole('button', { name: 'Deploy', exact: true }).click()
    await dan.page.waitForURL(/\/deployments\/dep_/)
  }
  const ended = (page: Page, state: string) => page.locator(`.verdict svc-status[state=${state}]`).waitFor()
  const promote = async (name: string): Promise<void> => {
    await ana.page.goto(`${stage.url}/projects?view=families`)
    const family = ana.page.locator('svc-families section').filter({ hasText: 'shop' })
    await family.getByRole('link', { name: 'Promote to production…' }).waitFor()
    await look(ana.page, `engineer-compares-${name}`)
    await family.getByRole('link', { name: 'Promote to production…' }).click()
    const dialog = ana.page.getByRole('dialog')
    await dialog.getByText(/added\.|No file differs/).waitFor()
    await look(ana.page, `engineer-promotes-${name}`)
    await dialog.getByRole('button', { name: 'Promote', exact: true }).click()
    await ana.page.locator('svc-approval').getByText('You have started it').waitFor()
    await look(ana.page, `engineer-waits-${name}`)
  }
  const approve = async (name: string): Promise<void> => {
    await ben.page.goto(stage.url)
    await ben.page.locator('svc-waiting .mine').getByRole('link').first().waitFor()
    await look(ben.page, `manager-overview-${name}`)
    await ben.page.locator('svc-waiting .mine').getByRole('link', { name: '去决定…' }).click()
    await ben.page.locator('svc-approval').getByText('index.html').waitFor()
    await look(ben.page, `manager-decides-${name}`)
    await ben.page.getByRole('button', { name: '批准…' }).click()
    await ben.page.locator('dialog[open]').getByRole('button', { name: '批准', exact: true }).click()
  }

  await deploy('one')
  await ended(dan.page, 'success')
  await look(dan.page, 'developer-deployed')
  await promote('one')
  await approve('one')
  await ended(ben.page, 'success')
  await look(ben.page, 'manager-approved')
  await ended(ana.page, 'success')

  await client.put(`/api/projects/${shop.id}`, { postDeployScript: 'grep -q two index.html && exit 3; exit 0' })
  await deploy('two')
  await promote('two')
  await approve('two')
  await ended(ben.page, 'failed')
  await look(ben.page, 'manager-failed')

  await ana.page.goto(stage.url)
  await ana.page.getByRole('heading', { name: 'Broken now' }).waitFor()
  await look(ana.page, 'engineer-broken')
  await ana.page.locator('svc-broken').getByRole('link', { name: 'Roll back…' }).click()
  await ana.page.getByRole('button', { name: 'Roll back to this…' }).click()
  await ana.page
    .getByRole('dialog')
    .getByText(/restored|replaced/)
    .waitFor()
  await look(ana.page, 'engineer-rolls-back')
  await ana.page.getByRole('button', { name: 'Roll back', exact: true }).click()
  await ended(ana.page, 'success')
  await ana.page.goto(stage.url)
  await ana.page.locator('main h1').waitFor()
  await ana.page.getByRole('heading', { name: 'Broken now' }).waitFor({ state: 'detached' })
  t.match((await client.get(`/api/projects/${shop.id}`)).body.status, 'success')

  await eve.page.goto(`${stage.url}/audit?project=${shop.id}`)
  const entries = eve.page.locator('.entries li')
  await eve.page.locator('.entries li').first().waitFor()
  for (const what of ['Rollback started', 'Deployment approved', 'Release promoted'])
    await entries
      .filter({ hasText: new RegExp(what, 'i') })
      .first()
      .waitFor()
  await look(eve.page, 'auditor-log')
  await eve.page.goto(`${stage.url}/projects/${shop.id}`)
  await eve.page.locator('svc-deployments li').first().waitFor()
  await look(eve.page, 'auditor-project')
  t.same(
    [dan, ana, ben, eve].flatMap(({ watch }) => watch.complaints),
    []
  )
})
