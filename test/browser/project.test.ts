import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BrowserContext, Page } from 'playwright-core'
import t from 'tap'
import type { Project } from '../../lib/model/project.js'
import { standInPm2 } from '../support/pm2.js'
import { adminToken, startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { cardOf, holds, onPhone, openDuring, phone, photographer, saveCard, submitCard, stillDesktop } from './stage.js'
import { survey } from './survey.js'

/*
 * One project in a real browser: folders and files deployed from the page, what lies in its target, its settings. With
 * PICTURES=1 in the environment pictures are left in dist/screens.
 */

/** A picture of one red dot. */
const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==',
  'base64'
)

const { browser, skip } = await startChromium(t)
const photograph = photographer('project')

/** Files below a directory: path → content; a path that ends with a slash is an empty directory. */
function write(directory: string, files: Record<string, string | Buffer>): void {
  for (const [path, content] of Object.entries(files)) {
    const place = join(directory, path)
    mkdirSync(path.endsWith('/') ? place : join(place, '..'), { recursive: true })
    if (!path.endsWith('/')) writeFileSync(place, content)
  }
}

const site = {
  'index.html': '<!doctype html>\n<title>Shop</title>\n<p class="a">Hello</p>\n',
  'css/main.css': 'a { color: red }\n',
  'css/deep/er/print.css': '/* nothing */\n',
  'bin/restart.sh': '#!/bin/sh\necho restarted\n',
  'images/logo.png': png,
  'images/drawing.svg': '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><circle r="20"/></svg>',
  'empty/': '',
  'node_modules/a/index.js': 'module.exports = 1\n',
  '.env': 'SECRET=1\n',
  'data.bin': Buffer.from([0, 1, 2, 3]),
  'app.js': Array.from({ length: 4000 }, (_, line) => `const value${line} = "${line}" // a line\n`).join(''),
  'größe 文件.txt': 'a name of many bytes\n'
}

/** Drops what lies at these paths on the zone, as a file manager does. */
async function dropPaths(context: BrowserContext, page: Page, paths: string[]): Promise<void> {
  const box = await page.locator('svc-upload .zone').boundingBox()
  if (box === null) throw new Error('There is no zone to drop on')
  const wire = await context.newCDPSession(page)
  const data = { items: [], files: paths, dragOperationsMask: 1 }
  const at = { x: box.x + 20, y: box.y + 20, data }
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const)
    await wire.send('Input.dispatchDragEvent', { type, ...at })
  await wire.detach()
}

const tab = (page: Page, name: string) =>
  page.getByRole('navigation', { name: 'Project', exact: true }).getByRole('link', { name })

/** Waits for the end of a deployment on its page, which opens by itself, and goes back to the project. */
async function deployed(page: Page): Promise<void> {
  await page.waitForURL(/\/deployments\/dep_\w+$/)
  await page.locator('svc-page-deployment svc-status[state=success]').first().waitFor()
  await page.goBack()
  await page.locator('svc-page-project svc-live').waitFor()
}

const openWays = (page: Page) => page.getByRole('button', { name: 'Deploy…' }).click()

