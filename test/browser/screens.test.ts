import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import t from 'tap'
import { findNginx, startNginx } from '../proxy/nginx.js'
import { adminToken, startServer } from '../support/server.js'
import type { Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { moduleText } from '../www/modules.js'
import { findChromium, launchChromium, openWatched } from './chromium.js'
import { latinWords, survey, surveyFocus } from './survey.js'

/*
 * Every screen that main.ts has a row for, as it comes: at the root, below a prefix, behind nginx; light and dark, desk
 * and phone, English and Chinese. Nothing may stick out, be nameless, unreadable, untranslated, or complain.
 */

const executable = findChromium()
const nginx = findNginx()
const skip = executable === undefined ? 'no chromium or google-chrome on the PATH' : false
const pictures = fileURLToPath(new URL('../../screens/', import.meta.url))
let browser: Browser

t.before(async () => {
  if (executable === undefined) return
  mkdirSync(pictures, { recursive: true })
  browser = await launchChromium(executable)
})
t.teardown(() => browser?.close())

/** The paths of main.ts, with their parameters; a new page is walked without being told of here. */
const paths = [...moduleText('main.js').matchAll(/\brow\('([^']*)'/g)].map(([, path]) => path as string)
  .filter(path => path !== 'login')

const name = '店面-a-name-that-goes-on-for-rather-long-so-that-it-has-to-be-cut-somewhere'

/** Words that stay as they are in Chinese. */
const sameEverywhere = [
  'svc', 'production', 'zip', 'Standard Webhooks', 'webhook', 'dev', 'root', 'node', 'linux', 'X-Forwarded-For', 'deployPath'
]

interface Furnished {
  stage: Stage
  addresses: string[]
}

/** A server with something of everything. */
async function furnish(stage: Stage): Promise<Furnished> {
  const { client } = stage
  const category = (await client.post('/api/categories', { name: '前端', color: 'pink' })).body.category
  const tag = (await client.post('/api/tags', { name: '重要', color: 'green' })).body.tag
  const project = await stage.createProject('storefront', { name, categoryId: category.id, tagIds: [tag.id] })
  await stage.createProject('other', { name: '其他' })
  const log = join(stage.sites, 'access.log')
  writeFileSync(log, Array.from({ length: 500 }, (_, line) => `127.0.0.1 - - "GET /${line}" 200\n`).join(''))
  const sources = await client.post(`/api/projects/${project.id}/log-sources`, { items: [{ filePath: log, label: '访问' }] })
  const zip = await zipOf({ 'index.html': '<h1>one</h1>', 'assets/site.css': 'h1 { color: red }' })
  const deploy = async (): Promise<string> => {
    const form = new FormData()
    form.set('projectId', project.id)
    form.set('file', new Blob([new Uint8Array(zip)]), 'site.zip')
    const authorization = `Bearer ${project.token}`
    const answer = await fetch(`${stage.url}/api/deploy/upload`, { method: 'POST', headers: { authorization }, body: form })
    return JSON.parse((await answer.text()).trim().split('\n').at(-1) as string).deployId
  }
  await deploy()
  await client.put(`/api/projects/${project.id}`, { postDeployScript: 'exit 3' })
  const failed = await deploy()
  const addresses = paths.map(path => path
    .replace('projects/:id', `projects/${project.id}`)
    .replace('deployments/:id', `deployments/${failed}`)
    .replace(':sourceId', sources.body.items?.[0]?.id ?? ''))
  return { stage, addresses }
}

async function signIn(page: Page, url: string): Promise<void> {
  await page.goto(url)
  await page.locator('input[name=token]').fill(adminToken)
  await page.locator('button.primary').click()
  await page.locator('main h1').first().waitFor()
}

/** Shows the screen, and waits until it has what it asked for. */
async function show(page: Page, url: string): Promise<void> {
  await page.goto(url)
  await page.locator('main h1').first().waitFor()
  const waiting = page.locator('[aria-busy=true]')
  while ((await waiting.count()) > 0) await waiting.first().waitFor({ state: 'detached' })
}

const walks = [
  { what: 'at the root, light, on a desk', theme: 'light', base: '', isPhone: false, language: 'en', isProxied: false },
  { what: 'below a prefix, dark, on a phone, in Chinese', theme: 'dark', base: '/tools/svc', isPhone: true, language: 'zh', isProxied: false },
  { what: 'behind nginx below a prefix, dark, on a desk', theme: 'dark', base: '/tools/svc', isPhone: false, language: 'en', isProxied: true },
  { what: 'behind nginx, light, on a phone', theme: 'light', base: '', isPhone: true, language: 'en', isProxied: true }
] as const

for (const { what, theme, base, isPhone, language, isProxied } of walks) {
  const why = skip || (isProxied && nginx === null ? 'there is no nginx on this machine' : false)
  t.test(what, { skip: why }, async t => {
    const { stage, addresses } = await furnish(await startServer(t, { base }))
    let url = stage.url
    if (isProxied) {
      const directory = join(t.testdirName, 'nginx')
      url = `${await startNginx(t, nginx as string, { directory, upstream: new URL(stage.url).origin, location: `${base}/` })}${base}`
    }
    const { page, watch, context } = await openWatched(browser, new URL(url).origin, {
      viewport: isPhone ? { width: 390, height: 844 } : { width: 1280, height: 860 },
      isMobile: isPhone,
      hasTouch: isPhone,
      locale: language === 'zh' ? 'zh-CN' : 'en-GB',
      colorScheme: theme,
      reducedMotion: 'reduce'
    })
    t.teardown(() => context.close())
    await page.goto(url)
    await page.locator('input[name=token]').waitFor()
    t.same(await survey(page), [], 'the login')
    await signIn(page, url)
    for (const [index, address] of addresses.entries()) {
      const path = paths[index] as string
      await show(page, `${url}/${address}`)
      t.same(await survey(page), [], `${path || 'the overview'} can be read and named`)
      if (!isPhone && !isProxied) t.same(await surveyFocus(page, 120), [], `${path || 'the overview'} shows where the focus is`)
      if (language === 'zh') t.same(await latinWords(page, [name, ...sameEverywhere]), [], `${path || 'the overview'} speaks Chinese`)
      if (process.env['PICTURES'] !== undefined) {
        const file = `${path.replaceAll('/', '-').replaceAll(':', '') || 'overview'}-${isPhone ? 'phone' : 'desk'}-${theme}-${language}`
        await page.screenshot({ path: join(pictures, `screen-${file}.png`) })
      }
    }
    t.same(watch.complaints, [], 'the console is quiet')
    t.same(watch.foreign, [], 'nobody else is asked for anything')
  })
}
