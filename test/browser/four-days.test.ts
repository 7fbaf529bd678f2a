/*
 * Four days of four people, from what waits to what they did: a message arrives, its link opens the decision on a phone; a
 * release is promoted inside a window after a second person has repeated its tree; a rollout is halted by a node that failed; an
 * auditor gets the month. With PICTURES=1 or THOROUGH=1, because it takes half a minute; pictures are left in dist/screens.
 */
import t, { type Test } from 'tap'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import type { Waiting } from '../../lib/model/marks.js'
import { failsToSwap } from '../support/obedient-agent.js'
import { startFleet } from '../support/fleet-on-server.js'
import { startReceiver } from '../support/receiver.js'
import { startServer } from '../support/server.js'
import { svc } from '../support/svc.js'
import { isThorough } from '../support/thorough.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'
import { openWatched, startChromium } from './chromium.js'
import {
  type ContextOptions,
  desktop,
  giveSession,
  holds,
  isWithin,
  onPhone,
  openDuring,
  photographer
} from './stage.js'
import { survey, violations } from './survey.js'

const isWanted = isThorough || process.env['PICTURES'] !== undefined
const { browser, skip: without } = await startChromium(t)
const skip = without !== false ? without : !isWanted && 'PICTURES=1 and THOROUGH=1 run it'
const photograph = photographer('days')

const inEnglish: ContextOptions = { viewport: desktop }
const inChinese: ContextOptions = { ...onPhone, locale: 'zh-CN' }

type Stage = Awaited<ReturnType<typeof startServer>>

/** Opens a browser for a person with a token of its own. */
async function person(t: Test, stage: Stage, [name, role]: [string, string], options: ContextOptions) {
  const { token } = (await stage.client.post('/api/tokens', { name, role })).body as { token: string }
  const { context, page, watch } = await openWatched(browser, stage.url, options)
  t.teardown(() => context.close())
  await giveSession(context, stage.url, token)
  const cli = (...words: string[]) =>
    svc(words, { cwd: stage.sites, env: { SVC_SERVER_URL: stage.url, SVC_TOKEN: token } })
  return { page, watch, token, cli }
}

async function look(t: Test, page: Page, name: string): Promise<void> {
  t.ok(await isWithin(page), `${name} is no wider than the window`)
  t.same([...(await survey(page)), ...(await violations(page))], [], name)
  await photograph(page, name, { isWhole: true })
}

const waitingNow = async ({ client }: Stage): Promise<Waiting[]> =>
  (await client.get('/api/marks')).body.waiting as Waiting[]

t.test('a message arrives when something waits, and its links open the decision', { skip }, async t => {
  const receiver = await startReceiver(t)
  const publicUrl = 'https://deploy.example'
  const stage = await startServer(t, { environment: { SVC_PUBLIC_URL: publicUrl } })
  const name = '上海仓库网站-production-of-the-northern-warehouse'
  const project = await stage.createProject(name, { deployPath: join(stage.sites, 'shop') })
  await stage.client.post('/api/notification-targets', {
    name: 'Team',
    kind: 'discord',
    url: `${receiver.url}/hook`,
    events: ['deploy_waiting']
  })
  const ben = await person(t, stage, ['ben', 'operator'], inChinese)
  const bytes = await zipOf({ 'index.html': 'one' })
  for (const decision of ['confirm', 'revert'] as const) {
    const [before, begunMs] = [receiver.requests.length, performance.now()]
    const pushed = stage.as(project.token).upload([
      ['projectId', project.id],
      ['confirmSeconds', '600'],
      ['message', '发布 1.8：下调整个冬季促销的价格，并更换付款服务商'],
      ['file', { filename: 'a.zip', bytes }]
    ])
    await until(async () => (await waitingNow(stage)).length === 1)
    const waitsMs = performance.now()
    const messages = await receiver.received(before + 1)
    t.comment(
      `pushed → waits ${Math.round(waitsMs - begunMs)} ms → received ${Math.round(performance.now() - waitsMs)} ms`
    )
    const [waiting] = (await waitingNow(stage)) as [Waiting]
    const text = (JSON.parse(messages.at(-1)?.text as string) as { embeds: [{ description: string }] }).embeds[0]
    const link = new RegExp(`\\((${publicUrl}/deployments/${waiting.deployId}\\?decide=${decision})\\)`).exec(
      text.description
    )
    t.ok(link, `the message about ${waiting.deployId} links to ${decision}`)

    await ben.page.goto(stage.url)
    await ben.page.locator('svc-waiting .mine').getByRole('link').first().waitFor()
    await look(t, ben.page, `manager-overview-${decision}`)
    await ben.page.goto(String(link?.[1]).replace(publicUrl, stage.url))
    const words = decision === 'confirm' ? '确认' : '立即恢复'
    await holds(ben.page, `document.activeElement?.textContent.includes('${words}')`)
    t.equal((await waitingNow(stage)).length, 1, 'a link changes nothing')
    await look(t, ben.page, `manager-${decision}s`)
    await ben.page.locator('svc-hold').getByRole('button', { name: words, exact: true }).click()
    await pushed
    const state = decision === 'confirm' ? 'success' : 'failed'
    await ben.page.locator(`.verdict svc-status[state=${state}]`).waitFor()
    await look(t, ben.page, `manager-${decision}ed`)
  }
  receiver.behave(401)
  await stage.client.post('/api/settings/webhook-test')
  const { items } = (await stage.client.get('/api/notification-targets')).body as {
    items: Array<{ id: string; name: string }>
  }
  await stage.client.post(`/api/notification-targets/${items.find(({ name }) => name === 'Team')?.id}/test`)
  const { page } = await openDuring(t, browser, stage.url, 'settings', { ...inEnglish, colorScheme: 'dark' })
  await page.getByText('The latest message failed:').waitFor()
  await look(t, page, 'engineer-channel-failed')
  t.same(ben.watch.complaints, [])
})

