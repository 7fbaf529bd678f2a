import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Page, Route } from 'playwright-core'
import type { ClusterStatus } from '../../lib/model/health.js'
import { startCutProxy } from '../support/cut-proxy.js'
import { anEtcd, withoutEtcd } from '../support/etcd.js'
import { freePort } from '../support/free-port.js'
import { startHubs, type Hub } from '../support/hubs.js'
import { startServeProcess } from '../support/serve-process.js'
import { startServer } from '../support/server.js'
import { svc } from '../support/svc.js'
import { openWatched, startChromium } from './chromium.js'
import { comeBack, desktop, giveSession, isWithin, openDuring, phone, photographer } from './stage.js'

/* The cluster on the page System, and the line of a hub that is cut off. */

const { browser, skip } = await startChromium(t)
const card = (page: Page) => page.locator('svc-cluster')
const rows = (page: Page) => card(page).locator('tbody tr')
const photograph = photographer('cluster')

t.test('says which hub leads, and a hub that is cut off says so on every page', { skip }, async t => {
  const { hubs, cluster } = await startHubs(t, 3)
  const [, follower] = hubs as [Hub, Hub]
  await follower.client.post('/api/categories', { name: 'One', color: 'blue' })
  const { page, watch } = await openDuring(t, browser, follower.url, 'system')
  await page.getByRole('heading', { level: 1, name: 'The server is healthy' }).waitFor()
  await page.getByRole('heading', { level: 2, name: 'Cluster “test”' }).waitFor()
  await card(page).getByText('h2 answers you, and follows h1', { exact: true }).waitFor()
  t.match(await rows(page).nth(0).textContent(), /h1\s*leads\s*up to date/)
  t.match(await rows(page).nth(1).textContent(), /h2\s*this hub\s*up to date\s*just now/)
  t.equal(await rows(page).count(), 3)
  const line = page.getByText('This hub is cut off from its cluster, and refuses changes.')
  t.equal(await line.count(), 0)

  await cluster.separate('h2', true)
  await comeBack(page, line)
  await page.getByText('What you see is 2 s old.').waitFor()
  await page.getByRole('heading', { level: 1, name: 'This hub is cut off' }).waitFor()
  await card(page).getByText('h2 answers you, and hears of no leader', { exact: true }).waitFor()
  await photograph(page, 'cut-off-desktop', { isWhole: true })
  await page.getByRole('link', { name: 'Projects', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor()
  await line.waitFor()
  await page.goBack()
  await line.waitFor()

  await cluster.separate('h2', false)
  await comeBack(page, page.getByRole('heading', { level: 1, name: 'The server is healthy' }))
  await line.waitFor({ state: 'detached' })
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])
})

t.test(
  'a hub on etcd says so when it loses etcd, and when it has it again',
  { skip: skip || withoutEtcd() },
  async t => {
    const etcd = await anEtcd(t)
    const cwd = t.testdir()
    writeFileSync(join(cwd, 'ca.pem'), etcd.options.ca as string)
    const relay = await startCutProxy(t, etcd.options.endpoints[0] as string)
    const port = await freePort()
    const store = ['--store', `etcd:https://${new URL(relay.url).host}`, '--etcd-ca', 'ca.pem', '--etcd-user']
    const words = [...store, etcd.options.user as string]
    const env = { SVC_HOME: join(cwd, 'h1'), SVC_ETCD_PASSWORD: etcd.options.password as string }
    const named = ['--hub-name', 'h1', '--hub-url', `http://127.0.0.1:${port}`]
    const made = await svc(['cluster', 'init', ...words, ...named], { cwd, env })
    t.equal(made.code, 0, made.stderr)
    const server = await startServeProcess(t, cwd, [...words, '--port', String(port)], env)
    const { page, context, watch } = await openWatched(browser, server.url, { viewport: desktop })
    t.teardown(() => context.close())
    await giveSession(context, server.url, server.adminToken)
    await page.goto(`${server.url}/system`)
    await comeBack(page, card(page).getByText('h1 answers you, and leads the cluster', { exact: true }))
    relay.cut()
    await comeBack(page, page.getByText(/^What you see is \d+ s old\.$/))
    await comeBack(page, card(page).getByText('h1 answers you, and hears of no leader', { exact: true }))
    t.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'This hub is cut off')
    const health = await fetch(`${server.url}/api/health`)
    t.match([health.status, await health.json()], [200, { status: 'cut_off', cluster: { role: 'alone' } }])
    relay.mend()
    await comeBack(page, card(page).getByText('h1 answers you, and leads the cluster', { exact: true }))
    await page.locator('.stale').waitFor({ state: 'detached' })
    t.same(
      watch.complaints.filter(line => !/503/.test(line)),
      []
    )
  }
)

t.test('a server alone loads and shows nothing of a cluster', { skip }, async t => {
  const stage = await startServer(t)
  const { page, watch } = await openDuring(t, browser, stage.url, 'system')
  await page.getByRole('heading', { level: 2, name: 'Health' }).waitFor()
  await page.getByText('Data directory').first().waitFor()
  t.equal(await card(page).count(), 0)
  t.same(
    watch.fetched.filter(({ url }) => /cluster\.js|api\/cluster/.test(url)),
    []
  )
})

