import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { onPhone, openDuring, photographer, stillDesktop } from './stage.js'
import { survey } from './survey.js'

/* The files that svc put into a target, in a real browser: edited ones, verification, repair, undo and exact rollback. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('exact')

async function startDeployed(t: Parameters<typeof startServer>[0]) {
  const stage = await startServer(t)
  const project = await stage.createProject('storefront')
  const releases: Array<Record<string, string>> = [
    { 'index.html': 'one', 'old.js': 'old' },
    { 'index.html': 'two', 'new.js': 'new' }
  ]
  for (const files of releases) {
    await stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', { filename: 'a.zip', bytes: await zipOf(files) }]
    ])
  }
  const [, { id: first }] = (await stage.client.get('/api/logs')).body
  return { stage, project, first, at: (name: string) => join(project.deployPath, name) }
}

t.test('edited files are found, listed, verified and repaired', { skip }, async t => {
  const { stage, project, at } = await startDeployed(t)
  writeFileSync(at('index.html'), 'edited on the server')
  rmSync(at('old.js'))
  const { page, watch } = await openDuring(t, browser, stage.url, `projects/${project.id}`, stillDesktop)
  const dialog = page.getByRole('dialog')
  await page.getByRole('button', { name: '2 files edited on the server' }).click()
  await dialog.getByText('index.html', { exact: true }).waitFor()
  await dialog.getByText('old.js').waitFor()
  t.same(await survey(page), [], 'the list is readable and named')
  await photograph(page, 'drift-desktop')
  const downloading = page.waitForEvent('download')
  await dialog.getByRole('button', { name: 'Download index.html' }).click()
  const edited = await downloading
  t.equal(edited.suggestedFilename(), 'index.html')
  t.equal(readFileSync(await edited.path(), 'utf8'), 'edited on the server')
  t.equal(await dialog.getByRole('button', { name: 'Download old.js' }).count(), 0, 'it is gone')
  await dialog.getByRole('button', { name: 'Put back…' }).click()
  await dialog.getByText('2 files get the contents and permissions of the last deployment.').waitFor()
  await dialog.getByRole('button', { name: 'Cancel' }).click()

  await page.getByRole('button', { name: 'Verify' }).click()
  await page.getByText('2 files not as deployed:').waitFor()
  t.same(await survey(page), [], 'the findings are readable and named')
  await photograph(page, 'findings-desktop')
  await page.getByRole('button', { name: 'Repair…' }).click()
  await dialog.getByRole('button', { name: 'Repair', exact: true }).click()
  await page.waitForURL(/deployments\/dep_/)
  await page.locator('svc-page-deployment svc-status[state=success]').first().waitFor()
  t.equal(readFileSync(at('index.html'), 'utf8'), 'two')
  t.equal(readFileSync(at('old.js'), 'utf8'), 'old')
  t.same(watch.complaints, [])
})

t.test('the last deployment is undone, and an exact rollback says what it keeps', { skip }, async t => {
  const { stage, project, first, at } = await startDeployed(t)
  const { page, watch } = await openDuring(t, browser, stage.url, `deployments/${first}`, onPhone)
  const dialog = page.getByRole('dialog')
  await page
    .getByRole('button', { name: /Roll back/ })
    .first()
    .click()
  await dialog.locator('.changes').waitFor()
  await dialog.getByText('Restore the state exactly').click()
  await dialog.getByText('1 deployment undone: 1 file brought back, 1 removed.').waitFor()
  t.same(await survey(page), [], 'the rollback is readable and named')
  await photograph(page, 'rollback-phone')
  await page.keyboard.press('Escape')

  writeFileSync(at('new.js'), 'edited')
  await page.goto(`${stage.url}/projects/${project.id}`)
  await page.getByRole('button', { name: 'Undo the last deployment…' }).click()
  await dialog.getByText('1 file edited on the server would stay: new.js').waitFor()
  t.same(await survey(page), [], 'the undo is readable and named')
  await photograph(page, 'undo-phone')
  await dialog.getByLabel('Also take back files that were edited on the server').check()
  await dialog.getByText('1 deployment undone: 1 file brought back, 1 removed.').waitFor()
  await dialog.getByRole('button', { name: 'Undo', exact: true }).click()
  await page.waitForURL(/deployments\/dep_/)
  await page.locator('svc-page-deployment svc-status[state=success]').first().waitFor()
  t.equal(readFileSync(at('index.html'), 'utf8'), 'one')
  t.throws(() => readFileSync(at('new.js')), { code: 'ENOENT' })
  t.same(watch.complaints, [])
})
