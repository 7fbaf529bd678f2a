import { existsSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import {
  comeBack,
  desktop,
  holds,
  isWithin,
  onPhone,
  openDuring,
  phone,
  photographer,
  stillDesktop,
  until
} from './stage.js'
import { survey } from './survey.js'

/* What is broken now, on the overview and on the page of a project, and what a page says that has lost its server. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('overview-broken')
const bytes = await zipOf({ 'index.html': 'one' })
const longName = 'a-very-long-name-of-a-project-that-documents-everything-there-is-and-then-some-more'

type Scripts = Partial<{ preDeployScript: string; postDeployScript: string; postDeployAsync: boolean }>
const none = { preDeployScript: '', postDeployScript: '', postDeployAsync: false }

/** Deploys with these scripts; gives the id once everything of it has ended. */
async function deploy(stage: Stage, project: { id: string; token: string }, scripts: Scripts = {}): Promise<string> {
  await stage.client.put(`/api/projects/${project.id}`, { ...none, ...scripts })
  const { headers } = await stage.as(project.token).upload([
    ['projectId', project.id],
    ['message', 'Version of the day'],
    ['file', { filename: 'a.zip', bytes }]
  ])
  const id = String(headers['x-svc-deploy-id'])
  await until(async () =>
    (await stage.client.get(`/api/logs/${id}`)).body.steps.every(
      ({ endedAt }: { endedAt: string | null }) => endedAt !== null
    )
  )
  return id
}

t.test('what is broken now leads the overview, with the ways to the cause and back', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('storefront')
  const docs = await stage.createProject(longName)
  const good = await deploy(stage, shop)
  const { page, watch } = await openDuring(t, browser, stage.url, '', stillDesktop)
  await page.getByRole('heading', { level: 1, name: 'storefront is deployed' }).waitFor()
  await page.getByText('No project is broken.').waitFor()
  t.equal(await page.locator('svc-broken').count(), 0)

  await deploy(stage, docs, { preDeployScript: 'echo no; exit 7' })
  await comeBack(page, page.getByRole('heading', { level: 1, name: `${longName} failed to deploy` }))
  const bad = await deploy(stage, shop, { postDeployScript: 'exit 3', postDeployAsync: true })
  await deploy(stage, docs, { preDeployScript: 'echo no; exit 7' })
  await comeBack(page, page.getByRole('heading', { level: 1, name: '2 projects are broken' }))
  const rows = page.locator('svc-broken li')
  t.match(
    await rows.last().textContent(),
    new RegExp(`${longName}[^]*exit[^]*No deployment has succeeded yet`),
    'the one that broke last comes first'
  )
  t.match(await rows.first().textContent(), /storefront[^]*failed in the background[^]*Version of the day/)
  t.equal(await rows.first().getByRole('link', { name: 'See why' }).getAttribute('href'), `deployments/${bad}`)
  t.equal(await rows.first().getByRole('link', { name: 'Roll back…' }).getAttribute('href'), `deployments/${good}`)
  t.equal(await rows.last().getByRole('link', { name: 'Roll back…' }).count(), 0, 'there is nothing to go back to')
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'desktop')

  const { page: small } = await openDuring(t, browser, stage.url, '', onPhone)
  await small.getByRole('heading', { level: 1, name: '2 projects are broken' }).waitFor()
  t.ok(await isWithin(small))
  t.same(await survey(small), [], 'readable and named')
  await photograph(small, 'phone', { isWhole: true })
  const { page: chinese } = await openDuring(t, browser, stage.url, '', { ...onPhone, locale: 'zh-CN' })
  await chinese.getByRole('heading', { level: 1, name: '2 个项目出现故障' }).waitFor()
  await photograph(chinese, 'phone-zh')

  await page.getByRole('link', { name: 'storefront', exact: true }).first().click()
  await page.locator('svc-live').getByText('Its post-deploy script failed in the background.').waitFor()
  await page.locator('svc-broken').getByText('The post-deploy script failed in the background').waitFor()
  await page.locator('.facts svc-status[state=failed]').waitFor()
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'project-desktop', { isWhole: true })
  await small.goto(`${stage.url}/projects/${docs.id}`)
  await small.getByText('No deployment has written files yet.').waitFor()
  t.ok(await isWithin(small))
  t.same(await survey(small), [], 'readable and named')
  await photograph(small, 'project-phone', { isWhole: true })

  await page.locator('svc-broken').getByRole('link', { name: 'Roll back…' }).click()
  await page.getByRole('button', { name: 'Roll back to this…' }).click()
  await page.getByRole('button', { name: 'Roll back', exact: true }).click()
  await page.locator('.verdict svc-status[state=failed], .verdict svc-background-failure').first().waitFor()
  await deploy(stage, shop)
  await page.goto(`${stage.url}/projects/${shop.id}`)
  await page.locator('.facts svc-status[state=success]').waitFor()
  t.equal(await page.locator('svc-broken').count(), 0, 'a later one mends it')
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])
})

