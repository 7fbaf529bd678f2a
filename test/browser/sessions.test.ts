import t from 'tap'
import { adminToken, startServer } from '../support/server.js'
import { openWatched, startChromium } from './chromium.js'
import { desktop, isWithin, openDuring, phone, photographer, signIn } from './stage.js'

/* One session for all tabs of a browser: signing in, out, and what Settings tell of it. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('sessions')

t.test('tabs share one session', { skip }, async t => {
  const stage = await startServer(t, { base: '/deploy' })
  const { page, context } = await openWatched(browser, new URL(stage.url).origin, { viewport: desktop })
  t.teardown(() => context.close())
  // What an earlier version has left.
  await context.addInitScript(`localStorage.setItem('svc.token ${stage.url}/', 'an-old-token')`)
  const other = await context.newPage()
  await page.goto(`${stage.url}/`)
  await other.goto(`${stage.url}/projects`)
  await other.getByRole('heading', { name: 'Sign in to svc' }).waitFor()
  await page.bringToFront()
  await signIn(page)
  await other.getByRole('heading', { level: 1, name: 'Projects' }).waitFor()
  const stored = (await page.evaluate(
    'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])'
  )) as string
  t.notMatch(stored, adminToken, 'no script can read the token')
  t.notMatch(stored, 'an-old-token', 'nor one from before')
  const [cookie] = await context.cookies()
  t.match(cookie, { httpOnly: true, sameSite: 'Strict', path: '/deploy/', expires: -1 })
  t.notMatch(stored, cookie?.value as string)

  // A change in each tab, which asks for the header first.
  await other.goto(`${stage.url}/labels`)
  await other.getByRole('button', { name: 'New tag' }).click()
  await other.getByLabel('Name').fill('nightly')
  await other.getByRole('dialog').getByRole('button', { name: 'Create' }).click()
  await other.getByText('nightly').first().waitFor()

  await page.getByRole('button', { name: 'Preferences' }).click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in to svc' }).waitFor()
  await other.getByText('Your session has ended').waitFor()
  t.same((await stage.client.get('/api/sessions')).body.sessions, [])
  t.same((await context.cookies()).length, 0)
})

t.test('Settings list the sessions and end them', { skip }, async t => {
  const stage = await startServer(t)
  const { page, watch } = await openDuring(t, browser, stage.url, 'settings', { viewport: desktop })
  const second = await openDuring(t, browser, stage.url, 'projects', { viewport: desktop })
  const third = await openDuring(t, browser, stage.url, 'projects', { viewport: desktop })
  const rows = page.locator('svc-sessions li')
  await page.reload()
  await page.getByRole('button', { name: 'Sign out everywhere else' }).waitFor()
  t.equal(await rows.count(), 3)
  t.equal(await page.getByText('This browser').count(), 1)
  await page.getByText('Chrome, Linux').first().waitFor()
  await page.locator('svc-sessions').scrollIntoViewIfNeeded()
  await photograph(page, 'desktop')
  await rows.filter({ hasNotText: 'This browser' }).first().getByRole('button').click()
  await rows.nth(1).waitFor()
  await rows.nth(2).waitFor({ state: 'detached' })
  await rows.filter({ hasNotText: 'This browser' }).getByRole('button').click()
  await rows.nth(1).waitFor({ state: 'detached' })
  for (const { page: ended } of [second, third]) {
    await ended.reload()
    // A page that was told before it is loaded again asks for a token only.
    const signIn = ended.getByRole('heading', { name: 'Sign in to svc' })
    await signIn.or(ended.getByText('Your session has ended')).first().waitFor()
  }
  await page.setViewportSize(phone)
  await photograph(page, 'phone')
  t.ok(await isWithin(page))
  await rows.getByRole('button').click()
  await page.getByRole('heading', { name: 'Sign in to svc' }).waitFor()
  t.same(watch.complaints, [])
})