t.test('folders and files are looked through, packed, and deployed', { skip }, async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('storefront')
  const target = join(stage.sites, 'storefront')
  const source = join(stage.sites, '..', 'dist')
  write(source, site)
  const { page, watch, context } = await openDuring(t, browser, stage.url, `projects/${project.id}`, stillDesktop)
  await page.getByText('No deployments yet.').waitFor()
  await photograph(page, 'empty-desktop')

  await page.locator('input[webkitdirectory]').setInputFiles(source)
  await page.getByText('2 excluded, as in svc push: .env, node_modules').waitFor()
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'pack-desktop')
  await page.getByRole('button', { name: 'Deploy', exact: true }).click()
  await deployed(page)
  for (const [path, content] of Object.entries(site)) {
    if (/^(?:\.env|node_modules|empty)/.test(path)) continue
    t.same(readFileSync(join(target, path)), Buffer.from(content), path)
  }
  t.notOk(existsSync(join(target, '.env')), 'what is left out is not there')
  t.equal(statSync(join(target, 'bin/restart.sh')).mode & 0o777, 0o755, 'a script can be run')

  await openWays(page)
  await dropPaths(context, page, [source])
  await page.getByText('2 excluded').waitFor()
  await page.getByRole('button', { name: 'Include them' }).click()
  await page.getByText('Included, although excluded by default: node_modules').waitFor()
  await page.getByText('1 excluded, as in svc push: .env').waitFor()
  await page.getByRole('button', { name: 'Deploy', exact: true }).click()
  await deployed(page)
  t.notOk(existsSync(join(target, '.env')), 'a secret stays out in any case')
  t.ok(existsSync(join(target, 'node_modules/a/index.js')))
  t.ok(statSync(join(target, 'empty')).isDirectory(), 'a dropped folder has its empty ones, too')

  await openWays(page)
  write(join(stage.sites, '..'), { 'one.txt': 'one', 'two/three.txt': 'three' })
  await dropPaths(context, page, [join(stage.sites, '..', 'one.txt'), join(stage.sites, '..', 'two')])
  await page.locator('svc-pack').getByText('2 items', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.locator('input[type=file]:not([webkitdirectory])').setInputFiles(join(stage.sites, '..', 'one.txt'))
  await page.locator('svc-pack').getByText('one.txt', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Deploy', exact: true }).click()
  await deployed(page)
  t.equal(readFileSync(join(target, 'one.txt'), 'utf8'), 'one')
  await page.locator('svc-live').getByRole('link', { name: 'one.txt' }).waitFor()
  const records = (await stage.client.get(`/api/logs?projectId=${project.id}`)).body
  t.same(
    records.map(({ message }: { message: string }) => message),
    ['one.txt', 'dist', 'dist']
  )
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])
})

t.test('shows the target as a tree and a list, previews texts and pictures, and downloads files', { skip }, async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('storefront')
  write(join(stage.sites, 'storefront'), site)
  const { page, watch } = await openDuring(t, browser, stage.url, `projects/${project.id}`, stillDesktop)
  await tab(page, 'Files').click()
  await page.locator('svc-rows').getByRole('link', { name: 'index.html' }).waitFor()
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'files-desktop')

  const tree = page.getByRole('tree', { name: 'Directories' })
  const here = tree.locator('[role=treeitem]:focus')
  await tree.getByRole('treeitem', { name: 'storefront' }).focus()
  await page.keyboard.press('ArrowDown')
  await here.getByText('bin').waitFor()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('ArrowRight')
  await tree.getByRole('treeitem', { name: 'deep' }).waitFor()
  await page.keyboard.press('ArrowRight')
  await here.getByText('deep').waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL(/files\?path=css%2Fdeep$/)
  await page.locator('svc-rows').getByRole('link', { name: 'er folder' }).waitFor()
  await tree.getByRole('treeitem', { name: 'er', exact: true }).waitFor()
  await page.keyboard.press('ArrowLeft')
  await page.keyboard.press('ArrowLeft')
  await here.getByText('css').waitFor()
  await page.keyboard.press('ArrowLeft')
  await tree.getByRole('treeitem', { name: 'deep' }).waitFor({ state: 'detached' })
  await page.goBack()
  await page.locator('svc-rows').getByRole('link', { name: 'index.html' }).click()

  await page.locator('svc-code .line[data-line="3"]', { hasText: 'Hello' }).waitFor()
  t.equal(await page.locator('svc-code .keyword', { hasText: '<title' }).count(), 1, 'tags have their colour')
  t.equal(await page.locator('svc-code p').count(), 0, 'a file is never markup')
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'file-desktop')
  await page.goto(`${stage.url}/projects/${project.id}/files?path=app.js`)
  await page.locator('svc-code .line[data-line="1"]').waitFor()
  t.ok((await page.locator('svc-code .line').count()) < 400, 'only the lines near those seen are on the page')
  await page.locator('svc-code .scroll').press('End')
  await page.locator('svc-code .line[data-line="4000"]', { hasText: 'const value3999' }).waitFor()
  await photograph(page, 'code-desktop')
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download' }).click()
  t.equal((await download).suggestedFilename(), 'app.js')
  t.equal(readFileSync(await (await download).path(), 'utf8'), site['app.js'])

  await page.getByRole('treeitem', { name: 'images' }).click()
  await page.locator('svc-rows').getByRole('link', { name: 'logo.png' }).click()
  t.equal(await widthOf(page), 1)
  await page.goBack()
  await page.locator('svc-rows').getByRole('link', { name: 'drawing.svg' }).click()
  t.equal(await widthOf(page), 40)
  await page.locator('svc-code', { hasText: '<circle' }).waitFor()
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'image-desktop')
  await page.goto(`${stage.url}/projects/${project.id}/files?path=data.bin`)
  await page.getByText('The file is not text. You can download it.').waitFor()
  await page.goto(`${stage.url}/projects/${project.id}/files?path=gr%C3%B6%C3%9Fe+%E6%96%87%E4%BB%B6.txt`)
  await page.getByText('a name of many bytes').waitFor()
  t.same(watch.complaints, [])
  await page.goto(`${stage.url}/projects/${project.id}/files?path=..%2F..`)
  await page.getByRole('heading', { name: 'Could not load the files' }).waitFor()
  t.same(watch.foreign, [])
})

