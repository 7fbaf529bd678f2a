import t from 'tap'
import type { Page } from 'playwright-core'
import { startServer } from '../support/server.js'
import { startChromium } from './chromium.js'
import { cardOf, cardSaved, isWithin, openDuring, phone, photographer, saveCard, submitCard, until } from './stage.js'

/* Two tabs with the same form: nobody's change is lost, and a real conflict is asked about. */

const { browser, skip } = await startChromium(t)

const question = (page: Page) => page.getByRole('dialog', { name: 'Changed elsewhere' })

/** Chooses a value in the question. */
async function choose(page: Page, field: string, whose: 'Yours' | 'On the server'): Promise<void> {
  await question(page).getByRole('group', { name: field, exact: true }).getByRole('radio', { name: whose }).check()
}

t.test('the settings of a project', { skip }, async t => {
  const photograph = photographer('two-tabs')
  const stage = await startServer(t)
  const { id } = await stage.createProject('storefront')
  const open = async () => {
    const opened = await openDuring(t, browser, stage.url, `projects/${id}/settings`)
    await opened.page.getByLabel('Description').waitFor()
    return opened
  }
  const [one, two] = [await open(), await open()]
  const kept = async () => (await stage.client.get(`/api/projects/${id}`)).body

  const script = (page: Page) => page.getByLabel('Post-deploy script', { exact: true })
  const directory = (page: Page) => page.getByLabel('Script working directory')

  await one.page.getByLabel('Description').fill('The shop')
  await script(one.page).fill('echo typed')
  await saveCard(one.page, 'General')
  await saveCard(one.page, 'Scripts')
  t.same(one.watch.complaints, [], 'a card does not disturb the others')
  await two.page.getByLabel('Environment').fill('staging')
  await saveCard(two.page, 'General')
  t.match(await kept(), { description: 'The shop', env: 'staging' }, 'both changes are there, and nobody was asked')
  await until(async () => (await two.page.getByLabel('Description').inputValue()) === 'The shop')
  t.match(two.watch.complaints.splice(0), [/412/])

  await one.page.reload()
  await directory(one.page).fill('one')
  await script(one.page).fill('echo one')
  await directory(two.page).fill('two')
  await script(two.page).fill('echo two\necho 2')
  await two.page.getByLabel('Script shell').fill('bash')
  await saveCard(one.page, 'Scripts')
  await submitCard(two.page, 'Scripts')
  await question(two.page).waitFor()
  t.same(
    await question(two.page).locator('pre').allTextContents(),
    ['echo two\necho 2', 'echo one', 'two', 'one'],
    'both values of both fields'
  )
  t.match(
    await kept(),
    { scriptDirectory: 'one', postDeployScript: 'echo one' },
    'nothing is overwritten before the answer'
  )
  t.ok(await question(two.page).getByRole('button', { name: 'Save', exact: true }).isDisabled())
  await photograph(two.page, 'project-desktop')
  await two.page.setViewportSize(phone)
  await photograph(two.page, 'project-phone')
  t.ok(await isWithin(two.page))
  await question(two.page).getByRole('button', { name: 'Back to form' }).click()
  t.equal(await directory(two.page).inputValue(), 'two', 'what was typed stays')
  await submitCard(two.page, 'Scripts')
  await choose(two.page, 'Script working directory', 'On the server')
  await choose(two.page, 'Post-deploy script', 'Yours')
  await question(two.page).getByRole('button', { name: 'Save', exact: true }).click()
  await cardSaved(two.page, 'Scripts')
  t.match(await kept(), { scriptDirectory: 'one', postDeployScript: 'echo two\necho 2', scriptShell: 'bash' })
  await until(async () => (await directory(two.page).inputValue()) === 'one')
  two.watch.complaints.splice(0)

  await one.page.reload()
  await cardOf(one.page, 'Files').getByRole('radio', { name: 'A deployment is refused.' }).check()
  await cardOf(two.page, 'Files')
    .getByRole('radio', { name: /without a warning/ })
    .check()
  await saveCard(one.page, 'Files')
  await submitCard(two.page, 'Files')
  await choose(two.page, 'Files that were edited in the target', 'On the server')
  t.same(await question(two.page).locator('pre').allTextContents(), [
    'A deployment replaces them without a warning.',
    'A deployment is refused.'
  ])
  await question(two.page).getByRole('button', { name: 'Save', exact: true }).click()
  await cardSaved(two.page, 'Files')
  t.equal((await kept()).policy.drift, 'refuse')
  two.watch.complaints.splice(0)
  t.same(one.watch.complaints, [])
})

