import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { holds, isWithin, onPhone, openDuring, photographer, stillDesktop } from './stage.js'
import { survey } from './survey.js'

/* The question before a deployment from the panel: what it is, where it goes, and what is refused before it is sent. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('project-deploy')

const files = (page: Page) => page.locator('input[type=file]:not([webkitdirectory])')
const asked = (page: Page) => page.getByRole('dialog')
const zipFile = (name: string, buffer: Buffer) => ({ name, mimeType: 'application/zip', buffer })

/** The local and the central flags say that the first entry is encrypted. */
function encrypted(zip: Buffer): Buffer {
  const changed = Buffer.from(zip)
  const at = changed.indexOf(Buffer.from([0x50, 0x4b, 0x01, 0x02]))
  changed.writeUInt16LE(changed.readUInt16LE(at + 8) | 1, at + 8)
  return changed
}

t.test('reports a refusal before a byte is sent', { skip }, async t => {
  const stage = await startServer(t, { settings: { max_upload_size: '1' } })
  const project = await stage.createProject('storefront')
  const { page, watch } = await openDuring(t, browser, stage.url, `projects/${project.id}`, stillDesktop)
  const site = await zipOf({ 'index.html': 'one' })
  const refused: Array<[what: string, file: ReturnType<typeof zipFile>, says: string | RegExp]> = [
    ['an empty file', zipFile('empty.zip', Buffer.alloc(0)), '“empty.zip” is an empty file.'],
    [
      'a zip without entries',
      zipFile('nothing.zip', Buffer.concat([Buffer.from('PK\x05\x06', 'latin1'), Buffer.alloc(18)])),
      'It contains no files to deploy.'
    ],
    [
      'a text',
      zipFile('text.zip', Buffer.from('no zip at all, but a text')),
      '“text.zip” is not a zip archive, or only a part of one. Pack it again as a zip.'
    ],
    ['half of a zip', zipFile('half.zip', site.subarray(0, site.length - 30)), '“half.zip” is not a zip archive'],
    [
      'an encrypted one',
      zipFile('secret.zip', encrypted(site)),
      '“index.html” is encrypted. Create the zip again without a password.'
    ],
    [
      'too large',
      zipFile('large.zip', Buffer.alloc(2 * 1024 * 1024)),
      'Archive size 2.0 MB exceeds the limit of 1.0 MB (setting max_upload_size).'
    ]
  ]
  for (const [what, file, says] of refused) {
    await files(page).setInputFiles(file)
    await asked(page).getByRole('alert').getByText(says).waitFor()
    t.ok(await asked(page).getByRole('button', { name: 'Deploy', exact: true }).isDisabled(), what)
    if (what === 'a text') {
      t.same(await survey(page), [], 'readable and named')
      await photograph(page, 'refused')
    }
    await page.keyboard.press('Escape')
    await asked(page).waitFor({ state: 'hidden' })
  }

  const noise = Buffer.from(Array.from({ length: 1_300_000 }, (_, n) => ((n * 2654435761) >>> 13) & 0xff))
  await files(page).setInputFiles([
    { name: 'noise.png', mimeType: 'image/png', buffer: noise },
    { name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('a') }
  ])
  await asked(page).getByRole('button', { name: 'Deploy', exact: true }).click()
  await page.locator('svc-upload [role=alert]').getByText('Archive size 1.2 MB exceeds the limit').waitFor()
  t.same((await stage.client.get('/api/logs')).body, [], 'nothing has reached the server')
  t.same(watch.complaints, [])
})

