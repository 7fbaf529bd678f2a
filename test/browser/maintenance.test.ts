import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { onPhone, openDuring, photographer, stillDesktop } from './stage.js'
import { survey } from './survey.js'

/* The maintenance of a project in a real browser: begun and ended on its page, and listed in the overview. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('maintenance')

t.test('a project is put into maintenance, and out of it', { skip }, async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('storefront')
  const site = await zipOf({ 'index.html': 'one' })
  await stage.as(project.token).upload([
    ['projectId', project.id],
    ['file', { filename: 'a.zip', bytes: site }]
  ])
  const file = join(project.deployPath, '.maintenance')
  writeFileSync(file, 'mine')

  const { page, watch } = await openDuring(t, browser, stage.url, `projects/${project.id}`, stillDesktop)
  const dialog = page.getByRole('dialog')
  await page.getByRole('button', { name: 'Maintenance…', exact: true }).click()
  await page.getByLabel('Reason (optional)').fill('Back at 18:00')
  await page.keyboard.press('Enter')
  await dialog.getByLabel('Replace the file that is there').check()
  t.same(await survey(page), [], 'the dialog is readable and named')
  await photograph(page, 'begin-desktop')
  await dialog.getByRole('button', { name: 'Begin maintenance' }).click()
  await page.getByText('This project is in maintenance').waitFor()
  await page.getByText('Back at 18:00').waitFor()
  t.equal(await page.getByRole('button', { name: 'Maintenance…', exact: true }).count(), 0)
  t.same(await survey(page), [])
  await photograph(page, 'bar-desktop')

  writeFileSync(file, 'changed')
  await page.getByRole('button', { name: 'End maintenance…' }).click()
  await dialog.getByRole('button', { name: 'End maintenance', exact: true }).click()
  await dialog.getByLabel('Remove the file although it was changed').check()
  await dialog.getByRole('button', { name: 'End maintenance', exact: true }).click()
  await page.getByRole('button', { name: 'Maintenance…', exact: true }).waitFor()
  t.notOk(existsSync(file))
  t.same(
    watch.complaints.filter(line => !line.includes('409')),
    []
  )
})

t.test('the overview lists maintenances', { skip }, async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('storefront')
  await stage.as(project.token).upload([
    ['projectId', project.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ 'index.html': 'one' }) }]
  ])
  await stage.client.put(`/api/projects/${project.id}/maintenance`, { on: true, reason: 'moving the database' })
  const { page, watch } = await openDuring(t, browser, stage.url, '', { ...onPhone, locale: 'zh-CN' })
  await page.getByText('moving the database').waitFor()
  await page.getByRole('heading', { name: '维护中' }).waitFor()
  t.same(await survey(page), [])
  await photograph(page, 'overview-phone-zh')
  await page.getByRole('button', { name: '结束维护…' }).click()
  await page.getByRole('button', { name: '结束维护', exact: true }).click()
  await page.getByText('moving the database').waitFor({ state: 'detached' })
  t.same(watch.complaints, [])
})
