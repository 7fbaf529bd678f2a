import type { Page } from 'playwright-core'
import t from 'tap'
import { startServer } from '../support/server.js'
import { openWatched, startChromium } from './chromium.js'
import { desktop, onPhone, signIn } from './stage.js'
import { survey } from './survey.js'

/* What is round every page: rooms, palette, keys, light and dark, languages. */

const { browser, skip } = await startChromium(t)

/** The ground of the page, to tell light from dark. */
const ground = (page: Page): Promise<string> =>
  page.evaluate('getComputedStyle(document.documentElement).backgroundColor')

t.test('the palette leads to screens and to what the server finds, by keyboard alone', { skip }, async t => {
  const stage = await startServer(t, { base: '/tools/svc' })
  const project = await stage.createProject('storefront')
  const { page, watch, context } = await openWatched(browser, new URL(stage.url).origin, { viewport: desktop })
  t.teardown(() => context.close())
  await page.goto(stage.url)
  await page.keyboard.press('Control+k')
  t.equal(await page.getByRole('dialog').count(), 0, 'before the login there is nothing to find')
  await signIn(page)
  await page.locator('main h1').first().waitFor()

  const field = page.getByRole('combobox', { name: 'Search and commands' })
  const chosen = page.locator('[role=option][aria-selected=true]')
  await page.getByRole('button', { name: 'Search and commands' }).click()
  await field.waitFor()
  await page.keyboard.press('Escape')
  await field.waitFor({ state: 'detached' })
  await page.keyboard.press('Control+k')
  await field.waitFor()
  t.match(await chosen.textContent(), 'Overview')
  await page.keyboard.press('ArrowUp')
  t.match(await chosen.textContent(), 'Failed deployments', 'up from the first is the last')
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('ArrowDown')
  t.match(await chosen.textContent(), 'Projects')
  await page.keyboard.type('storef')
  await page.getByRole('option', { name: 'storefront production' }).waitFor()
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'storefront' }).waitFor()
  t.ok(page.url().endsWith(`/tools/svc/projects/${project.id}`))
  t.equal(await page.getByRole('dialog').count(), 0)

  // An exact name wins, and a command opens the page with its dialog.
  await stage.createProject('storefront-2')
  await page.keyboard.press('Control+k')
  await page.keyboard.type('storefront')
  await page.getByRole('option', { name: 'storefront-2 production' }).waitFor()
  t.match(await chosen.textContent(), /^\s*storefront\s*production/)
  await page.getByRole('option', { name: 'Lock storefront…' }).waitFor()
  await field.fill('lo')
  await page.getByRole('option', { name: 'then the name of a project' }).first().waitFor()
  while (!(await chosen.textContent())?.includes('Lock')) await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  t.equal(await field.inputValue(), 'lock ')
  await page.keyboard.type('storefront')
  await page.getByRole('option', { name: 'Lock storefront-2…' }).waitFor()
  t.match(await chosen.textContent(), /Lock storefront…/)
  t.same(await survey(page), [], 'readable and named')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').getByRole('heading', { name: 'Lock this project?' }).waitFor()
  t.equal((await stage.client.get('/api/locks')).body.length, 0, 'nothing has happened yet')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })

  await page.getByRole('button', { name: 'Search and commands' }).click()
  await field.fill('no such thing at all')
  await page.getByText('No results.').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })

  await page.keyboard.press('g')
  await page.keyboard.press('d')
  await page.getByRole('heading', { level: 1, name: 'Deployments' }).waitFor()
  await page.keyboard.press('g')
  await page.keyboard.press('p')
  await page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor()
  await page.keyboard.press('/')
  await page.keyboard.type('gpgd')
  t.match(page.url(), /\/projects/, 'who is writing goes nowhere')
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])
})

t.test('light, dark and Chinese are chosen, kept, and seen at the next visit', { skip }, async t => {
  const stage = await startServer(t)
  const { page, watch, context } = await openWatched(browser, new URL(stage.url).origin, {
    viewport: desktop,
    colorScheme: 'light',
    locale: 'en-GB'
  })
  t.teardown(() => context.close())
  await page.goto(stage.url)
  await signIn(page)
  await page.locator('main h1').first().waitFor()
  const light = await ground(page)
  await page.emulateMedia({ colorScheme: 'dark' })
  const dark = await ground(page)
  t.not(light, dark, 'the system decides')
  await page.getByRole('button', { name: 'Preferences' }).click()
  await page.getByRole('button', { name: 'Close', exact: true }).click()
  await page.keyboard.press('?')
  await page.getByLabel('Appearance').selectOption('light')
  t.equal(await ground(page), light, 'until the reader does')
  await page.getByRole('button', { name: 'Close', exact: true }).click()
  await page.reload()
  await page.locator('main h1').first().waitFor()
  t.equal(await ground(page), light)

  await page.getByRole('button', { name: 'Preferences' }).click()
  await page.getByLabel('Language').selectOption('zh')
  await page.getByRole('link', { name: '项目', exact: true }).first().waitFor()
  t.equal(await page.evaluate('document.documentElement.lang'), 'zh')
  await page.goto(`${stage.url}/projects`)
  await page.getByRole('link', { name: '部署', exact: true }).first().waitFor()
  await page.getByRole('button', { name: '偏好' }).click()
  await page.getByRole('button', { name: '退出登录' }).click()
  await page.getByRole('heading', { name: '登录 svc' }).waitFor()
  t.same(watch.complaints, [])
})

t.test('on a phone the further rooms are behind the last button', { skip }, async t => {
  const stage = await startServer(t)
  const { page, context } = await openWatched(browser, new URL(stage.url).origin, onPhone)
  t.teardown(() => context.close())
  await page.goto(stage.url)
  await signIn(page)
  await page.locator('main h1').first().waitFor()
  const rooms = page.getByRole('navigation', { name: 'Main navigation' })
  t.equal(await rooms.getByRole('link', { name: 'Settings' }).count(), 0)
  await rooms.getByRole('button', { name: 'More' }).click()
  await rooms.getByRole('link', { name: 'Settings' }).waitFor()
  await rooms.getByRole('button', { name: 'Preferences' }).click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in to svc' }).waitFor()
})