t.test('the settings of the server, with events as check boxes', { skip }, async t => {
  const photograph = photographer('two-tabs')
  const stage = await startServer(t)
  const open = async () => {
    const opened = await openDuring(t, browser, stage.url, 'settings')
    await opened.page.getByLabel('Archives to keep').waitFor()
    return opened
  }
  const [one, two] = [await open(), await open()]
  const kept = async () => (await stage.client.get('/api/settings')).body

  const events = (page: Page) => page.getByRole('group', { name: 'Events', exact: true }).getByRole('checkbox')
  const checked = async (page: Page) => {
    const boxes = await Promise.all((await events(page).all()).map(box => box.isChecked()))
    return boxes.flatMap((isChecked, index) => (isChecked ? [index] : []))
  }
  t.same(await checked(one.page), [0, 1])
  await events(one.page).first().uncheck()
  await one.page.getByLabel('Archives to keep').fill('5')
  await photograph(one.page, 'settings-desktop')
  const notifications = 'Address for notifications in the settings'
  const storage = 'Limits and storage'
  for (const card of [notifications, storage]) await saveCard(one.page, card)
  t.match(await kept(), { webhook_events: 'deploy_failure', keep_archives: '5' })
  t.same(one.watch.complaints, [], 'a card does not disturb the others')

  await two.page.getByLabel('Maximum archive size').fill('60')
  await two.page.getByLabel('Archives to keep').fill('7')
  await submitCard(two.page, storage)
  await question(two.page).waitFor()
  t.same(await question(two.page).locator('pre').allTextContents(), ['7', '5'])
  await choose(two.page, 'Archives to keep', 'Yours')
  await question(two.page).getByRole('button', { name: 'Save', exact: true }).click()
  await cardSaved(two.page, storage)
  t.match(
    await kept(),
    { webhook_events: 'deploy_failure', keep_archives: '7', max_upload_size: '60' },
    'the events of the other tab stay'
  )
  await until(async () => (await checked(two.page)).join() === '1')
  t.match(two.watch.complaints.splice(0), [/412/])
})

t.test('labels and notification targets', { skip }, async t => {
  const stage = await startServer(t)
  await stage.client.post('/api/tags', { name: 'Live' })
  const target = (await stage.client.post('/api/notification-targets', { name: 'Us', url: 'http://127.0.0.1:9/hook' }))
    .body.target
  const labels = await openDuring(t, browser, stage.url, 'labels')
  await labels.page.getByRole('button', { name: 'Change Live' }).click()
  const form = labels.page.getByRole('dialog').locator('form').first()
  await form.getByLabel('Name').fill('Mine')
  const [tag] = (await stage.client.get('/api/tags')).body
  await stage.client.put(`/api/tags/${tag.id}`, { name: 'Theirs', color: 'pink' })
  await form.getByRole('button', { name: 'Save' }).click()
  await choose(labels.page, 'Name', 'Yours')
  await question(labels.page).getByRole('button', { name: 'Save', exact: true }).click()
  await form.waitFor({ state: 'detached' })
  t.match((await stage.client.get('/api/tags')).body, [{ name: 'Mine', color: 'pink' }])

  const { page } = await openDuring(t, browser, stage.url, 'settings')
  await page.getByRole('button', { name: 'Change: Us' }).click()
  const fields = page.locator('svc-notification-target form').first()
  await fields.getByLabel('Name').fill('Mine')
  await stage.client.put(`/api/notification-targets/${target.id}`, { name: 'Theirs', enabled: false })
  await fields.getByRole('button', { name: 'Save' }).click()
  await question(page).waitFor()
  await page.keyboard.press('Escape')
  await question(page).waitFor({ state: 'detached' })
  t.equal(await fields.getByLabel('Name').inputValue(), 'Mine', 'Escape closes the question, not the form')
  await fields.getByRole('button', { name: 'Save' }).click()
  await choose(page, 'Name', 'Yours')
  await question(page).getByRole('button', { name: 'Save', exact: true }).click()
  await fields.waitFor({ state: 'detached' })
  const { items } = (await stage.client.get('/api/notification-targets')).body
  t.match(
    items.find(({ id }: { id: string }) => id === target.id),
    { name: 'Mine', enabled: false }
  )
})