t.test(
  'a zip is shown, named with its project and directory, and sent with a message and its origin',
  { skip },
  async t => {
    const stage = await startServer(t)
    const project = await stage.createProject('storefront')
    const { page, watch } = await openDuring(t, browser, stage.url, `projects/${project.id}`, stillDesktop)
    const long = `${'a-long-name-of-a-directory/'.repeat(8)}index.html`
    const zip = await zipOf({
      'dist/index.html': 'one',
      'dist/node_modules/a.js': 'x',
      'dist/app.js': 'y'.repeat(5000),
      [`dist/${long}`]: 'z',
      'dist/.env': 'SECRET=1'
    })
    await files(page).focus()
    await files(page).setInputFiles(zipFile('release.zip', zip))
    const dialog = asked(page)
    await dialog.getByRole('heading', { name: 'Deploy to storefront?' }).waitFor()
    await dialog.getByText(/^5 files, 4\.9 KB; .* as a zip$/).waitFor()
    t.match(
      await dialog.locator('.about').textContent(),
      new RegExp(`storefront[^]*production[^]*${project.deployPath}[^]*release\\.zip`)
    )
    t.match(await dialog.locator('.about li').first().textContent(), /dist\/app\.js.*4\.9 KB/)
    await dialog
      .getByText(`The zip contains a single folder, “dist”: its files will be written to ${project.deployPath}/dist.`)
      .waitFor()
    await dialog.getByText('It contains files that svc push excludes: dist/node_modules, dist/.env').waitFor()
    t.same(await survey(page), [], 'readable and named')
    await photograph(page, 'zip')

    // Keyboard only: the focus is on the button, stays inside, and comes back.
    await holds(page, `document.activeElement.matches('svc-pack button.primary')`)
    for (let n = 0; n < 8; n++) {
      await page.keyboard.press('Tab')
      t.equal(
        await page.evaluate(
          `document.activeElement === document.body || document.activeElement.closest('dialog') !== null`
        ),
        true,
        'the focus stays inside'
      )
    }
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'hidden' })
    t.equal(
      await page.evaluate(`document.activeElement.matches('input[type=file]')`),
      true,
      'the focus is back where it was'
    )
    t.same((await stage.client.get('/api/logs')).body, [], 'Escape sends nothing')

    await files(page).focus()
    await files(page).setInputFiles(zipFile('release.zip', zip))
    await holds(page, `document.activeElement.matches('svc-pack button.primary')`)
    await page.keyboard.press('Shift+Tab')
    await page.keyboard.press('Shift+Tab')
    await page.keyboard.type('Release 7')
    await page.evaluate(`{
    const { send } = XMLHttpRequest.prototype
    XMLHttpRequest.prototype.send = function (form) {
      window.sentForm = [...form.entries()].map(([name, value]) => [name, typeof value === 'string' ? value : value.name])
      return send.call(this, form)
    }
  }`)
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/deployments\/dep_\w+$/)
    await page.locator('svc-page-deployment svc-status[state=success]').first().waitFor()
    const form = (await page.evaluate('window.sentForm')) as Array<[string, string]>
    t.same(
      form.map(([name]) => name),
      ['projectId', 'message', 'provenance', 'planId', 'file'],
      'the file last'
    )
    t.same(JSON.parse(new Map(form).get('provenance') ?? ''), {
      source: 'panel',
      commit: null,
      branch: null,
      tag: null,
      author: null,
      subject: null,
      dirty: null,
      repository: null,
      ci: null,
      by: 'admin'
    })
    t.ok(existsSync(join(stage.sites, 'storefront', 'dist', 'index.html')))
    await page.goBack()
    await page.locator('svc-live').getByRole('link', { name: 'Release 7' }).waitFor()
    await page.locator('svc-live').getByText('5 files').waitFor()
    t.match((await stage.client.get('/api/logs')).body, [{ message: 'Release 7' }])
    t.same(await survey(page), [], 'readable and named')
    await photograph(page, 'deployed', { isWhole: true })

    // From now on, the ways are in a dialog. The question takes their place, and Escape goes back step by step.
    const open = page.getByRole('button', { name: 'Deploy…' })
    await open.focus()
    await page.keyboard.press('Enter')
    await dialog.getByRole('heading', { name: 'Deploy to storefront', exact: true }).waitFor()
    const isInZone = `document.activeElement.matches('dialog input[type=file]')`
    await holds(page, isInZone)
    t.same(await survey(page), [], 'readable and named')
    await photograph(page, 'ways')
    await files(page).setInputFiles(zipFile('release.zip', zip))
    await holds(page, `document.activeElement.matches('svc-pack button.primary')`)
    await page.keyboard.press('Escape')
    await holds(page, isInZone)
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'hidden' })
    await holds(page, `document.activeElement.textContent.includes('Deploy…')`)
    t.same(watch.complaints, [])
  }
)

t.test('on a phone, in Chinese, with an archive that is not unpacked and an empty folder', { skip }, async t => {
  const stage = await startServer(t)
  const name = 'a-very-long-name-of-a-project-that-documents-everything-there-is-and-then-some-more'
  const project = await stage.createProject(name)
  const source = join(stage.sites, '..', 'dist')
  mkdirSync(join(source, 'empty'), { recursive: true })
  const { page } = await openDuring(t, browser, stage.url, `projects/${project.id}`, { ...onPhone, locale: 'zh-CN' })
  await files(page).setInputFiles([{ name: 'site.tar.gz', mimeType: 'application/gzip', buffer: Buffer.from('x') }])
  await asked(page).getByText('将原样放置，不会解压：site.tar.gz').waitFor()
  t.ok(await isWithin(page))
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'phone-zh')
  await asked(page).getByRole('button', { name: '取消' }).click()

  writeFileSync(join(source, 'debug.log'), 'x')
  await page.locator('input[webkitdirectory]').setInputFiles(source)
  await asked(page).getByText('其中没有可部署的内容。').waitFor()
  t.ok(await asked(page).getByRole('button', { name: '部署', exact: true }).isDisabled())
  await asked(page).getByRole('button', { name: '全部包含' }).click()
  await asked(page).getByText('1 个文件').first().waitFor()
  await asked(page).getByRole('button', { name: '部署', exact: true }).click()
  await page.waitForURL(/\/deployments\/dep_\w+$/)
  await page.locator('svc-page-deployment svc-status[state=success]').first().waitFor()
  t.equal(readFileSync(join(stage.sites, name, 'debug.log'), 'utf8'), 'x')
  t.ok(await isWithin(page))
  await photograph(page, 'phone-zh-deployed', { isWhole: true })
})
