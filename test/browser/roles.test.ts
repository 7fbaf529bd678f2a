import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Page } from 'playwright-core'
import type { AccessRole } from '../../lib/model/access.js'
import { startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { openWatched, startChromium, type Watch } from './chromium.js'
import {
  desktop,
  giveSession,
  isWithin,
  onPhone,
  openDuring,
  photographer,
  signIn,
  stillDesktop,
  type ContextOptions
} from './stage.js'
import { survey } from './survey.js'

/* What the panel offers to each role, with a real server that refuses the rest. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('roles')

interface World {
  stage: Stage
  shop: string
  other: string
  /** A successful deployment, and a failed one after it. */
  good: string
  failed: string
  /** The secret of a token of each role, for all projects. */
  secrets: Record<AccessRole, string>
  /** Of a deployer of the shop only. */
  scoped: string
}

async function pushed(stage: Stage, token: string, projectId: string): Promise<string> {
  const reply = await stage.as(token).upload([
    ['projectId', projectId],
    ['file', { filename: 'a.zip', bytes: await zipOf({ 'index.html': '<p>hello</p>' }) }]
  ])
  return reply.headers['x-svc-deploy-id'] as string
}

async function build(t: Parameters<typeof startServer>[0]): Promise<World> {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop', { postDeployScript: 'true', pm2AppName: 'shop' })
  const other = await stage.createProject('other')
  const good = await pushed(stage, shop.token, shop.id)
  await stage.client.put(`/api/projects/${shop.id}`, { postDeployScript: 'exit 3' })
  const failed = await pushed(stage, shop.token, shop.id)
  await pushed(stage, other.token, other.id)
  const log = join(stage.sites, 'shop.log')
  writeFileSync(log, 'a line\n')
  await stage.client.post(`/api/projects/${shop.id}/log-sources`, { items: [{ filePath: log }] })
  const mint = async (name: string, role: AccessRole, projectIds?: string[]): Promise<string> =>
    (await stage.client.post('/api/tokens', { name, role, projectIds })).body.token
  const secrets = {
    viewer: await mint('vera', 'viewer'),
    deployer: await mint('dan', 'deployer'),
    operator: await mint('olga', 'operator'),
    admin: await mint('ada', 'admin')
  }
  const scoped = await mint('ci-shop', 'deployer', [shop.id])
  return { stage, shop: shop.id, other: other.id, good, failed, secrets, scoped }
}

async function openAs(
  t: { teardown(work: () => unknown): void },
  stage: Stage,
  secret: string,
  options: ContextOptions = stillDesktop
): Promise<{ page: Page; watch: Watch }> {
  const { page, watch, context } = await openWatched(browser, new URL(stage.url).origin, options)
  t.teardown(() => context.close())
  await giveSession(context, stage.url, secret)
  return { page, watch }
}

/** The buttons and links with a button's look in the page, without those that every role has. */
async function offers(page: Page): Promise<string[]> {
  const names = await page
    .locator('main button:visible, main a.button:visible, main summary:visible')
    .evaluateAll((all: Array<{ innerText: string; title: string }>) =>
      all.map(each => (each.innerText || each.title).trim())
    )
  return names.filter(name => name !== '')
}

async function rooms(page: Page): Promise<string[]> {
  return (await page.locator('.side > .rooms > a').allInnerTexts()).map(text => text.trim())
}

const everyRoom = ['Overview', 'Projects', 'Deployments', 'Logs', 'Terminal', 'System', 'Settings']
const reading = ['Overview', 'Projects', 'Deployments', 'Logs', 'System']

const expected: Record<
  AccessRole,
  { rooms: string[]; tabs: string[]; project: string[]; failed: string[]; good: string[]; projects: boolean }
> = {
  viewer: {
    rooms: reading,
    tabs: ['Deployments', 'Logs'],
    project: ['Verify', 'See why'],
    failed: [],
    good: ['Compare…'],
    projects: false
  },
  deployer: {
    rooms: reading,
    tabs: ['Deployments', 'Logs'],
    project: ['Deploy…', 'Verify', 'See why'],
    failed: [],
    good: ['Compare…', 'Promote…'],
    projects: false
  },
  operator: {
    rooms: reading,
    tabs: ['Deployments', 'Files', 'Logs'],
    project: ['Maintenance…', 'Lock…', 'Deploy…', 'Verify', 'See why', 'Roll back…'],
    failed: ['Mark as success…', 'Deploy again…', 'Roll back to last successful…'],
    good: ['Compare…', 'Mark as failed…', 'Promote…', 'Roll back to this…'],
    projects: false
  },
  admin: {
    rooms: everyRoom,
    tabs: ['Deployments', 'Files', 'Logs', 'Settings'],
    project: ['Maintenance…', 'Lock…', 'Deploy…', 'Verify', 'See why', 'Roll back…'],
    failed: ['Mark as success…', 'Deploy again…', 'Roll back to last successful…'],
    good: ['Compare…', 'Mark as failed…', 'Promote…', 'Roll back to this…'],
    projects: true
  }
}

