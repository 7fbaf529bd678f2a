import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import type { Test } from 'tap'
import { findNginx, startNginx } from '../proxy/nginx.js'
import { startServer } from '../support/server.js'
import type { Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { pageTable } from '../../www/page-table.js'
import { openWatched, startChromium } from './chromium.js'
import { onPhone, photographer, signIn, stillDesktop } from './stage.js'
import type { ContextOptions } from './stage.js'
import { latinWords, survey, surveyFocus } from './survey.js'

/*
 * Every screen that the page table has a row for, as it comes, behind nginx where there is one: at the root and below a prefix,
 * light and dark, desk and phone, English and Chinese. Nothing may stick out, be nameless, unreadable, untranslated, or
 * complain.
 */

const { browser, skip } = await startChromium(t)
const nginx = findNginx()
const photograph = photographer('screen')

/** The paths of the page table, with their parameters; a new page is walked without being told of here. */
const paths = pageTable.map(({ path }) => path).filter(path => path !== 'login')

const name = '店面-a-name-that-goes-on-for-rather-long-so-that-it-has-to-be-cut-somewhere'

/** Words that stay as they are in Chinese. */
const sameEverywhere = [
  'svc', 'production', 'zip', 'Standard Webhooks', 'webhook', 'dev', 'root', 'node', 'linux', 'X-Forwarded-For', 'deployPath', 'SVC_PUBLIC_URL',
  '{commit}', '{repository}', 'team/shop'
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

type Open = (page: Page, url: string, address: string) => Promise<void>

/** Shows the screen by its address, from nothing. */
const load: Open = async (page, url, address) => void (await page.goto(`${url}/${address}`))

/** Shows the screen from within the panel, from a page that has nothing in common with it. */
const change: Open = async (page, url, address) => {
  const go = (to: string) => page.evaluate(`history.pushState(null, '', ${JSON.stringify(to)}), dispatchEvent(new PopStateEvent('popstate'))`)
  await go(`${url}/nothing/is/here`)
  await page.locator('svc-page-lost').waitFor()
  await go(`${url}/${address}`)
  await page.locator('svc-page-lost').waitFor({ state: 'detached' })
}

/** Waits until the screen has what it asked for. */
async function settle(page: Page): Promise<void> {
  await page.locator('main h1').first().waitFor()
  const waiting = page.locator('[aria-busy=true]')
  while ((await waiting.count()) > 0) await waiting.first().waitFor({ state: 'detached' })
}

const themes = ['light', 'dark'] as const
type Theme = (typeof themes)[number]

/** That each address loads by itself is seen in the first walk; the others are for how screens look, and take less. */
interface Walk {
  what: string
  options: ContextOptions
  open: Open
  themes: readonly Theme[]
  isChinese?: boolean
  isByKeyboard?: boolean
}

const servers: Array<{ what: string; base: string; walks: Walk[] }> = [
  {
    what: 'at the root',
    base: '',
    walks: [
      { what: 'on a desk, light and dark', options: stillDesktop, open: load, themes, isByKeyboard: true },
      { what: 'on a phone, light', options: onPhone, open: change, themes: ['light'] }
    ]
  },
  {
    what: 'below a prefix',
    base: '/tools/svc',
    walks: [{ what: 'on a phone, dark, in Chinese', options: { ...onPhone, locale: 'zh-CN' }, open: change, themes: ['dark'], isChinese: true }]
  }
]

for (const { what, base, walks } of servers) {
  t.test(what, { skip }, async t => {
    const { stage, addresses } = await furnish(await startServer(t, { base }))
    let url = stage.url
    if (nginx === null) t.comment('there is no nginx on this machine: without it')
    else {
      const directory = join(t.testdirName, 'nginx')
      url = `${await startNginx(t, nginx, { directory, upstream: new URL(stage.url).origin, location: `${base}/` })}${base}`
    }
    for (const walk of walks) await t.test(walk.what, t => walkAll(t, url, addresses, walk))
  })
}

async function walkAll(t: Test, url: string, addresses: string[], { what, options, open, themes, isChinese, isByKeyboard }: Walk): Promise<void> {
  const locale = isChinese ? 'zh-CN' : 'en-GB'
  const { page, watch, context } = await openWatched(browser, new URL(url).origin, { reducedMotion: 'reduce', locale, ...options })
  t.teardown(() => context.close())
  const look = async (screen: string): Promise<void> => {
    for (const theme of themes) {
      await page.emulateMedia({ colorScheme: theme })
      t.same(await survey(page), [], `${screen} can be read and named, ${theme}`)
    }
  }
  await page.goto(url)
  await page.locator('input[name=token]').waitFor()
  await look('the login')
  await signIn(page)
  for (const [index, address] of addresses.entries()) {
    const screen = paths[index] || 'the overview'
    await open(page, url, address)
    await settle(page)
    await look(screen)
    if (isByKeyboard) t.same(await surveyFocus(page, 120), [], `${screen} shows where the focus is`)
    if (isChinese) t.same(await latinWords(page, [name, ...sameEverywhere]), [], `${screen} speaks Chinese`)
    await photograph(page, `${screen} ${what}`.replaceAll(/[^a-z]+/gi, '-'))
  }
  t.same(watch.complaints, [], 'the console is quiet')
  t.same(watch.foreign, [], 'nobody else is asked for anything')
}
