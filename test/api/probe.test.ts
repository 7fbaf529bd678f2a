import t from 'tap'
import { probeRow } from '../../lib/api/probe.js'
import type { ApiRequest } from '../../lib/api/route.js'
import type { HealthReport } from '../../lib/model/health.js'
import { startHubs, type Hub } from '../support/hubs.js'

const asking = (query: string): ApiRequest => ({ query: new URLSearchParams(query) }) as ApiRequest

t.test('§4.8: health answers 200, or 503 with the same fields', async t => {
  const cases: Array<[HealthReport['status'], number]> = [
    ['ok', 200],
    ['starting', 503],
    ['unhealthy', 503]
  ]
  for (const [status, expected] of cases) {
    const report: HealthReport = { status, uptime: 1, version: 'dev' }
    const { method, path, auth, handle } = probeRow({ report: async () => report })
    t.same({ method, path, auth }, { method: 'GET', path: '/api/health', auth: 'public' })
    const headers = status === 'starting' ? { headers: { 'retry-after': '1' } } : {}
    t.same(await handle(asking('')), { kind: 'json', status: expected, body: report, ...headers })
  }
})

t.test('a hub that is cut off is alive, unless the client asks for the leader', async t => {
  const cluster = { role: 'alone', staleSeconds: 12 } as const
  const report: HealthReport = { status: 'cut_off', uptime: 1, version: 'dev', cluster }
  const { handle } = probeRow({ report: async () => report })
  t.match(await handle(asking('')), { status: 200, body: report })
  t.match(await handle(asking('check=leader')), { status: 503, body: report, headers: { 'retry-after': '1' } })
  const well = probeRow({ report: async () => ({ ...report, status: 'ok' }) })
  t.match(await well.handle(asking('check=leader')), { status: 200 })
  const refused = await Promise.resolve()
    .then(() => handle(asking('check=other')))
    .catch((error: unknown) => error)
  t.match(refused, { kind: 'invalid', field: 'check' })
})

t.test('hubs say to everybody whether they hear of a leader, without names and addresses', async t => {
  const { hubs, cluster } = await startHubs(t)
  const [leader, follower] = hubs as [Hub, Hub]
  const probe = async ({ url }: Hub, query = '') => {
    const reply = await fetch(`${url}/api/health${query}`)
    return { status: reply.status, body: (await reply.json()) as HealthReport }
  }
  t.match(await probe(leader), { status: 200, body: { status: 'ok', cluster: { role: 'leader', staleSeconds: 0 } } })
  t.match(await probe(follower), { status: 200, body: { status: 'ok', cluster: { role: 'follower' } } })
  await cluster.separate('h2', true)
  const { status, body } = await probe(follower)
  t.same(
    { status, body: { ...body, uptime: 0 } },
    {
      status: 200,
      body: { status: 'cut_off', uptime: 0, version: body.version, cluster: { role: 'alone', staleSeconds: 2 } }
    }
  )
  t.equal((await probe(follower, '?check=leader')).status, 503)
  t.equal((await probe(leader, '?check=leader')).status, 200)
})