t.test('five broken projects are shown, those of production first, and the others on request', { skip }, async t => {
  const stage = await startServer(t)
  for (const [n, env] of ['production', 'test', 'staging', 'test', 'test', 'staging', 'test'].entries())
    await deploy(
      stage,
      await stage.createProject(`site-${n}`, { env }),
      n === 0 ? { postDeployScript: 'exit 3' } : { preDeployScript: 'exit 7' }
    )
  const { page } = await openDuring(t, browser, stage.url, '', stillDesktop)
  const names = page.locator('svc-broken li .head a')
  await names.nth(4).waitFor()
  t.same(await page.locator('svc-broken h3').allTextContents(), ['production', 'staging', 'test'])
  t.same(await names.allTextContents(), ['site-0', 'site-5', 'site-2', 'site-6', 'site-4'])
  await page.getByText('The files of the failed deployment are live. No deployment has succeeded yet.').waitFor()
  await photograph(page, 'several')
  await page.getByRole('button', { name: 'Show 2 more' }).press('Enter')
  t.same((await names.allTextContents()).slice(5), ['site-3', 'site-1'])
  await holds(page, `document.activeElement.textContent === 'site-3'`)
  t.same(await survey(page), [], 'readable and named')
})

t.test('a project stays broken while a later deployment runs, and the link leads to that one', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('storefront')
  await deploy(stage, shop)
  await deploy(stage, shop, { postDeployScript: 'exit 3' })
  await stage.client.put(`/api/projects/${shop.id}`, {
    preDeployScript: 'mkfifo ../go; cat ../go',
    postDeployScript: ''
  })
  const going = stage.as(shop.token).upload([
    ['projectId', shop.id],
    ['file', { filename: 'a.zip', bytes }]
  ])
  await until(async () => existsSync(join(stage.sites, 'go')))
  const { page } = await openDuring(t, browser, stage.url, '', stillDesktop)
  await page.getByRole('heading', { level: 1, name: 'storefront failed to deploy' }).waitFor()
  await page.locator('svc-broken').getByRole('link', { name: 'Watch it' }).waitFor()
  t.equal(await page.locator('svc-broken').getByRole('link', { name: 'Roll back…' }).count(), 0)
  await page.locator('svc-broken').getByRole('link', { name: 'storefront' }).click()
  await page.getByRole('heading', { name: 'In progress' }).waitFor()
  await page.locator('.facts svc-status[state=running]').waitFor()
  await photograph(page, 'going')
  await (await open(join(stage.sites, 'go'), 'w')).close()
  await going
  await comeBack(page, page.locator('.facts svc-status[state=success]'))
  await page.getByRole('heading', { name: 'Broken now' }).waitFor({ state: 'detached' })
})