t.test('each role sees what it may do', { skip }, async t => {
  const world = await build(t)
  const { stage, shop, good, failed, secrets } = world
  for (const [role, wanted] of Object.entries(expected) as Array<[AccessRole, (typeof expected)[AccessRole]]>) {
    await t.test(role, async t => {
      const { page, watch } = await openAs(t, stage, secrets[role])
      await page.goto(`${stage.url}/projects`)
      await page.getByRole('link', { name: 'shop' }).waitFor()
      t.same(await rooms(page), wanted.rooms)
      t.equal((await page.getByRole('link', { name: 'New project' }).count()) > 0, wanted.projects)
      t.equal((await page.getByRole('checkbox').count()) > 0, wanted.projects, 'projects to choose')
      t.same(await survey(page), [])
      await photograph(page, `${role}-projects`)

      await page.goto(`${stage.url}/projects/${shop}`)
      await page.getByText('put there by svc').waitFor()
      await page.getByRole('button', { name: 'Verify' }).waitFor()
      if (wanted.project.includes('Lock…')) await page.getByRole('button', { name: 'Lock…', exact: true }).waitFor()
      t.same(await page.locator('.tabs a').allInnerTexts(), wanted.tabs)
      const found = await offers(page)
      for (const each of wanted.project) t.ok(found.includes(each), `the project offers “${each}”`)
      const further = found.filter(
        each => !wanted.project.includes(each) && !/^(Undo the last|Wrap|Times|Copy|Retry)/.test(each)
      )
      t.same(further, [], 'and nothing else')
      t.equal(
        found.some(each => each.startsWith('Undo')),
        role === 'operator' || role === 'admin'
      )
      await photograph(page, `${role}-project`, { isWhole: true })

      for (const [id, actions] of [
        [failed, wanted.failed],
        [good, wanted.good]
      ] as const) {
        await page.goto(`${stage.url}/deployments/${id}`)
        await page.locator('svc-steps').waitFor()
        await page.locator('.verdict svc-status').waitFor()
        await page.waitForLoadState('networkidle')
        const names = await page.locator('.head-actions a, .head-actions button').allInnerTexts()
        t.same(
          names.map(name => name.trim()),
          actions
        )
      }
      const script = page.locator('section.script pre')
      t.equal(await script.count(), role === 'viewer' || role === 'deployer' ? 0 : 1, 'the text of the script')

      const own = wanted.tabs.includes('Files') ? [`projects/${shop}/files`] : []
      for (const path of ['', 'deployments', 'logs', 'system', 'audit', `projects/${shop}/logs`, ...own]) {
        await page.goto(`${stage.url}/${path}`)
        await page.locator('h1').waitFor()
        await page.waitForLoadState('networkidle')
        t.equal(await page.locator('svc-page-denied').count(), 0, `/${path} is open`)
      }
      t.same(watch.complaints, [], 'no page asks the server for what the role may not see')
    })
  }
})

t.test('a page that the role may not open says so', { skip }, async t => {
  const { stage, shop, secrets, scoped } = await build(t)
  const { page, watch } = await openAs(t, stage, secrets.deployer)
  for (const path of [
    'settings',
    'access',
    'labels',
    'migration',
    'storage',
    'terminal',
    `projects/${shop}/files`,
    `projects/${shop}/settings`
  ]) {
    await page.goto(`${stage.url}/${path}`)
    await page.getByRole('heading', { name: 'Your token may not open this page' }).waitFor()
    await page.getByText('The token “dan” has the role Deployer.').waitFor()
  }
  t.same(await survey(page), [])
  await photograph(page, 'denied')
  await page.goto(`${stage.url}/projects/${shop}`)
  await page.getByRole('heading', { level: 1, name: 'shop' }).waitFor()
  const inside = `history.pushState(null, '', '${stage.url}/projects/${shop}/settings'), dispatchEvent(new PopStateEvent('popstate'))`
  await page.evaluate(inside)
  await page.getByRole('heading', { name: 'Your token may not open this page' }).waitFor()
  await page.keyboard.press('g')
  await page.keyboard.press('t')
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').waitFor()
  const commands = await page.locator('[role=option] b').allInnerTexts()
  t.notOk(
    commands.includes('Terminal') || commands.includes('New project') || commands.includes('Access'),
    commands.join()
  )
  t.ok(commands.includes('Audit log'))
  t.same(watch.complaints, [])

  const limited = await openAs(t, stage, scoped, { ...onPhone, locale: 'zh-CN' })
  await limited.page.goto(`${stage.url}/system`)
  await limited.page.getByText('令牌“ci-shop”仅限于 1 个项目').waitFor()
  t.ok(await isWithin(limited.page))
  await photograph(limited.page, 'denied-phone-zh')
  await limited.page.goto(`${stage.url}/`)
  await limited.page.getByRole('heading', { level: 1 }).waitFor()
  await limited.page.goto(`${stage.url}/projects`)
  await limited.page.getByRole('link', { name: 'shop' }).waitFor()
  t.equal(await limited.page.getByRole('link', { name: 'other' }).count(), 0, 'a project outside its scope')
  t.ok(await isWithin(limited.page))
  await photograph(limited.page, 'projects-phone-zh')
  t.same(limited.watch.complaints, [])
})

