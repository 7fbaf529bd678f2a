import t from 'tap'
import type { TelemetryReport } from '../../../lib/model/telemetry.js'
import { insertReport, readReports, trimReports } from '../../../lib/store/tables/telemetry.js'
import { openStage } from '../../support/store.js'

const report: TelemetryReport = {
  event: 'svc.push.start',
  ts: '2030-01-01T00:00:00Z',
  svcVersion: '1',
  instanceId: 'a',
  os: 'linux',
  arch: 'x64'
}

t.test('keeps one row per instance and day, and trims the oldest', async t => {
  const { store } = await openStage(t)
  await store.write(tx => {
    for (const date of ['2030-01-01', '2030-01-02', '2030-01-02', '2030-01-03']) insertReport(tx, date, report)
  })
  const dates = () => readReports(store, '').daily.map(({ date, pushes }) => [date, pushes])
  t.same(dates(), [
    ['2030-01-01', 1],
    ['2030-01-02', 2],
    ['2030-01-03', 1]
  ])
  t.match(readReports(store, '2030-01-02'), { totals: { instances: 1, startups: 0, pushes: 3 } })
  t.equal(await store.write(tx => trimReports(tx, { before: '2030-01-02', keep: 10 })), 1)
  t.same(dates(), [
    ['2030-01-02', 2],
    ['2030-01-03', 1]
  ])
  t.equal(await store.write(tx => trimReports(tx, { before: '2030-01-02', keep: 1 })), 1)
  t.same(dates(), [['2030-01-03', 1]])
})