t.test('a promotion inside a window, from push to receipt', { skip }, async t => {
  const stage = await startServer(t)
  const staging = await stage.createProject('shop-staging', { env: 'staging' })
  const shop = await stage.createProject('shop')
  const hours = (from: string, to: string) => ({ tz: 'UTC', allow: [{ days: 'mon-sun', from, to }], freeze: [] })
  const hour = new Date().getUTCHours()
  const closed = hour < 12 ? hours('20:00', '21:00') : hours('02:00', '03:00')
  const approval = { count: 1, roles: ['operator'], notPusher: true, hours: 24 }
  const policy = { approval, promoteFrom: { projectId: staging.id, soakMinutes: 0 } }
  const set = async (policy: object) =>
    t.match(await stage.client.put(`/api/projects/${shop.id}`, { policy }), { status: 200 })
  await set({ ...policy, windows: closed })
  const ana = await person(t, stage, ['ana', 'operator'], { ...inEnglish, colorScheme: 'dark' })
  const ben = await person(t, stage, ['ben', 'operator'], inChinese)
  const file = { filename: 'a.zip', bytes: await zipOf({ 'index.html': 'one', 'app.js': 'two' }) }
  await stage.as(staging.token).upload([
    ['projectId', staging.id],
    ['message', 'Release 1.8'],
    ['file', file]
  ])

  const refused = await ana.cli('promote', 'shop-staging', 'shop', '--yes')
  t.match(refused, { code: 1, stderr: /window|outside/i })
  await ana.page.goto(`${stage.url}/projects?view=families`)
  await ana.page.getByRole('link', { name: 'Promote to production…' }).click()
  const why = ana.page.getByRole('dialog').getByLabel('Why outside of the windows')
  await why.waitFor()
  await look(t, ana.page, 'engineer-outside-window')
  await why.fill('The prices of the sale are wrong')
  await ana.page.getByRole('dialog').getByRole('button', { name: 'Promote', exact: true }).click()
  await ana.page.locator('svc-approval').waitFor()
  const [{ deployId: outside }] = (await waitingNow(stage)) as [Waiting]
  t.match((await stage.client.get(`/api/logs/${outside}`)).body, { override: 'The prices of the sale are wrong' })
  await stage.client.post(`/api/deployments/${outside}/cancel`, {})
  await until(async () => (await waitingNow(stage)).length === 0)

  await set({ windows: hours('00:00', '24:00') })
  const promoted = ana.cli('promote', 'shop-staging', 'shop', '--yes', '--json', '--receipt', 'receipt.json')
  await until(async () => (await waitingNow(stage)).length === 1)
  const [{ deployId }] = (await waitingNow(stage)) as [Waiting]
  const { treeSha256 } = (await stage.client.get(`/api/logs/${deployId}`)).body as { treeSha256: string }
  const wrong = { treeSha256: treeSha256.replace(/^./, digit => (digit === '0' ? '1' : '0')) }
  t.match(
    await stage.as(ben.token).post(`/api/deployments/${deployId}/approve`, wrong),
    { status: 409 },
    'another tree'
  )
  t.match(await stage.as(ana.token).post(`/api/deployments/${deployId}/approve`, { treeSha256 }), { status: 403 })
  await ben.page.goto(`${stage.url}/deployments/${deployId}?decide=approve`)
  await ben.page.getByText(treeSha256.slice(0, 16)).first().waitFor()
  await look(t, ben.page, 'manager-approves')
  const approve = ben.page.locator('dialog[open]').getByRole('button', { name: '批准', exact: true })
  if (!(await approve.isVisible())) await ben.page.getByRole('button', { name: '批准…' }).click()
  await approve.click()
  t.match(await promoted, { code: 0 })
  const receipt = JSON.parse(readFileSync(join(stage.sites, 'receipt.json'), 'utf8')) as object
  t.match(JSON.stringify(receipt), /payload/)
  const key = join(stage.home.directory, 'keys/server.pub')
  t.match(await ana.cli('receipt', 'verify', 'receipt.json', '--key', key), { code: 0 })
  t.equal(readFileSync(join(stage.sites, 'shop/index.html'), 'utf8'), 'one')

  const reported = await ana.cli('audit', 'report', '--since', '30d', '--out', 'report.html')
  t.match(reported, { code: 0 }, reported.stderr)
  const html = readFileSync(join(stage.sites, 'report.html'), 'utf8')
  t.match(html, /approved by ben/)
  t.match(html, 'Verified: ')
  const reader = await browser.newContext({ viewport: desktop })
  t.teardown(() => reader.close())
  const page = await reader.newPage()
  await page.setContent(html)
  const columns = (await page.evaluate(
    `[...document.querySelectorAll('th, td:nth-child(2), td:nth-child(5)')].filter(each => each.scrollWidth > each.clientWidth).length`
  )) as number
  t.equal(columns, 0, 'no column breaks its words')
  t.equal(
    await page.evaluate(`new Set([...document.querySelectorAll('th')].map(({ offsetHeight }) => offsetHeight)).size`),
    1
  )
  await photograph(page, 'auditor-report', { isWhole: true })
})

