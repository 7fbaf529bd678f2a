import { join } from 'node:path'
import t from 'tap'
import { createHealth } from '../../lib/machine/health.js'
import { createProbe } from '../../lib/machine/probe.js'
import type { HealthDetail } from '../../lib/model/health.js'
import { openStage } from '../support/store.js'

t.test('health', async t => {
  const { store, clock, directory } = await openStage(t)
  const state = { ok: true }
  const watched = { ...store, state: () => ({ ...store.state(), ok: state.ok }) }
  const health = createHealth({
    store: watched,
    clock,
    version: '1.2.3',
    probe: createProbe({
      store: watched,
      clock,
      version: '1.2.3',
      startedAtMs: clock.now(),
      directory,
      hasToken: () => true
    }),
    home: { directory, tmp: join(directory, 'missing') }
  })
  clock.advance(2500)

  t.test('reports status, uptime and version to everybody', async t => {
    t.same(await health.report(), { status: 'ok', uptime: 2, version: '1.2.3' })
    state.ok = false
    t.equal((await health.report()).status, 'unhealthy')
    state.ok = true
  })

  t.test('reports details to administrators', async t => {
    const detail = await health.detail()
    t.match(detail, {
      kiteHome: { path: directory, writable: true, tmpWritable: false },
      db: { ok: true },
      uptimeSec: 2
    })
    t.ok((detail.disk.percentUsed as number) >= 0 && (detail.disk.percentUsed as number) <= 100)
  })

  t.test('is unwell without a writable home, a working store or free space', async t => {
    const well: HealthDetail = { ...(await health.detail()), disk: { freeBytes: 1, totalBytes: 2, percentUsed: 94.9 } }
    const cases: Array<[string, HealthDetail, boolean]> = [
      ['nothing', well, true],
      ['the store', { ...well, db: { ...well.db, ok: false } }, false],
      ['the data directory', { ...well, kiteHome: { ...well.kiteHome, writable: false } }, false],
      ['the disk', { ...well, disk: { ...well.disk, percentUsed: 95 } }, false],
      [
        'a disk of unknown size does not',
        { ...well, disk: { freeBytes: null, totalBytes: null, percentUsed: null } },
        true
      ],
      ['tmp does not', { ...well, kiteHome: { ...well.kiteHome, tmpWritable: false } }, true]
    ]
    for (const [what, detail, isWell] of cases) t.equal(health.isWell(detail), isWell, what)
  })
})
