import t from 'tap'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  createBroken,
  createHealth,
  fleetState,
  formatUptime,
  successRate,
  successShare
} from '../../../lib/operate/machine/health.js'
import { createProbe } from '../../../lib/operate/machine/probe.js'
import type { HealthDetail } from '../../../lib/model/health.js'
import { openStage } from '../../support/store.js'
import type { DeploymentRow } from '../../../lib/model/deployment.js'
import { findDeployment, insertDeployment, placeDeployment } from '../../../lib/core/store/tables/deployments.js'
import { insertProject } from '../../../lib/core/store/tables/projects.js'
import { aDeployment, aProject, aStore } from '../../core/store/stage.js'
import { parseMetrics } from '../../support/prometheus.js'
import { beginRollout } from '../../support/fleet-rollout.js'
import { ana, openFleet } from '../../support/fleet-stage.js'
import { startNode } from '../../support/fake-node.js'
import { startNodes } from '../../support/real-nodes.js'
import { startServer } from '../../support/server.js'

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

t.test('shows the uptime in its two largest units', async t => {
  const cases: Array<[number, string]> = [
    [0, '0s'],
    [999, '0s'],
    [5_000, '5s'],
    [125_000, '2m 5s'],
    [120_000, '2m'],
    [3_600_000, '1h'],
    [3_605_000, '1h'],
    [90_061_000, '1d 1h'],
    [86_400_000 * 400, '400d']
  ]
  for (const [ms, text] of cases) t.equal(formatUptime(ms), text)
})

t.test('returns the success rate in percent', async t => {
  t.equal(successRate(0, 0), null)
  t.equal(successRate(2, 1), 66.7)
  t.equal(successRate(3, 0), 100)
  t.equal(successRate(0, 3), 0)
})

t.test('returns the success rate as a share', async t => {
  t.equal(successShare(0, 0), null)
  t.equal(successShare(2, 1), 0.667)
  t.equal(successShare(3, 0), 1)
})

t.test('counts nodes and the last rollouts of projects', async t => {
  const stage = await openFleet(t)
  t.equal(fleetState(stage.store, { connected: 0, outdated: 0 }), null)
  const links = { connected: 1, outdated: 1 }
  const other = await openFleet(t, ['a', 'b'])
  const id = await beginRollout(other)
  t.same(fleetState(other.store, links), { nodes: 2, ...links, shared: 0, going: 1, halted: 0 })
  await other.hub.rollouts.halt(id, null, ana)
  t.same(fleetState(other.store, links), { nodes: 2, ...links, shared: 0, going: 0, halted: 1 })
})

t.test('the metrics and the health of a server contain the fleet if there are nodes', async t => {
  const stage = await startServer(t)
  const { client, url, server } = stage
  t.notMatch((await client.get('/metrics')).text, 'svc_nodes')
  t.notOk('fleet' in (await client.get('/api/health/detail')).body)
  const node = await startNode({ url, hub: await server.services.fleet.hub() }, 'plant-a')
  t.teardown(() => node.close())
  const { text } = await client.get('/metrics')
  t.ok(parseMetrics(text) !== undefined)
  t.match(text, /^svc_nodes_connected 1$/m)
  t.match(text, /^svc_fleet_nodes_outdated 1$/m, 'the agent has the protocol of before')
  t.same((await client.get('/api/health/detail')).body.fleet, {
    nodes: 1,
    connected: 1,
    outdated: 1,
    shared: 0,
    going: 0,
    halted: 0
  })
  await startNodes(t, stage, [{ name: 'plant-b' }])
  const after = (await client.get('/metrics')).text
  t.match(after, /^svc_nodes_connected 2$/m)
  t.match(after, /^svc_fleet_nodes_outdated 1$/m, 'an agent of this version is not outdated')
})

t.test('a key of the server that cannot be used is named', async t => {
  const stage = await startServer(t)
  const problem = async () => (await stage.client.get('/api/health/detail')).body.audit
  t.match(await problem(), { ok: true, keyProblem: null })
  const path = join(stage.home.keys, 'server.ed25519')
  const key = readFileSync(path)
  writeFileSync(path, 'no key')
  await stage.restart()
  t.match(await problem(), { ok: true, keyProblem: /^Cannot use the key of the audit log ".*server\.ed25519"/ })
  writeFileSync(path, key)
  t.match(await problem(), { ok: true, keyProblem: null }, 'the file is read again')
})