t.test('a rollout is halted because a node failed', { skip }, async t => {
  const names = ['web-frankfurt-of-the-northern-warehouse-1', 'web-2', 'web-3']
  const { stage, shop } = await startFleet(t, names, { 'web-2': failsToSwap })
  await stage.client.put(`/api/projects/${shop.id}`, {
    policy: { rollout: { canary: 1, then: '1', pause: 'approve' } }
  })
  const pushed = stage.as(shop.token).upload([
    ['projectId', shop.id],
    ['message', 'Release 1.8'],
    ['file', { filename: 'a.zip', bytes: await zipOf({ 'index.html': 'one' }) }]
  ])
  await until(async () => (await waitingNow(stage)).some(({ rolloutId }) => rolloutId !== null))
  const [{ rolloutId }] = (await waitingNow(stage)) as [Waiting]
  const ana = await person(t, stage, ['ana', 'operator'], { ...inEnglish, colorScheme: 'dark' })
  const ben = await person(t, stage, ['ben', 'operator'], inChinese)
  await until(async () => (await waitingNow(stage)).some(each => each.for === 'halted'))
  for (const [who, { page }] of [
    ['engineer', ana],
    ['manager', ben]
  ] as const) {
    for (const [place, address] of [
      ['overview', ''],
      ['fleet', 'nodes'],
      ['rollout', `rollouts/${rolloutId}`],
      ['project', `projects/${shop.id}`],
      ['projects', 'projects'],
      ['deployments', 'deployments']
    ] as const) {
      await page.goto(`${stage.url}/${address}`)
      await page.locator('main h1').waitFor()
      await page.waitForTimeout(300)
      await look(t, page, `${who}-halted-${place}`)
    }
  }
  await ben.page.goto(stage.url)
  await ben.page.getByText(`滚动发布 ${rolloutId} 已中止：1 个失败（允许 0 个）`).waitFor()
  await ben.page.goto(`${stage.url}/deployments`)
  await ben.page.locator('svc-deployments svc-status').getByText('失败').waitFor()
  await stage.client.post(`/api/rollouts/${rolloutId}/revert`, {})
  await pushed.catch(() => {})
})
