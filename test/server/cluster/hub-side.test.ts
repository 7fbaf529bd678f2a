import t from 'tap'
import { createHubSide, noLeader } from '../../../lib/server/cluster/hub-side.js'
import type { HubRole } from '../../../lib/store/log/replicated-store.js'
import type { Exchange } from '../../../lib/http/core/exchange.js'
import type { Peer } from '../../../lib/http/outgoing/forwarded.js'
import { peer } from '../../support/hub-keys.js'
import type { Route } from '../../../lib/http/core/route.js'

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