t.test('a page without its server says so and shows nothing in green', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('storefront')
  await stage.client.put(`/api/projects/${shop.id}/pin`, { pinned: true })
  await deploy(stage, shop)
  const opened = await openDuring(t, browser, stage.url, '', { ...stillDesktop, colorScheme: 'light' })
  const { page } = opened
  const { page: project } = await openDuring(t, browser, stage.url, `projects/${shop.id}`, {
    viewport: phone,
    colorScheme: 'dark'
  })
  await page.getByText('Healthy').waitFor()
  await project.locator('.facts svc-status[state=success]').waitFor()
  t.not((await coloured(page)).length, 0, 'what is well is green')

  const { port } = new URL(stage.url)
  await stage.server.stop({ wait: false })
  await comeBack(page, page.getByRole('heading', { level: 1, name: 'The server does not answer' }))
  await page.getByText(/^Last answer from the server: \d\d:\d\d:\d\d\. This page shows/).waitFor()
  t.equal(await page.getByText('Healthy').count(), 0)
  await page.locator('.pinned svc-status[state=unknown]').waitFor()
  t.same(await coloured(page), [], 'nothing is green or red')
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'lost-desktop')
  await comeBack(project, project.getByText(/^Last answer from the server: /))
  await project.locator('.facts svc-status[state=unknown]').waitFor()
  t.same(await coloured(project), [])
  t.ok(await isWithin(project))
  t.same(await survey(project), [], 'readable and named')
  await photograph(project, 'lost-phone')
  t.ok(Number(port) > 0)
})

t.test(
  'a gateway that cannot reach the server, and a network that swallows questions, are no answers',
  { skip },
  async t => {
    const stage = await startServer(t)
    const shop = await stage.createProject('storefront')
    await deploy(stage, shop)
    const { page } = await openDuring(t, browser, stage.url, '', { viewport: desktop })
    await page.clock.install()
    await page.reload()
    await page.getByText('Healthy').waitFor()
    await page.route('**/api/**', route =>
      route.fulfill({ status: 502, contentType: 'text/html', body: '<h1>Bad gateway</h1>' })
    )
    await comeBack(page, page.getByRole('heading', { level: 1, name: 'The server does not answer' }))
    t.same(await coloured(page), [])
    await page.unroute('**/api/**')
    await page.getByRole('heading', { level: 1, name: 'storefront is deployed' }).waitFor()
    await page.getByText('Healthy').waitFor()
    t.not((await coloured(page)).length, 0, 'the colours come back with an answer')

    const held: Array<() => void> = []
    await page.route(
      '**/api/**',
      route => new Promise<void>(resolve => held.push(() => void route.abort().then(resolve, resolve)))
    )
    // The next question, and the time that it may take.
    const lost = page.getByRole('heading', { level: 1, name: 'The server does not answer' })
    while (!(await lost.isVisible())) await page.clock.fastForward(16_000)
    t.same(await coloured(page), [])
    await page.unroute('**/api/**')
    for (const release of held) release()
    await page.getByRole('heading', { level: 1, name: 'storefront is deployed' }).waitFor()
    await holds(page, `document.querySelector('.stale') === null`)
  }
)

/** What is shown in the colours of success, failure or going on, by its text. */
async function coloured(page: import('playwright-core').Page): Promise<string[]> {
  return page.evaluate(`(() => {
    const probe = document.body.appendChild(document.createElement('i'))
    const colours = ['--success', '--failure', '--running'].map(name => {
      probe.style.color = 'var(' + name + ')'
      return getComputedStyle(probe).color
    })
    probe.remove()
    return [...document.querySelectorAll('main *')].filter(element => element.childElementCount === 0 || element.matches('svg'))
      .filter(element => element.checkVisibility() && element.closest('a:not(:has(svc-status)), button, .primary') === null && colours.includes(getComputedStyle(element).color))
      .map(element => element.outerHTML.slice(0, 80))
  })()`)
}