/** Of the picture that is shown, once it is there. */
async function widthOf(page: Page): Promise<number> {
  await page.locator('svc-file img').waitFor()
  return page.evaluate(
    'document.querySelector("svc-file img").decode().then(() => document.querySelector("svc-file img").naturalWidth)'
  )
}

async function valueIs(page: Page, label: string, value: string): Promise<void> {
  const field = page.getByRole('textbox', { name: label })
  while ((await field.inputValue()) !== value) await new Promise(resolve => setTimeout(resolve, 20))
}

t.test('settings: every field, scripts from the last deployment, and a way back from leaving', { skip }, async t => {
  const pm2 = standInPm2(t)
  const listing = [
    {
      name: 'shop',
      pm_id: 0,
      pid: 41,
      monit: { cpu: 1.5, memory: 50_000_000 },
      pm2_env: {
        status: 'online',
        restart_time: 3,
        unstable_restarts: 0,
        pm_uptime: Date.now() - 7_200_000,
        exec_mode: 'fork_mode'
      }
    }
  ]
  const stage = await startServer(t, {
    environment: { ...pm2.env, PATH: `${pm2.env.PATH}:${process.env['PATH']}`, ADMIN_TOKEN: adminToken }
  })
  const outLog = join(stage.sites, 'shop-out.log')
  writeFileSync(outLog, '')
  pm2.install([{ ...listing[0], pm2_env: { ...listing[0]?.pm2_env, pm_out_log_path: outLog } }])
  const project = await stage.createProject('storefront')
  await labelsOf(stage)
  await deployWithScript(stage, project)
  const { page, watch } = await openDuring(t, browser, stage.url, `projects/${project.id}`, stillDesktop)
  await tab(page, 'Settings').click()

  await page.getByLabel('PM2 application').fill('shop')
  await page.getByLabel('Category').selectOption({ label: 'Customers' })
  await page.getByLabel('node').check()
  await page.getByLabel('Environment').fill('staging')
  await page.getByLabel('Disk quota, in MB').fill('250')
  await page.getByRole('button', { name: 'Copy from last deployment' }).click()
  await valueIs(page, 'Post-deploy script', 'echo sent by a push')
  await cardOf(page, 'Scripts').getByText('Unsaved changes.').waitFor()
  await page.getByRole('button', { name: 'Browse…' }).click()
  await page.locator('svc-places').getByLabel('Filter, or').fill('s')
  await page.keyboard.press('Escape')
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'settings-desktop')

  await tab(page, 'Files').click()
  await page.getByRole('heading', { name: 'Leave without saving?' }).waitFor()
  await page.getByText('These settings have unsaved changes: General, Scripts.').waitFor()
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'leave-desktop')
  await page.getByRole('button', { name: 'Stay' }).click()
  t.match(page.url(), /\/settings$/)
  t.equal(await page.getByLabel('Environment').inputValue(), 'staging', 'nothing that was typed is lost')
  await page.evaluate('history.back()')
  await page.getByRole('heading', { name: 'Leave without saving?' }).waitFor()
  await page.getByRole('button', { name: 'Stay' }).click()
  t.match(page.url(), /\/settings$/)

  await page.getByLabel('Directory on the server').fill('/etc')
  await submitCard(page, 'General')
  await page.locator('#project-deployPath-error').waitFor()
  await holds(page, `document.activeElement.id === 'project-deployPath'`)
  t.match(watch.complaints.splice(0), [/400.*\/api\/projects/])
  await page.getByLabel('Directory on the server').fill(join(stage.sites, 'elsewhere'))
  await page.getByLabel('Allowed push variables').fill('NODE_ENV, LD_PRELOAD')
  await submitCard(page, 'Scripts')
  await page.locator('#project-allowedEnv-error').getByText('LD_PRELOAD').waitFor()
  t.match(watch.complaints.splice(0), [/400.*\/api\/projects/])
  await page.getByLabel('Allowed push variables').fill('NODE_ENV, APP_*')
  await page.getByLabel('Run as user').fill('no-such-user-here')
  await submitCard(page, 'Files')
  await page.locator('#project-runAs-error').getByText('no-such-user-here').waitFor()
  t.match(watch.complaints.splice(0), [/400.*\/api\/projects/])
  await cardOf(page, 'Files').getByRole('button', { name: 'Discard' }).click()
  t.equal(await page.getByLabel('Run as user').inputValue(), '')
  await page.route(
    '**/api/projects/*',
    route => route.fulfill({ status: 500, json: { success: false, error: 'Broken', code: 'internal_error' } }),
    { times: 1 }
  )
  await submitCard(page, 'Scripts')
  await cardOf(page, 'Scripts').locator('.save').getByRole('alert').waitFor()
  t.match(watch.complaints.splice(0), [/500.*\/api\/projects/], 'what no field shows is in the bar')
  for (const card of ['Scripts', 'General']) await saveCard(page, card)
  const saved = (await stage.client.get(`/api/projects/${project.id}`)).body as Project
  t.match(saved, {
    env: 'staging',
    pm2AppName: 'shop',
    postDeployScript: 'echo sent by a push',
    deployPath: join(stage.sites, 'elsewhere'),
    allowedEnv: ['NODE_ENV', 'APP_*'],
    maxDiskMb: 250
  })
  t.ok(saved.categoryId !== null && saved.tagIds.length === 1)
  await page.locator('svc-pm2').getByText('online').waitFor()
  await page.locator('svc-pm2').getByText('2 h').waitFor()
  await page.locator('.facts svc-label', { hasText: 'Customers' }).waitFor()

  await tab(page, 'Logs').click()
  await page.getByRole('button', { name: 'Add PM2 log files' }).click()
  await page.getByText('1 log file added').waitFor()
  await page.getByText('shop-out.log').first().waitFor()
  await tab(page, 'Settings').click()
  await page.getByLabel('Description').fill('to be thrown away')
  await tab(page, 'Deployments').click()
  await page.getByRole('button', { name: 'Discard changes' }).click()
  await page.getByRole('heading', { name: 'History' }).waitFor()
  t.equal((await stage.client.get(`/api/projects/${project.id}`)).body.description, '')
  t.same(await survey(page), [], 'readable and named')
  await photograph(page, 'pm2-desktop')
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])
})

