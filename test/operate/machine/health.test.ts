import t from 'tap'
import { join } from 'node:path'
import { createBroken, createHealth } from '../../../lib/operate/machine/health.js'
import { createProbe } from '../../../lib/operate/machine/probe.js'
import type { HealthDetail } from '../../../lib/model/health.js'
import { openStage } from '../../support/store.js'
import type { DeploymentRow } from '../../../lib/model/deployment.js'
import { findDeployment, insertDeployment, placeDeployment } from '../../../lib/core/store/tables/deployments.js'
import { insertProject } from '../../../lib/core/store/tables/projects.js'
import { aDeployment, aProject, aStore } from '../../core/store/stage.js'

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

t.test('shows for each project what failed, the last good deployment, and whether it is still live', async t => {
  const store = await aStore(t)
  const rows: Array<Partial<DeploymentRow>> = [
    { id: 'good', status: 'success' },
    { id: 'bad', status: 'failed', errorMessage: 'exit 3', message: 'ü' },
    { id: 'next', status: 'queued' },
    { id: 'after', status: 'queued' }
  ]
  await store.write(tx => {
    insertProject(tx, aProject({ id: 'a', name: 'shop' }))
    for (const [n, row] of rows.entries())
      insertDeployment(tx, aDeployment({ projectId: 'a', startTime: `2026-01-0${n + 1}`, ...row }))
    placeDeployment(tx, 'good')
  })
  const broken = createBroken({ store, findDeployment: id => findDeployment(store, id) })
  const expected = {
    projectId: 'a',
    projectName: 'shop',
    projectEnv: 'production',
    since: '2026-01-02',
    isLastGoodLive: true,
    goingId: 'next',
    failed: { id: 'bad', status: 'failed', errorMessage: 'exit 3', message: 'ü' },
    lastGood: { id: 'good' }
  }
  t.match(broken.of('a'), expected)
  t.match(broken.list(5), { total: 1, items: [expected] })
  t.notMatch(JSON.stringify(broken.list(5)), 'echo hello', 'no script that a list does not show')
  await store.write(tx => placeDeployment(tx, 'bad'))
  t.match(broken.of('a'), { isLastGoodLive: false, live: { id: 'bad' } })
  t.equal(broken.of('none'), null)
})

t.test('what is broken in production comes first, then what broke last', async t => {
  const store = await aStore(t)
  const rows = ['production', 'test', 'customers', 'PROD', 'staging', 'production']
  await store.write(tx => {
    for (const [n, env] of rows.entries()) {
      insertProject(tx, aProject({ id: `p${n}`, name: `p${n}`, env, deployPath: `/p${n}`, token: `t${n}` }))
      insertDeployment(
        tx,
        aDeployment({ id: `d${n}`, projectId: `p${n}`, startTime: `2026-01-0${n + 1}`, status: 'failed' })
      )
    }
  })
  const broken = createBroken({ store, findDeployment: id => findDeployment(store, id) })
  const { total, items } = broken.list(5)
  t.same(
    items.map(({ projectId }) => projectId),
    ['p5', 'p3', 'p0', 'p2', 'p4']
  )
  t.equal(total, 6)
})