t.test('a named token signs in, sees its name, and signs out', { skip }, async t => {
  const { stage, scoped, shop } = await build(t)
  const { page, watch, context } = await openWatched(browser, new URL(stage.url).origin, stillDesktop)
  t.teardown(() => context.close())
  await page.goto(`${stage.url}/projects/${shop}`)
  await page.getByRole('heading', { name: 'Sign in to svc' }).waitFor()
  await signIn(page, scoped)
  await page.getByRole('heading', { level: 1, name: 'shop' }).waitFor()
  t.same(await rooms(page), ['Overview', 'Projects', 'Deployments', 'Logs', 'System'])
  await page.getByText('ci-shop · Deployer').waitFor()
  t.match(await page.locator('.side > .rooms > a', { hasText: 'System' }).getAttribute('href'), /(^|\/)audit$/)
  const stored = (await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])')) as string
  t.notMatch(stored, scoped, 'no script can read the token')
  await page.getByRole('button', { name: 'Preferences' }).click()
  await page.getByRole('dialog').getByText('Deployer · 1 project').waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'account')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in to svc' }).waitFor()
  await signIn(page)
  await page.locator('.side > .rooms > a', { hasText: 'Terminal' }).waitFor()
  t.same(watch.complaints, [])
})

t.test('a deployer deploys from the panel, and decides about its own deployments only', { skip }, async t => {
  const { stage, shop, scoped, secrets } = await build(t)
  await stage.client.put(`/api/projects/${shop}`, { postDeployScript: 'sleep 600' })
  const { page, watch } = await openAs(t, stage, scoped)
  await page.goto(`${stage.url}/projects/${shop}`)
  await page.getByRole('button', { name: 'Deploy…' }).click()
  await page.getByText('Replace YOUR-TOKEN with your own token.').waitFor()
  await photograph(page, 'deploy', { isWhole: true })
  await page
    .locator('svc-upload input[type=file]')
    .first()
    .setInputFiles({
      name: 'site.zip',
      mimeType: 'application/zip',
      buffer: await zipOf({ 'index.html': '<p>new</p>' })
    })
  await page.getByRole('dialog').getByRole('button', { name: 'Deploy', exact: true }).click()
  await page.getByRole('button', { name: 'Cancel…' }).waitFor()
  await page.getByText('ci-shop', { exact: true }).first().waitFor()
  const address = page.url()

  const second = await openAs(t, stage, secrets.deployer)
  await second.page.goto(address)
  await second.page.locator('svc-steps').waitFor()
  await second.page.getByText('Running').first().waitFor()
  t.equal(await second.page.getByRole('button', { name: 'Cancel…' }).count(), 0, 'another deployer may not cancel it')

  await page.getByRole('button', { name: 'Cancel…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel deployment' }).click()
  await page.getByText('The deployment was cancelled').waitFor()
  t.same(watch.complaints, [])
  t.same(second.watch.complaints, [])
})

t.test('a revoked token ends its session in the browser', { skip }, async t => {
  const { stage, secrets } = await build(t)
  const { page } = await openAs(t, stage, secrets.operator)
  await page.goto(`${stage.url}/projects`)
  await page.getByRole('link', { name: 'shop' }).waitFor()
  const { items } = (await stage.client.get('/api/tokens')).body
  await stage.client.delete(`/api/tokens/${items.find((each: { name: string }) => each.name === 'olga').id}`)
  await page.reload()
  await page.getByText('Your session has ended').waitFor()
  const admin = await openDuring(t, browser, stage.url, 'access', { viewport: desktop })
  await admin.page.locator('svc-tokens li', { hasText: 'olga' }).getByText('Revoked').waitFor()
})
