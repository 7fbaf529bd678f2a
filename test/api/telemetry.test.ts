import t from 'tap'
import { setClock } from '../support/clock.js'
import { startServer } from '../support/server.js'

const report = {
  event: 'svc.push.start',
  ts: '2030-01-01T00:00:00.000Z',
  svcVersion: '1.2.3',
  instanceId: 'instance-1',
  os: 'linux',
  arch: 'x64'
}

t.test('a server collects the reports of its fleet', async t => {
  const clock = setClock()
  const stage = await startServer(t, { clock })
  const anybody = stage.as(null)
  const overview = async (query = '') => (await anybody.get(`/api/public/telemetry/overview${query}`)).body

  t.test('a report is counted, and survives a restart', async t => {
    t.match(await anybody.post('/api/public/telemetry/report', report), {
      status: 200,
      body: { success: true },
      headers: { 'access-control-allow-origin': '*' }
    })
    await anybody.post('/api/public/telemetry/report', { ...report, event: 'svc.serve.startup', secret: 'ignored' })
    const expected = {
      days: 2,
      totals: { instances: 1, startups: 1, pushes: 1 },
      daily: [
        { date: '2029-12-31', instances: 0, startups: 0, pushes: 0 },
        { date: '2030-01-01', instances: 1, startups: 1, pushes: 1 }
      ],
      versions: [{ version: '1.2.3', count: 1 }],
      platforms: [{ os: 'linux', arch: 'x64', count: 1 }]
    }
    t.strictSame(await overview('?days=2'), expected)
    await stage.restart()
    t.strictSame(await overview('?days=2'), expected)
    t.equal((await overview()).days, 30)
    t.equal((await overview('?days=100000')).days, 365)
    t.equal((await anybody.get('/api/public/telemetry/overview?days=x')).status, 400)
  })

  t.test('pages of any origin may call both routes', async t => {
    for (const path of ['report', 'overview']) {
      const { status, headers } = await anybody.send('OPTIONS', `/api/public/telemetry/${path}`, {
        headers: { origin: 'https://page.test', 'access-control-request-method': 'POST' }
      })
      t.equal(status, 204)
      t.match(headers, { 'access-control-allow-origin': '*', 'access-control-allow-headers': 'content-type' })
    }
    t.equal((await anybody.get('/api/public/telemetry/overview')).headers['access-control-allow-origin'], '*')
    t.equal((await anybody.send('OPTIONS', '/api/projects')).status, 405)
  })

  t.test('refuses an invalid report and names the field', async t => {
    const cases: Array<[patch: Record<string, unknown>, field: string]> = [
      [{ event: 'svc.else' }, 'event'],
      [{ event: undefined }, 'event'],
      [{ ts: 'yesterday' }, 'ts'],
      [{ svcVersion: '<b>' }, 'svcVersion'],
      [{ instanceId: '' }, 'instanceId'],
      [{ instanceId: 7 }, 'instanceId'],
      [{ os: 'x'.repeat(65) }, 'os'],
      [{ arch: null }, 'arch']
    ]
    for (const [patch, field] of cases) {
      t.match(
        await anybody.post('/api/public/telemetry/report', { ...report, ...patch }),
        { status: 400, body: { field } },
        field
      )
    }
    t.match(await anybody.post('/api/public/telemetry/report'), { status: 400 })
    const large = { ...report, more: 'x'.repeat(1024) }
    t.match(await anybody.post('/api/public/telemetry/report', large), { status: 413, body: { code: 'too_large' } })
    t.equal((await overview('?days=1')).totals.instances, 1)
  })

  t.test('one address cannot use up the limit of others', async t => {
    clock.advance(60_000)
    const statuses: number[] = []
    for (let i = 0; i < 32; i++) statuses.push((await anybody.post('/api/public/telemetry/report', report)).status)
    t.same(statuses, [...Array(30).fill(200), 429, 429])
    const refused = await anybody.post('/api/public/telemetry/report', report)
    t.match(refused, { body: { code: 'rate_limited' }, headers: { 'access-control-allow-origin': '*' } })
    t.match(refused.headers['retry-after'], /^\d+$/)
    const elsewhere = { 'x-forwarded-for': '192.0.2.7' }
    t.equal((await anybody.post('/api/public/telemetry/report', report, elsewhere)).status, 200)
    const status = async (address: string) =>
      (await anybody.post('/api/public/telemetry/report', report, { 'x-forwarded-for': address })).status
    const ofOneNetwork: number[] = []
    for (let i = 0; i < 31; i++) ofOneNetwork.push(await status(`2001:db8:1:2::${i}`))
    t.same(ofOneNetwork, [...Array(30).fill(200), 429], 'the /64 of an IPv6 address is one')
    t.equal(await status('2001:db8:1:3::1'), 200)
  })
})
