import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { BrowserContext, Page } from 'playwright-core'
import { enrolledAgent } from '../support/fake-agent.js'
import { beginRollout } from '../support/fleet-rollout.js'
import { startServer } from '../support/server.js'
import { isThorough } from '../support/thorough.js'
import { zipOf } from '../support/zip.js'
import { openWatched, startChromium, type Watch } from './chromium.js'
import { pageTable } from '../../www/router.js'
import { type ContextOptions, desktop, giveSession, onPhone, until } from './stage.js'

/*
 * What every page costs: requests and bytes from an empty cache, the time until its contents are seen at a latency of
 * 200 ms, and the same for a reload. Requests and bytes have a budget; times depend on the machine and are only
 * printed.
 */
const maxRequests = 40
/** A page of a node is the page itself, and the banner of the node. */
const maxRequestsOfNode = 45
const maxBytes = 160 * 1024
const latencyMs = 200
/** Number of pages that are measured at once. */
const lanes = 3
/** By which a page may shift while it loads; more counts as poor (Cumulative Layout Shift). */
const maxShift = 0.1
const observeShifts = `
  window.shift = 0
  new PerformanceObserver(list => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value
  }).observe({ type: 'layout-shift', buffered: true })`

const { browser, skip } = await startChromium(t)

/** Opens a page without cache, signed in, at a latency of 200 ms. It adds up its shifts. */
async function openSlow(
  url: string,
  path: string,
  options: ContextOptions
): Promise<{ context: BrowserContext; page: Page; watch: Watch }> {
  const opened = await openWatched(browser, new URL(url).origin, options)
  if (path !== 'login') await giveSession(opened.context, url)
  const wire = await opened.context.newCDPSession(opened.page)
  await wire.send('Network.enable')
  await wire.send('Network.emulateNetworkConditions', {
    offline: false,
    latency: latencyMs,
    downloadThroughput: -1,
    uploadThroughput: -1
  })
  await opened.context.addInitScript(observeShifts)
  return opened
}

interface Cost {
  requests: number
  bytes: number
  ms: number
}

