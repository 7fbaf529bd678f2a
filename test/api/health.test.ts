import t from 'tap'
import { healthHandlers } from '../../lib/api/health.js'
import type { HealthDetail } from '../../lib/model/health.js'
import type { Health } from '../../lib/machine/health.js'
import { startHubs, type Hub } from '../support/hubs.js'
import { startServer } from '../support/server.js'

t.test('a healthy server answers 200', async t => {
  const { client, as, home } = await startServer(t)
  const { status, body } = await as(null).get('/api/health')
  t.equal(status, 200)
  t.match(body, { status: 'ok', uptime: Number, version: String })
  t.ok(Number.isInteger(body.uptime))
  t.equal((await as(null).send('HEAD', '/api/health')).status, 200)

  const detail = await client.get('/api/health/detail')
  t.match(detail.body, {
    version: body.version,
    runtime: { name: String, version: String },
    uptimeSec: Number,
    serverTime: /Z$/,
    db: { ok: true, latencyMs: Number, path: home.database },
    disk: { freeBytes: Number, totalBytes: Number, percentUsed: Number },
    kiteHome: { path: home.directory, writable: true, tmpWritable: true },
    hostNamesChecked: false,
    revertsPending: [],
    unfinishedTargets: [],
    deploy: { last5: [], successRate: null },
    memoryMB: { rss: Number, heapUsed: Number }
  })
  t.equal(detail.status, detail.body.disk.percentUsed >= 95 ? 503 : 200)
})

t.test('an unhealthy server answers 503 with the same fields', async t => {
  const handlers = (isWell: boolean) =>
    healthHandlers({
      health: {
        report: async () => ({ status: 'ok', uptime: 1, version: 'dev' }),
        isWritable: async () => true,
        detail: async () => ({ version: 'dev' }) as HealthDetail,
        isWell: () => isWell
      } satisfies Health
    })
  for (const [isWell, status] of [
    [true, 200],
    [false, 503]
  ] as const) {
    t.match(await handlers(isWell).detail(), { kind: 'json', status })
  }
})

t.test('the detail of a hub says which hub leads, and how far the others are', async t => {
  const { hubs, cluster } = await startHubs(t)
  const [leader, follower] = hubs as [Hub, Hub]
  t.match(await leader.client.get('/api/health/detail'), {
    status: 200,
    body: {
      cluster: { hub: 'h1', role: 'leader', leader: { name: 'h1' }, hubs: [{ name: 'h1' }, { name: 'h2', behind: 0 }] }
    }
  })
  await follower.client.get('/api/cluster')
  await cluster.separate('h2', true)
  t.match(await follower.client.get('/api/health/detail'), {
    status: 200,
    body: {
      db: { ok: true },
      cluster: { role: 'alone', leader: null, staleSeconds: 2, hubs: [{ name: 'h1' }, { name: 'h2' }] }
    }
  })
})

t.test('the detail of a server alone has no cluster', async t => {
  const { client } = await startServer(t)
  t.notOk('cluster' in (await client.get('/api/health/detail')).body)
  t.notOk('cluster' in (await client.get('/api/health')).body)
})
