import t from 'tap'
import { createClient } from '../support/client.js'
import { type Hub, startHubs } from '../support/hubs.js'
import { until } from '../support/until.js'
import { createFencedStore, createHubSide, createWaiting, isOfRole, noLeader } from '../../lib/server/terms.js'
import { readSettings, writeSetting } from '../../lib/core/store/tables/server.js'
import { openStage } from '../support/store.js'
import type { HubRole } from '../../lib/cluster/replicated-store.js'
import type { Exchange } from '../../lib/http/core/exchange.js'
import type { Peer } from '../../lib/cluster/forwarded.js'
import { peer } from '../support/hub-keys.js'
import type { Route } from '../../lib/http/core/route.js'
import { prepareEntrance } from '../../lib/server/entrance.js'
import { systemClock } from '../../lib/base/clock.js'
import { freePort } from '../support/free-port.js'
import { serverSays } from '../support/sentences/server.js'
import { matching } from '../support/sentences/matching.js'

const leads = (hub: Hub): boolean => hub.told.info.includes('This hub leads the cluster now')

t.test('each term has new services, and those of an ended term change nothing', async t => {
  const { hubs, cluster } = await startHubs(t)
  const [first, second] = hubs as [Hub, Hub]
  await until(() => leads(first))
  const { deployer } = first.server.services
  await first.client.post('/api/projects', { name: 'Shop', deployPath: `${first.directory}-shop` })
  cluster.lead('h2')
  await until(() => leads(second))
  await until(() => first.server.services.deployer !== deployer)
  cluster.lead('h1')
  await until(() => first.told.info.filter(line => /leads the cluster/.test(line)).length === 2)
  await t.rejects(deployer.receive(null as never, {} as never), { code: 'shutting_down' })
  t.equal((await first.client.get('/api/projects')).body.length, 1)
  t.strictSame([...first.told.warn, ...second.told.warn], [], 'no service complains about its end')
})

t.test('settings and tokens that the leader changes count on a follower', async t => {
  const { hubs } = await startHubs(t)
  const [first, second] = hubs as [Hub, Hub]
  await until(() => leads(first))
  t.equal((await first.client.put('/api/settings', { metrics_token: 'metrics-token-0123456789' })).status, 200)
  const { body } = await first.client.post('/api/tokens', { name: 'reader', role: 'viewer' })
  const reader = createClient(() => second.url, body.token.token ?? body.token)
  await until(async () => (await reader.get('/api/projects')).status === 200)
  const metrics = createClient(() => second.url, 'metrics-token-0123456789')
  t.equal((await metrics.get('/metrics')).status, 200)
  await first.client.delete(`/api/tokens/${body.record?.id ?? body.token.id}`)
  await until(async () => (await reader.get('/api/projects')).status === 401)
  t.pass('a revoked token is refused by every hub')
})

t.test('a term writes until it has ended, and reads on', async t => {
  const { store } = await openStage(t)
  const term = createFencedStore(store, { isReader: false })
  await term.write(tx => writeSetting(tx, 'keep_archives', '3'))
  term.fence()
  const error = await term.write(tx => writeSetting(tx, 'keep_archives', '4')).catch((error: unknown) => error)
  t.match(error, { code: 'not_leader' })
  t.ok(isOfRole(error))
  t.equal(readSettings(term)['keep_archives'], '3')
  t.equal(term.sequence(), store.sequence())
  t.equal(term.version(['settings']), store.version(['settings']))
  t.equal(term.revision(), store.revision())
  t.strictSame(term.state(), store.state())
})

t.test('a follower never writes', async t => {
  const { store } = await openStage(t)
  const term = createFencedStore(store, { isReader: true })
  await t.rejects(
    term.write(() => {}),
    { code: 'not_leader' }
  )
  t.notOk(isOfRole(new Error('another')))
})

const leader = { name: 'h1', url: 'http://h1' }
const role = (kind: HubRole['kind']): HubRole => {
  return {
    kind,
    leader: kind === 'alone' ? null : leader,
    staleMs: 2400,
    sequence: 7,
    problem: null,
    reason: null,
    passes: false
  }
}
const passed = { kind: 'empty', status: 204 } as const

function hub(kind: HubRole['kind'], find = (name: string) => peer(name) as Peer | null) {
  return createHubSide<string, unknown>({
    base: '/base',
    read: () => null,
    store: { role: () => role(kind), peers: { find } },
    forwarder: { pass: async () => passed },
    terms: { isLeading: () => kind === 'leader', settled: async () => {} }
  })
}