t.test('no page takes more than 40 requests and 160 KB', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const reply = await stage.as(shop.token).upload([
    ['projectId', shop.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ 'index.html': '<p>hello</p>' }) }]
  ])
  const deployId = reply.headers['x-svc-deploy-id'] as string
  const push = async (name: string, fields: object): Promise<{ id: string; deployId: string }> => {
    const { id, token } = await stage.createProject(name, fields)
    const form = new FormData()
    form.set('projectId', id)
    form.set('file', new Blob([new Uint8Array(await zipOf({ 'a.txt': 'a' }))]), 'a.zip')
    const answer = await fetch(`${stage.url}/api/deploy/upload`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: form
    })
    // The output of one that is held goes on: nobody reads it.
    await answer.body?.cancel()
    return { id, deployId: answer.headers.get('x-svc-deploy-id') as string }
  }
  const broken = await push('broken', { postDeployScript: 'echo no; exit 3' })
  const held = await push('held', { policy: { confirm: { seconds: 600 } } })
  const statusOf = async (id: string) => (await stage.client.get(`/api/logs/${id}`)).body
  await until(async () => (await statusOf(broken.deployId)).status === 'failed')
  await until(async () => (await statusOf(held.deployId)).heldFor === 'confirm')
  const hub = await stage.server.services.fleet.hub()
  const { nodeId } = await enrolledAgent({ url: stage.url, hub }, 'plant-a1')
  const spread = await stage.createProject('spread')
  await stage.client.patch(`/api/projects/${spread.id}/placements`, { add: [{ node: nodeId }] })
  const rolloutId = await beginRollout({ hub }, {}, spread.id)
  const log = join(stage.sites, 'shop.log')
  writeFileSync(log, 'a line\n')
  const { body } = await stage.client.post(`/api/projects/${shop.id}/log-sources`, { items: [{ filePath: log }] })
  const heading = (page: Page, name: string | RegExp) => page.getByRole('heading', { name }).first()
  const pages: Array<{ path: string; contents(page: Page): { waitFor(): Promise<void> }; isOpenLog?: boolean }> = [
    { path: '', contents: page => page.getByText('hello').or(page.locator('svc-deployments a')).first() },
    { path: 'projects', contents: page => page.getByRole('link', { name: 'shop' }).first() },
    { path: `projects/${shop.id}`, contents: page => heading(page, 'shop') },
    { path: `projects/${shop.id}/files`, contents: page => page.getByText('index.html').first() },
    { path: `projects/${shop.id}/settings`, contents: page => page.getByLabel('Pre-deploy script') },
    { path: `projects/${shop.id}/logs`, contents: page => page.getByText('shop.log').first() },
    {
      path: `projects/${shop.id}/logs/${body.items[0].id}`,
      contents: page => page.locator('svc-log').first(),
      isOpenLog: true
    },
    { path: 'logs', contents: page => page.getByRole('heading').first() },
    { path: 'deployments', contents: page => page.locator('svc-deployments a').first() },
    { path: `deployments/${deployId}`, contents: page => page.locator('svc-steps').first() },
    { path: `deployments/${broken.deployId}`, contents: page => page.locator('svc-failure').first() },
    {
      path: `deployments/${held.deployId}`,
      contents: page => page.getByRole('button', { name: 'Confirm' }).first(),
      isOpenLog: true
    },
    { path: `projects/${broken.id}`, contents: page => heading(page, 'Broken now') },
    { path: `projects/${held.id}`, contents: page => heading(page, 'In progress') },
    { path: 'terminal', contents: page => page.locator('svc-terminal, main h1').first() },
    { path: 'system', contents: page => page.locator('svc-page-system h1') },
    { path: 'storage', contents: page => page.getByRole('link', { name: 'shop' }).first() },
    { path: 'audit', contents: page => page.locator('svc-page-audit li').first() },
    { path: 'settings', contents: page => page.getByText('This browser') },
    { path: 'access', contents: page => heading(page, 'Built-in tokens') },
    { path: 'labels', contents: page => heading(page, 'Categories') },
    { path: 'migration', contents: page => page.getByRole('heading', { level: 2 }).first() },
    { path: 'nodes', contents: page => page.getByText('plant-a1').first() },
    { path: `nodes/${nodeId}`, contents: page => heading(page, 'plant-a1') },
    { path: `nodes/${nodeId}/deployments`, contents: page => heading(page, 'This node is not connected') },
    { path: `projects/${spread.id}/nodes`, contents: page => page.getByText('plant-a1').first() },
    { path: 'rollouts', contents: page => page.locator('svc-rollouts a').first() },
    { path: `rollouts/${rolloutId}`, contents: page => page.locator('svc-rollout-waves li').first(), isOpenLog: true },
    { path: 'nothing/is/here', contents: page => heading(page, 'Page not found') },
    { path: 'login', contents: page => page.getByLabel('Token') }
  ]
  const ids = { node: nodeId, id: shop.id, sourceId: body.items[0].id as string }
  for (const { path, isOfNode } of pageTable) {
    if (!isOfNode) continue
    const of = path.includes('deployments/:id') ? { ...ids, id: deployId } : ids
    const address = path.replace(/:(\w+)/g, (_, name: string) => of[name as 'id'])
    if (pages.some(page => page.path === address)) continue
    pages.push({ path: address, contents: page => heading(page, 'This node is not connected') })
  }
  const measured = pages.map(({ path }) => path.replace(/\w+_\w+/g, ':'))
  const unmeasured = pageTable.map(({ path }) => path).filter(path => !measured.includes(path.replace(/:\w+/g, ':')))
  t.same(unmeasured, [], 'every page is measured')

  /** Returns by how much a page shifts on a phone while it loads, and shortly after. */
  const shiftOnPhone = async (path: string, contents: (page: Page) => { waitFor(): Promise<void> }) => {
    const { context, page } = await openSlow(stage.url, path, onPhone)
    await page.goto(`${stage.url}/${path}`, { waitUntil: 'commit' })
    await contents(page).waitFor()
    // Longer than an answer takes: what comes after the contents.
    await page.waitForTimeout(3 * latencyMs)
    const shift = (await page.evaluate('window.shift')) as number
    await context.close()
    return shift
  }

  t.comment(`page                             first: requests   KB    ms   again: requests   KB    ms`)
  const weigh = async (index: number, { path, contents, isOpenLog = false }: (typeof pages)[number]): Promise<void> => {
    const name = `/${path.replace(/\w+_\w+/g, match => `:${match.slice(0, match.indexOf('_'))}`)}`
    const { context, page, watch } = await openSlow(stage.url, path, { viewport: desktop })
    // At the same time: both mostly wait.
    const onThePhone = shiftOnPhone(path, contents)
    const measure = async (go: () => Promise<unknown>): Promise<Cost> => {
      watch.reset()
      const fromMs = performance.now()
      await go()
      await contents(page).waitFor()
      const ms = performance.now() - fromMs
      // Its stream never ends.
      if (!isOpenLog) await page.waitForLoadState('networkidle')
      // What the cache answers costs nothing on the wire.
      const sent = watch.fetched.filter(({ url, bytes }) => bytes > 0 && url.startsWith('http'))
      return { requests: sent.length, bytes: sent.reduce((sum, { bytes }) => sum + bytes, 0), ms }
    }
    const first = await measure(() => page.goto(`${stage.url}/${path}`, { waitUntil: 'commit' }))
    const shift = (await page.evaluate('window.shift')) as number
    t.ok(shift <= maxShift, `${name}: shifts by ${shift.toFixed(3)} while it loads`)
    const narrow = await onThePhone
    t.ok(narrow <= maxShift, `${name}: shifts by ${narrow.toFixed(3)} on a phone while it loads`)
    // All modules are cached in the same way: a few pages show it.
    const again = isThorough || index % 4 === 0 ? await measure(() => page.reload({ waitUntil: 'commit' })) : undefined
    const cell = ({ requests, bytes, ms }: Cost): string =>
      `${String(requests).padStart(8)} ${(bytes / 1024).toFixed(1).padStart(8)} ${ms.toFixed(0).padStart(5)}`
    t.comment(`${name.padEnd(32)} ${cell(first)} ${again === undefined ? '' : cell(again)}`)
    const most = path.startsWith('nodes/') ? maxRequestsOfNode : maxRequests
    t.ok(isOpenLog || first.requests <= most, `${name}: at most ${most} requests`)
    t.ok(isOpenLog || first.bytes <= maxBytes, `${name}: at most ${maxBytes / 1024} KB`)
    if (again !== undefined)
      t.ok(again.requests < first.requests, `${name}: loaded again, its modules come from the cache`)
    t.same(watch.complaints, [], `${name}: the console is quiet`)
    await context.close()
  }
  // A page mostly waits: for the latency, and for the half second in which the network must be idle.
  const left = pages.entries()
  const lane = async (): Promise<void> => {
    for (const [index, page] of left) await weigh(index, page)
  }
  await Promise.all(Array.from({ length: lanes }, lane))
})
