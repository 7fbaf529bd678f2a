import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { desktop, onPhone, openDuring, photographer } from './stage.js'
import { survey } from './survey.js'

/*
 * The files that svc put into a target: verified, repaired, undone, and restored exactly. With PICTURES=1 in the
 * environment pictures are left in dist/screens.
 */

const { browser, skip } = await startChromium(t)
const photograph = photographer('owned')

async function furnished(t: Parameters<typeof startServer>[0]) {
  const stage = await startServer(t)
  const project = await stage.createProject('storefront')
  const push = async (message: string, files: Record<string, string>): Promise<string> => {
    const bytes = await zipOf(files)
    const { headers } = await stage.as(project.token).upload([
      ['projectId', project.id],
      ['message', message],
      ['file', { filename: 'site.zip', bytes }]
    ])
    return String(headers['x-svc-deploy-id'])
  }
  const first = await push('First version', { 'index.html': 'one', 'style.css': 'one' })
  const second = await push('Second version', { 'index.html': 'two', 'style.css': 'one', 'new.html': 'new' })
  const place = (name: string): string => join(project.deployPath, name)
  return { stage, project, first, second, place }
}

t.test('verifies files, repairs them, and undoes the last deployment', { skip }, async t => {
  const { stage, project, place } = await furnished(t)
  writeFileSync(place('style.css'), 'by hand')
  const { page, watch } = await openDuring(t, browser, stage.url, `projects/${project.id}`, { viewport: desktop })
  const card = page.locator('svc-owned')
  await card.getByText('3 files put there by svc').waitFor()
  await card.getByText('1 file edited on the server').waitFor()
  await card.getByText('exact undo of the last 2 deployments').waitFor()
  await card.getByRole('button', { name: 'Verify' }).click()
  await card.getByText('1 file not as deployed:').waitFor()
  t.match(await card.locator('.findings').textContent(), /style\.css\s*edited/)
  await photograph(page, 'findings-desktop')
  t.same(await survey(page), [])

  await card.getByRole('button', { name: 'Repair…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Repair' }).click()
  await page.getByRole('heading', { level: 1, name: 'Repair' }).waitFor()
  await page.locator('.verdict svc-status[state=success]').waitFor()
  t.equal(readFileSync(place('style.css'), 'utf8'), 'one')

  await page.goto(`${stage.url}/projects/${project.id}`)
  await card.getByRole('button', { name: 'Verify' }).click()
  await card.getByText('Every file is as deployed.').waitFor()
  await card.getByRole('button', { name: 'Undo the last deployment…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('1 deployment undone').waitFor()
  await photograph(page, 'undo-desktop')
  await dialog.getByRole('button', { name: 'Undo', exact: true }).click()
  await page.getByRole('link', { name: 'undoes a deployment' }).waitFor()
  await page.locator('.verdict svc-status[state=success]').waitFor()
  t.equal(readFileSync(place('style.css'), 'utf8'), 'by hand', 'the repair is undone')
  t.same(watch.complaints, [])

  writeFileSync(place('style.css'), 'by hand again')
  const small = await openDuring(t, browser, stage.url, `projects/${project.id}`, { ...onPhone, locale: 'zh-CN' })
  await small.page.locator('svc-owned').getByRole('button', { name: '校验' }).click()
  await small.page.locator('svc-owned .findings').waitFor()
  await photograph(small.page, 'findings-phone-zh')
  t.same(await survey(small.page), [])
})

t.test('a rollback restores the state exactly, and takes back edits only if asked', { skip }, async t => {
  const { stage, first, place } = await furnished(t)
  writeFileSync(place('index.html'), 'by hand')
  const { page, watch } = await openDuring(t, browser, stage.url, `deployments/${first}`, { viewport: desktop })
  await page.getByRole('button', { name: 'Roll back to this…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('1 file edited on the server would be replaced: index.html').waitFor()
  await dialog.getByLabel('Restore the state exactly').check()
  await dialog.getByText('1 deployment undone: 0 files brought back, 1 removed.').waitFor()
  await dialog.getByText('- new.html').waitFor()
  await dialog.getByText('1 file edited on the server would stay: index.html').waitFor()
  await photograph(page, 'exact-desktop')
  t.same(await survey(page), [])
  await dialog.getByLabel('Also take back files that were edited on the server').check()
  await dialog.getByText('~ index.html').waitFor()
  await dialog.getByRole('button', { name: 'Roll back', exact: true }).click()
  await page.getByRole('link', { name: 'restored the state after an earlier deployment' }).waitFor()
  await page.locator('.verdict svc-status[state=success]').waitFor()
  t.equal(readFileSync(place('index.html'), 'utf8'), 'one')
  t.notOk(existsSync(place('new.html')))
  t.same(watch.complaints, [])
})

t.test('says why it cannot go back exactly', { skip }, async t => {
  const { stage, first } = await furnished(t)
  await stage.client.post('/api/storage/clean', {})
  const { page } = await openDuring(t, browser, stage.url, `deployments/${first}`, onPhone)
  await page.route('**/rollback', async route => {
    const { dryRun, mode } = route.request().postDataJSON() as { dryRun?: boolean; mode?: string }
    if (!dryRun || mode !== 'exact') return route.continue()
    const plan = (await (await route.fetch()).json()) as object
    const problem = { code: 'not_exact', message: 'Cannot go back exactly: the archive of dep_1 has been removed' }
    await route.fulfill({ json: { ...plan, problem } })
  })
  await page.getByRole('button', { name: 'Roll back to this…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Restore the state exactly').check()
  await dialog.getByText('Cannot go back exactly: the archive of dep_1 has been removed').waitFor()
  await photograph(page, 'not-exact-phone')
  t.same(await survey(page), [])
})
