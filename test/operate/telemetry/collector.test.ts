import t from 'tap'
import { createCollector, createRateLimit } from '../../../lib/operate/telemetry/collector.js'
import { telemetryEvents, type TelemetryReport } from '../../../lib/model/setting.js'
import { openStage } from '../../support/store.js'
import { setClock } from '../../support/clock.js'

const [startup, push] = telemetryEvents
const dayMs = 24 * 60 * 60_000

function report(instanceId: string, patch: Partial<TelemetryReport> = {}): TelemetryReport {
  return {
    event: startup,
    ts: '2001-01-01T00:00:00Z',
    svcVersion: '1.0.0',
    instanceId,
    os: 'linux',
    arch: 'x64',
    ...patch
  }
}

t.test('the overview counts each instance once and all reports', async t => {
  const { store, clock } = await openStage(t)
  const collector = createCollector({ store, clock })
  t.same(collector.overview(2), {
    days: 2,
    totals: { instances: 0, startups: 0, pushes: 0 },
    daily: [
      { date: '2029-12-31', instances: 0, startups: 0, pushes: 0 },
      { date: '2030-01-01', instances: 0, startups: 0, pushes: 0 }
    ],
    versions: [],
    platforms: []
  })
  await collector.add(report('a'))
  await collector.add(report('a', { event: push }))
  await collector.add(report('a', { event: push }))
  await collector.add(report('b', { os: 'darwin', arch: 'arm64' }))
  clock.advance(2 * dayMs)
  await collector.add(report('a', { svcVersion: '1.1.0' }))
  await collector.add(report('c', { event: push, svcVersion: '1.1.0' }))
  t.same(collector.overview(3), {
    days: 3,
    totals: { instances: 3, startups: 3, pushes: 3 },
    daily: [
      { date: '2030-01-01', instances: 2, startups: 2, pushes: 2 },
      { date: '2030-01-02', instances: 0, startups: 0, pushes: 0 },
      { date: '2030-01-03', instances: 2, startups: 1, pushes: 1 }
    ],
    versions: [
      { version: '1.1.0', count: 2 },
      { version: '1.0.0', count: 1 }
    ],
    platforms: [
      { os: 'linux', arch: 'x64', count: 2 },
      { os: 'darwin', arch: 'arm64', count: 1 }
    ]
  })
  t.match(collector.overview(1), {
    totals: { instances: 2, startups: 1, pushes: 1 },
    versions: [{ version: '1.1.0', count: 2 }]
  })
})

t.test('limits the stored reports', async t => {
  const { store, clock } = await openStage(t)
  const rows = () => store.all('SELECT instanceId FROM telemetryReports ORDER BY instanceId')
  await createCollector({ store, clock, keep: 2 }).add(report('a'))
  clock.advance(dayMs)
  for (const id of ['b', 'c']) await createCollector({ store, clock, keep: 2 }).add(report(id))
  t.same(rows(), [{ instanceId: 'b' }, { instanceId: 'c' }], 'the oldest was removed')
  clock.advance(366 * dayMs)
  await createCollector({ store, clock }).add(report('d'))
  t.same(rows(), [{ instanceId: 'd' }], 'reports older than a year are removed')
})

t.test('limits requests per minute, by key and in total', async t => {
  const clock = setClock()
  const limit = createRateLimit({ clock, perKey: 2, ofAll: 5 })
  clock.advance(20_000)
  for (const key of ['a', 'b', 'a', 'b']) limit.take(key)
  t.throws(() => limit.take('a'), { kind: 'too_many', code: 'rate_limited', retryAfterSeconds: 40 })
  limit.take('c')
  t.throws(() => limit.take('d'), { code: 'rate_limited' }, 'the total limit')
  clock.advance(40_000)
  limit.take('a')
  limit.take('d')
})