const seenAt = (secondsAgo: number): string => new Date(Date.now() - secondsAgo * 1000).toISOString()
const hub = (number: number, more: Partial<ClusterStatus['hubs'][number]> = {}) => ({
  name: `h${number}`,
  url: `https://h${number}.example.com:5431`,
  applied: 48_211,
  behind: 0,
  seenAt: seenAt(3),
  ...more
})
const usual: ClusterStatus = {
  name: 'production',
  hub: 'h1',
  role: 'leader',
  leader: hub(1),
  staleSeconds: 0,
  sequence: 48_211,
  problem: null,
  reason: null,
  hubs: [1, 2, 3].map(number => hub(number))
}
const long = 'hub-in-the-data-centre-of-frankfurt-with-a-name-as-long-as-they-get'

const states: ReadonlyArray<{ name: string; cluster: ClusterStatus; says: RegExp; stale?: number }> = [
  {
    name: 'leader',
    cluster: usual,
    says: /h1 answers you, and leads the cluster.*Write 48,211\. What it shows is up to date/
  },
  {
    name: 'follower',
    cluster: {
      ...usual,
      hub: 'h2',
      role: 'follower',
      staleSeconds: 2,
      hubs: [hub(1), hub(2), hub(3, { behind: 1204, seenAt: seenAt(400) }), hub(4, { behind: 48_211, seenAt: null })]
    },
    says: /h2 answers you, and follows h1.*at most 2 s old.*h3\s*1,204 behind\s*\d min ago.*h4\s*48,211 behind\s*never/s
  },
  {
    name: 'no-leader',
    cluster: {
      ...usual,
      hub: 'h2',
      role: 'alone',
      leader: null,
      staleSeconds: 192,
      problem: 'Cannot follow the log: etcd does not answer'
    },
    stale: 192,
    says: /h2 answers you, and hears of no leader.*3 min 12 s old, and it refuses changes.*etcd does not answer.*h2\s*this hub\s*unknown/s
  },
  {
    name: 'leader-with-problem',
    cluster: { ...usual, problem: 'Cannot write an image: no space left on device' },
    says: /h1 answers you, and leads the cluster.*no space left on device.*h1\s*leads\s*this hub\s*up to date/s
  },
  {
    name: 'unknown',
    cluster: { ...usual, role: 'alone', leader: null, staleSeconds: 9, hubs: [] },
    stale: 9,
    says: /etcd has not answered yet/
  },
  {
    name: 'ten-hubs',
    cluster: { ...usual, hubs: Array.from({ length: 10 }, (_, at) => hub(at + 1, { behind: at * at })) },
    says: /h10\s*81 behind/
  },
  {
    name: 'long-names',
    cluster: {
      ...usual,
      name: 'the-cluster-of-the-whole-company-and-of-all-that-it-has-bought',
      hub: long,
      role: 'follower',
      leader: { name: `${long}-2`, url: '' },
      hubs: ['', '-2', '-3'].map(end =>
        hub(1, {
          name: `${long}${end}`,
          url: `https://${long}${end}.internal.example.com:5431/tools/svc`,
          behind: 1_234_567
        })
      )
    },
    says: /and follows hub-in/
  }
]

for (const language of ['en', 'zh'] as const) {
  t.test(`every state of the card fits, in ${language}`, { skip }, async t => {
    const stage = await startServer(t)
    const locale = language === 'zh' ? 'zh-CN' : 'en-US'
    const { page, watch } = await openDuring(t, browser, stage.url, 'storage', { viewport: desktop, locale })
    let now: (typeof states)[number] = states[0] as (typeof states)[number]
    const answer = async (route: Route): Promise<void> => {
      const response = await route.fetch()
      const stale: Record<string, string> = now.stale === undefined ? {} : { 'x-svc-stale': String(now.stale) }
      const isDetail = route.request().url().endsWith('/api/health/detail')
      const json: unknown = isDetail ? { ...(await response.json()), cluster: now.cluster } : undefined
      await route.fulfill({ response, headers: { ...response.headers(), ...stale }, ...(isDetail && { json }) })
    }
    await page.route('**/api/**', answer)
    for (now of states) {
      await page.setViewportSize(desktop)
      await page.goto(`${stage.url}/system`)
      await card(page).waitFor()
      await page.locator('svc-history, svc-machine').first().waitFor()
      if (language === 'en') t.match((await card(page).textContent())?.replace(/\s+/g, ' '), now.says, now.name)
      else t.match(await card(page).textContent(), /中枢|主/, now.name)
      t.equal(await page.locator('.stale').count(), now.stale === undefined ? 0 : 1)
      const isWarning = now.stale !== undefined || now.cluster.problem !== null
      t.equal(await card(page).locator('.own.warning').count(), isWarning ? 1 : 0, now.name)
      t.ok(await isWithin(page), `${now.name} is within the window`)
      await photograph(page, `${now.name}-${language}-desktop`)
      await page.setViewportSize(phone)
      t.ok(await isWithin(page), `${now.name} is within a phone`)
      await card(page).scrollIntoViewIfNeeded()
      await photograph(page, `${now.name}-${language}-phone`, { isWhole: true })
    }
    t.same(watch.complaints, [])
  })
}