async function labelsOf(stage: Stage): Promise<void> {
  await stage.client.post('/api/categories', { name: 'Customers', color: 'blue' })
  for (const [name, color] of [
    ['node', 'green'],
    ['eu-west', 'purple']
  ])
    await stage.client.post('/api/tags', { name, color })
}

/** A deployment that brought a script of its own. */
async function deployWithScript(stage: Stage, project: Project): Promise<void> {
  const form = new FormData()
  form.set('projectId', project.id)
  form.set('postDeploy', 'echo sent by a push')
  form.set('file', new Blob([await zipOf({ 'a.txt': 'a' })]), 'a.zip')
  const headers = { authorization: `Bearer ${project.token}` }
  await (await fetch(`${stage.url}/api/deploy/upload`, { method: 'POST', headers, body: form })).text()
}

t.test('on a phone, in Chinese, nothing sticks out at the side', { skip }, async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('storefront', {
    description: 'A description that is long enough to be broken into lines'
  })
  await labelsOf(stage)
  write(join(stage.sites, 'storefront'), site)
  const { page, watch } = await openDuring(t, browser, stage.url, `projects/${project.id}`, {
    ...onPhone,
    locale: 'zh-CN',
    reducedMotion: 'reduce'
  })
  await page.getByRole('heading', { name: '在此部署' }).waitFor()
  for (const [name, address, sign] of [
    ['deploy', '', 'svc-upload'],
    ['files', '/files', 'svc-rows li'],
    ['file', '/files?path=css%2Fmain.css', 'svc-code .line'],
    ['settings', '/settings', 'svc-project-card']
  ] as const) {
    await page.goto(`${stage.url}/projects/${project.id}${address}`)
    await page.locator(sign).first().waitFor()
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), phone.width, name)
    await photograph(page, `${name}-phone`)
  }
  t.same(watch.complaints, [])
})
