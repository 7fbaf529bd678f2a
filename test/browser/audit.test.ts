import t from 'tap'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { openWatched, startChromium } from './chromium.js'
import { desktop, giveSession, isWithin, openDuring, phone, photographer } from './stage.js'

/* The witness of the audit log in the panel. */

const { browser, skip } = await startChromium(t)

t.test('the panel says whether the audit log is the one that it saw', { skip }, async t => {
  const photograph = photographer('audit-witness')
  const stage = await startServer(t)
  await stage.createProject('shop')
  const { page, watch } = await openDuring(t, browser, stage.url, 'audit')
  await page.locator('.entries').getByText('Project created').waitFor()
  const stored = (): Promise<[string, string] | undefined> =>
    page.evaluate("Object.entries(localStorage).find(([key]) => key.startsWith('svc.audit '))")
  const [key, note] = (await until(stored)) as [string, string]
  t.match(note, /^svc\/[0-9a-f]{16}\/audit\n\d+\n/)
  await stage.createProject('forum')
  await page.reload()
  await page.getByText(/^The log still begins with the \d+ entries that this browser saw\.$/).waitFor()

  // As if the log had had more entries before.
  const [origin, , root] = note.split('\n')
  const longer = `${origin}\n900\n${root}\n`
  await page.evaluate(`localStorage.setItem(${JSON.stringify(key)}, ${JSON.stringify(longer)})`)
  await page.reload()
  const alert = page.getByRole('alert').filter({ hasText: 'The audit log has lost entries: it had 900, and now has' })
  await alert.waitFor()
  await photograph(page, 'desktop')
  await page.setViewportSize(phone)
  await photograph(page, 'phone')
  t.ok(await isWithin(page), 'nothing sticks out at the side')
  await page.getByRole('button', { name: 'Accept this log' }).click()
  await alert.waitFor({ state: 'detached' })
  t.match((await stored())?.[1], /^svc\/[0-9a-f]{16}\/audit\n\d\n/)
  t.same(watch.complaints, [])
})

t.test('the page says whose entries a token sees, if not all', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  await stage.createProject('forum')
  const own = 'You see the entries of your own token. An operator sees those of others.'
  const cases: Array<[fields: object, says: string | null]> = [
    [{ name: 'vera', role: 'viewer' }, own],
    [{ name: 'dan', role: 'deployer' }, own],
    [
      { name: 'ana', role: 'operator', projectIds: [shop.id] },
      'You see the entries of your own token and of your projects: shop'
    ],
    [{ name: 'ben', role: 'operator' }, null]
  ]
  for (const [fields, says] of cases) {
    const { token } = (await stage.client.post('/api/tokens', fields)).body as { token: string }
    const { context, page } = await openWatched(browser, stage.url, { viewport: desktop })
    t.teardown(() => context.close())
    await giveSession(context, stage.url, token)
    await page.goto(`${stage.url}/audit`)
    await page.locator('.entries, svc-page-audit .state').first().waitFor()
    if (says !== null) await page.getByText(says, { exact: true }).waitFor()
    else t.equal(await page.getByText('You see the entries').count(), 0)
  }
})