function ask(kind: HubRole['kind'], method: string, more: Partial<Route> & { query?: string; client?: object } = {}) {
  const { query = '', client = {}, ...route } = more
  return hub(kind).divert(anExchange(method, query, client), route as Route)
}

function anExchange(method: string, query = '', client = {}): Exchange {
  return { method, client, query: new URLSearchParams(query) } as unknown as Exchange
}

t.test('which hub answers', async t => {
  const own = { hub: { name: 'h2', isOwn: true, isSecure: true } }
  const cases: Array<[what: string, ...Parameters<typeof ask>, expected: 'here' | 'leader']> = [
    ['a read on a follower', 'follower', 'GET', {}, 'here'],
    ['a change on a follower', 'follower', 'POST', {}, 'leader'],
    ['a change on the leader', 'leader', 'DELETE', {}, 'here'],
    ['a read of what the leader has in memory', 'follower', 'GET', { answeredBy: 'leader' }, 'leader'],
    ['a read that the leader answers better', 'follower', 'HEAD', { answeredBy: 'leader_if_any' }, 'leader'],
    ['the same without a leader', 'alone', 'GET', { answeredBy: 'leader_if_any' }, 'here'],
    ['a read with a ticket, which the leader issued', 'follower', 'GET', { query: 'ticket=a' }, 'leader'],
    ['what concerns the machine of the hub', 'follower', 'POST', { answeredBy: 'receiver' }, 'here'],
    ['a request of a hub itself', 'follower', 'POST', { client: own }, 'here']
  ]
  for (const [what, kind, method, more, expected] of cases) {
    t.strictSame(await ask(kind, method, more), expected === 'leader' ? passed : undefined, what)
  }
})

t.test('nothing is passed on twice, and nobody is asked who is not there', async t => {
  const passedOn = { client: { hub: { name: 'h2', isOwn: false, isSecure: true } } }
  await t.rejects(ask('follower', 'POST', passedOn) as Promise<unknown>, { code: 'not_leader', retryAfterSeconds: 2 })
  await t.rejects(ask('alone', 'POST') as Promise<unknown>, { code: 'no_leader', retryAfterSeconds: 2 })
  await t.rejects(ask('alone', 'GET', { query: 'ticket=a', answeredBy: 'leader_if_any' }) as Promise<unknown>, {
    code: 'no_leader'
  })
  const lasting = noLeader({ problem: 'etcd was restored from a backup', passes: false })
  t.match(lasting.message, /etcd was restored from a backup$/, 'waiting does not help')
  t.equal(lasting.retryAfterSeconds, undefined)
  t.equal(noLeader({ problem: 'etcd does not answer', passes: true }).retryAfterSeconds, 2)
  const unlisted = hub('follower', () => null).divert(anExchange('POST'), {} as Route) as Promise<unknown>
  await t.rejects(unlisted, { code: 'no_leader', message: /does not contain "h1"/, retryAfterSeconds: 2 })
})

t.test('an answer says how old it may be', async t => {
  const exchange = { client: {}, stamp: undefined } as unknown as Exchange
  hub('follower').mark(exchange)
  t.equal(exchange.stamp, undefined)
  hub('alone').mark(exchange)
  t.strictSame(exchange.stamp?.(), { 'x-svc-stale': '3' })
})

t.test('a hub that waits says so to every client, and then frees the address', async t => {
  const port = await freePort()
  const told: string[] = []
  const report = { info: (line: string) => void told.push(line), warn() {} }
  const entrance = await prepareEntrance({ port }, { base: '/svc', clock: systemClock, expiry: { look() {} }, report })
  const waiting = createWaiting({ entrance, base: '/svc', report })
  const ask = (path: string) => fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST' })
  await t.rejects(ask('/'), 'nothing listens before there is a reason')
  waiting.tell('etcd at 10.0.0.1 does not answer')
  for (const path of ['/', '/svc/api/health', '/svc/api/deploy/upload']) {
    const answer = await until(() => ask(path).catch(() => null))
    t.equal(answer.status, 503)
    t.match(answer.headers.get('retry-after'), /^\d+$/)
    const body: unknown = await answer.json()
    t.match(body, { code: 'not_leader', error: matching(serverSays.hubWaits) })
    t.notMatch(JSON.stringify(body), /10\.0\.0\.1/, 'only the log names addresses')
  }
  await waiting.end()
  waiting.tell('too late')
  t.strictSame(told, ['etcd at 10.0.0.1 does not answer'])
  await t.rejects(ask('/'), 'another server may listen')
})
