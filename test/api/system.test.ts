import t from 'tap'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, utimesSync, writeFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import { startServer } from '../support/server.js'
import { healthHandlers } from '../../lib/api/system.js'
import type { ApiServices } from '../../lib/api/services.js'
import type { HealthDetail, Overview, ProjectOverview } from '../../lib/model/health.js'
import type { Health } from '../../lib/operate/machine/health.js'
import { type Hub, startHubs } from '../support/hubs.js'
import { eventsOf } from '../support/client.js'
import { parseMetrics } from '../support/prometheus.js'
import { openStream } from '../support/sse.js'
import { zipOf } from '../support/zip.js'
import { signIn } from '../support/session.js'
import { standInPm2 } from '../support/pm2.js'
import type { DeploymentStep } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import { until } from '../support/until.js'
import { readCheckpoint, readNote } from '../../lib/core/audit/signed-note.js'
import { hashNode } from '../../lib/core/audit/tree.js'
import type { AuditCheckpoint, ConsistencyProof, InclusionProof } from '../../lib/model/audit.js'
import { isConsistent } from '../../lib/base/shared/merkle-proof.js'
import { isIncluded } from '../support/inclusion.js'
import { verified } from '../core/audit/export-stage.js'
import { readSignedCheckpoint } from '../core/audit/note-reader.js'

t.test('GET /api/system/resources', async t => {
  const { client } = await startServer(t)
  const { status, body } = await client.get('/api/system/resources')
  t.equal(status, 200)
  t.same(Object.keys(body), ['collectedAt', 'host', 'cpu', 'memory', 'disk', 'process', 'container'])
  t.ok(body.cpu.percent >= 0 && body.cpu.percent <= 100)
})

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
    archives: { checkedAt: null, damaged: [] },
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
        disk: async () => ({ freeBytes: null, totalBytes: null, percentUsed: null }),
        isWell: () => isWell
      } satisfies Health
    } as unknown as ApiServices)
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

const promtool = process.env['PROMTOOL'] ?? 'promtool'
const hasPromtool = spawnSync(promtool, ['--version']).status === 0
// The packages of Debian only work with the Python of Debian.
const python = ['python3', '/usr/bin/python3'].find(
  program => spawnSync(program, ['-c', 'import prometheus_client']).status === 0
)

t.test('metrics', async t => {
  const stage = await startServer(t, { base: '/tools/svc', settings: { metrics_token: 'the-metrics-token' } })
  const { client } = stage
  const scraper = stage.as('the-metrics-token')
  const scrape = async () => parseMetrics((await scraper.get('/metrics')).text)
  const value = (metrics: Awaited<ReturnType<typeof scrape>>, name: string, labels: Record<string, string> = {}) => {
    const samples = metrics.get(name)?.samples ?? []
    return samples.find(sample => Object.entries(labels).every(([label, text]) => sample.labels[label] === text))?.value
  }
  const shop = await stage.createProject('shop', { name: 'a "shop" \\ 汉' })
  const bytes = await zipOf({ 'index.html': 'hello' })
  const push = (fields: Array<[string, string]> = []) =>
    stage.as(shop.token).upload([['projectId', shop.id], ...fields, ['file', { filename: 'a.zip', bytes }]])

  await t.test('are below the prefix, for the admin token and the metrics token, which opens nothing else', async t => {
    const reply = await scraper.get('/metrics')
    t.equal(reply.status, 200)
    t.equal(reply.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
    t.equal((await client.get('/metrics')).status, 200)
    t.equal((await stage.as(null).get('/metrics')).status, 401)
    t.equal((await stage.as(shop.token).get('/metrics')).status, 403)
    t.equal((await scraper.get('/api/projects')).status, 403)
    const head = await scraper.send('HEAD', '/metrics')
    t.match(head, { status: 200, text: '' })
    t.ok(Number(head.headers['content-length']) > 1000)
    t.equal((await scraper.send('POST', '/metrics')).status, 405)
  })

  await t.test('count events', async t => {
    const before = await scrape()
    t.equal(value(before, 'svc_deployments_total', { project: shop.id, status: 'success' }), 0)
    const { deployId } = eventsOf(await push()).at(-1)
    await push([['preDeploy', 'exit 3']])
    const stream = await openStream(client, `/api/logs/${deployId}/stream`)
    await stream.next('status')
    stream.close()
    const after = await scrape()
    const labels = { project: shop.id, project_name: 'a "shop" \\ 汉' }
    t.equal(value(after, 'svc_deployments_total', { ...labels, status: 'success' }), 1)
    t.equal(value(after, 'svc_deployments_total', { ...labels, status: 'failed' }), 1)
    t.equal(value(after, 'svc_uploads_total'), 2)
    t.equal(value(after, 'svc_upload_bytes_total'), 2 * bytes.length)
    t.equal(value(after, 'svc_uploads_in_flight'), 0)
    t.equal(value(after, 'svc_deployments_running'), 0)
    t.equal(value(after, 'svc_projects'), 1)
    t.equal(value(after, 'svc_store_healthy'), 1)
    t.ok((value(after, 'svc_store_commits_total') ?? 0) > (value(before, 'svc_store_commits_total') ?? 0))
    const durations = after
      .get('svc_deployment_duration_seconds')
      ?.samples.filter(({ name }) => name.endsWith('_count'))
    t.same(
      durations?.map(({ labels, value }) => [labels['status'], value]),
      [
        ['success', 1],
        ['failed', 1]
      ]
    )
    t.match(after.get('svc_build_info')?.samples, [{ labels: { version: String, runtime: 'node' }, value: 1 }])
    const startedAt = value(after, 'svc_start_time_seconds') ?? 0
    t.ok(Math.abs(Date.now() / 1000 - startedAt) < 600)
    await client.delete(`/api/projects/${shop.id}`)
    const removed = await scrape()
    t.equal(
      value(removed, 'svc_deployments_total', { project: shop.id, status: 'success' }),
      1,
      'a counter does not fall'
    )
    t.equal(value(removed, 'svc_projects'), 0)
  })

  await t.test('pass promtool', { skip: !hasPromtool && 'there is no promtool here (PROMTOOL names it)' }, async t => {
    const { text } = await scraper.get('/metrics')
    const { status, stdout, stderr } = spawnSync(promtool, ['check', 'metrics'], { input: text })
    t.same([status, `${stdout}`, `${stderr}`], [0, '', ''])
  })

  await t.test(
    'can be read by prometheus_client',
    { skip: python === undefined && 'there is no prometheus_client here' },
    async t => {
      const { text } = await scraper.get('/metrics')
      const program = `
import sys
from prometheus_client.parser import text_string_to_metric_families as parse
for family in parse(sys.stdin.read()):
    assert family.documentation and family.type in ('counter', 'gauge', 'histogram', 'summary'), family
    print(family.name, len(family.samples))
`
      const { status, stdout, stderr } = spawnSync(python as string, ['-c', program], { input: text })
      t.equal(status, 0, `${stderr}`)
      t.equal(`${stdout}`.trim().split('\n').length, parseMetrics(text).size)
    }
  )

  await t.test('need the admin token if the setting is empty', async t => {
    await client.put('/api/settings', { metrics_token: '' })
    t.equal((await scraper.get('/metrics')).status, 401)
    t.equal((await client.get('/metrics')).status, 200)
    t.match(await client.put('/api/settings', { metrics_token: 'short' }), {
      status: 400,
      body: { field: 'metrics_token' }
    })
  })
})

t.test('each hub says what it is, and only the leader how far the others are', async t => {
  const { hubs, cluster } = await startHubs(t)
  const [leader, follower] = hubs as [Hub, Hub]
  const scrape = async ({ client }: Hub) => {
    const { text } = await client.get('/metrics')
    return { text, lines: text.split('\n').filter(line => line.startsWith('svc_cluster_')) }
  }
  await cluster.separate('h2', true)
  await leader.client.post('/api/categories', { name: 'One', color: 'blue' })
  const [first, second] = [await scrape(leader), await scrape(follower)]
  const behind = first.lines.find(line => line.startsWith('svc_cluster_hub_behind_writes{hub="h2"}'))
  t.match(first.lines.join('\n'), /^svc_cluster_is_leader 1\nsvc_cluster_is_cut_off 0\nsvc_cluster_stale_seconds 0\n/)
  t.ok(Number(behind?.split(' ')[1]) >= 1)
  t.match(first.text, /^svc_cluster_hub_seen_timestamp_seconds\{hub="h2"\} \d/m)
  t.match(second.lines.join('\n'), /^svc_cluster_is_leader 0\nsvc_cluster_is_cut_off 1\nsvc_cluster_stale_seconds 2\n/)
  t.notMatch(second.text, 'svc_cluster_hub_')
  t.ok(first.text.match(/http:/) === null, 'no addresses')
  if (!hasPromtool) return
  for (const { text } of [first, second]) {
    const { status, stdout, stderr } = spawnSync(promtool, ['check', 'metrics'], { input: text })
    t.same([status, `${stdout}`, `${stderr}`], [0, '', ''])
  }
})

t.test('a server alone has no metrics of a cluster', async t => {
  const { client } = await startServer(t)
  t.notMatch((await client.get('/metrics')).text, 'svc_cluster_')
})

t.test('stats over the API', async t => {
  const { client, createProject } = await startServer(t)
  const project = await createProject('shop')
  const heatmap = await client.get('/api/stats/heatmap')
  t.equal(heatmap.body.days, 365)
  t.equal(heatmap.body.cells.length, 365)
  t.equal((await client.get('/api/stats/heatmap?days=7')).body.cells.length, 7)
  t.equal((await client.get('/api/stats/success-rate')).body.points.length, 30)
  t.match((await client.get(`/api/stats/durations?projectId=${project.id}&days=9999`)).body, {
    days: 366,
    projectId: project.id,
    deployments: 0,
    steps: [],
    recent: []
  })
  t.equal((await client.get('/api/stats/durations?projectId=proj_unknown')).status, 404)
  t.match(await client.get('/api/stats/heatmap?days=x'), { status: 400, body: { field: 'days' } })
})

t.test('storage', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const shop = await stage.createProject('shop')
  const bytes = await zipOf({ 'index.html': 'hello' })
  const push = async () => {
    const reply = await stage.as(shop.token).upload([
      ['projectId', shop.id],
      ['file', { filename: 'a.zip', bytes }]
    ])
    return eventsOf(reply).at(-1).deployId as string
  }
  const ids = [await push(), await push(), await push()]
  const rollback = await client.post(`/api/deployments/${ids[2]}/rollback`)
  const archives = () => readdirSync(stage.home.deployments).filter(name => name.endsWith('.zip')).length

  t.test('counts the archive of a rollback once, because it is the same file', async t => {
    const { status, body } = await client.get('/api/storage')
    t.equal(status, 200)
    t.match(body, {
      home: { path: stage.home.directory, bytes: Number, freeBytes: Number, totalBytes: Number, percentUsed: Number },
      totals: { archives: 3 * bytes.length, logs: Number, tmp: 0, database: Number },
      projects: [{ projectId: shop.id, archiveCount: 4, archiveBytes: 3 * bytes.length, deployPathBytes: 5 }]
    })
    t.ok(body.totals.database > 0 && body.totals.logs > 0 && body.projects[0].logBytes > 0)
  })

  t.test('cleaning: a dry run, then the removal', async t => {
    const stale = join(stage.home.tmp, `${'a'.repeat(43)}.zip`)
    writeFileSync(stale, 'left behind')
    utimesSync(stale, 1_000_000_000, 1_000_000_000)
    const dry = await client.post('/api/storage/clean', { dryRun: true, keep: 1 })
    t.strictSame(dry.body, {
      success: true,
      dryRun: true,
      removed: {
        archives: [ids[2], ids[1], ids[0]].map(deployId => ({ deployId, projectId: shop.id, bytes: bytes.length })),
        temporaryFiles: [{ name: `${'a'.repeat(43)}.zip`, bytes: 11 }],
        unrecordedFiles: []
      },
      unrecordedLeft: [],
      freedBytes: 2 * bytes.length + 11
    })
    t.equal(archives(), 4)
    t.same((await client.post('/api/storage/clean')).body.removed.archives, [], 'the setting keeps ten archives')
    const { body } = await client.post('/api/storage/clean', { keep: 2, projectId: shop.id })
    t.equal(body.removed.archives.length, 2)
    t.equal(archives(), 2)
    t.equal((await client.get(`/api/logs/${ids[0]}`)).body.hasArtifact, false)
    t.equal(
      (await client.get(`/api/logs/${rollback.body.deployId}`)).body.hasArtifact,
      true,
      'the live archive is kept'
    )
    t.equal((await client.get('/api/audit?action=storage.clean')).body.items.length, 2)
  })

  t.test('files without a record are listed, and only removed on request', async t => {
    const name = `dep_${'a'.repeat(16)}.zip`
    const stray = join(stage.home.deployments, name)
    writeFileSync(stray, 'of a lost database')
    t.same((await client.post('/api/storage/clean')).body.unrecordedLeft, [], 'it may still get a record')
    utimesSync(stray, 1_000_000_000, 1_000_000_000)
    const listed = { unrecordedLeft: [{ name, bytes: 18 }], removed: { unrecordedFiles: [] } }
    t.match((await client.post('/api/storage/clean')).body, listed)
    t.match((await client.post('/api/storage/clean', { projectId: shop.id, unrecorded: true })).body, {
      unrecordedLeft: []
    })
    t.ok(existsSync(stray), 'one project: its archives only')
    const asked = { removed: { unrecordedFiles: [{ name, bytes: 18 }] }, unrecordedLeft: [], freedBytes: 18 }
    t.match((await client.post('/api/storage/clean', { dryRun: true, unrecorded: true })).body, asked)
    t.ok(existsSync(stray))
    t.match((await client.post('/api/storage/clean', { unrecorded: true })).body, asked)
    t.notOk(existsSync(stray))
  })

  t.test('refuses invalid values', async t => {
    for (const [body, status] of [
      [{ dryRun: 'yes' }, 400],
      [{ unrecorded: 1 }, 400],
      [{ keep: 0 }, 400],
      [{ keep: 1.5 }, 400],
      [{ projectId: 7 }, 400],
      [{ projectId: 'proj_unknown' }, 404],
      [[], 400]
    ] as const)
      t.equal((await client.post('/api/storage/clean', body)).status, status, JSON.stringify(body))
  })
})

t.test('one request returns which topics have changed, or 304 if none has', async t => {
  const stage = await startServer(t)
  const ask = () => stage.client.get('/api/changes')
  let before = await ask()
  t.equal((await stage.client.get('/api/changes', { 'if-none-match': before.headers.etag as string })).status, 304)

  const changed = async (work: () => Promise<unknown>): Promise<string[]> => {
    await work()
    const after = await ask()
    const topics = Object.keys(after.body).filter(topic => after.body[topic] !== before.body[topic])
    const status = (await stage.client.get('/api/changes', { 'if-none-match': before.headers.etag as string })).status
    t.equal(status, topics.length === 0 ? 304 : 200)
    before = after
    return topics.sort()
  }
  t.same(await changed(async () => {}), [])
  t.same(await changed(() => stage.createProject('shop')), [
    'audit',
    'deployments',
    'locks',
    'logSources',
    'marks',
    'projects'
  ])
  t.same(await changed(() => stage.client.put('/api/lock', { reason: 'move' })), ['audit', 'locks', 'marks'])
  t.same(await changed(() => stage.client.put('/api/settings', { keep_archives: '7' })), ['audit', 'settings'])
  t.same(await changed(() => signIn(stage.as(null))), ['audit', 'sessions'])
})

t.test('GET /api/cluster says which hub leads', async t => {
  const { hubs } = await startHubs(t)
  const [, follower] = hubs as [Hub, Hub]
  t.match(await follower.client.get('/api/cluster'), {
    status: 200,
    body: {
      cluster: {
        name: 'test',
        hub: 'h2',
        role: 'follower',
        leader: { name: 'h1' },
        hubs: [{ name: 'h1' }, { name: 'h2' }]
      }
    }
  })
})

t.test('a server alone is not part of a cluster', async t => {
  const { client } = await startServer(t)
  t.strictSame((await client.get('/api/cluster')).body, { success: true, cluster: null })
})

/** Uses a stand-in for pm2. test/cli/service/supervision.test.ts uses the real one. */
t.test('PM2 over the API', async t => {
  const pm2 = standInPm2(t)
  const list = [
    {
      name: 'shop',
      pm_id: 1,
      pid: 2,
      monit: { memory: 3, cpu: 4 },
      pm2_env: { status: 'online', exec_mode: 'fork_mode' }
    }
  ]
  pm2.install(list)
  const environment = { ...pm2.env, PATH: `${pm2.env.PATH}:${process.env['PATH']}` }
  const { client, createProject } = await startServer(t, { environment })
  const binding = async (pm2AppName: string | null) => {
    const { id } = await createProject(`p-${pm2AppName}`, { pm2AppName })
    return (await client.get(`/api/projects/${id}/pm2`)).body
  }

  t.same((await client.get('/api/pm2/available')).body, { available: true })
  t.same((await client.get('/api/pm2/apps')).body, { apps: [{ name: 'shop', pmId: 1, status: 'online' }] })
  t.match(await binding('shop'), {
    bound: true,
    found: true,
    name: 'shop',
    pid: 2,
    memoryBytes: 3,
    cpuPercent: 4,
    instances: 1
  })
  t.same(await binding('gone'), { bound: true, found: false, name: 'gone' })
  t.match(await binding(null), { bound: false, message: String })
  t.equal((await client.get('/api/projects/proj_unknown/pm2')).status, 404)
})

t.test('an answer without applications says why', async t => {
  const missing = { reason: 'missing', message: /^PM2 not found/ }
  const { client } = await startServer(t, { environment: standInPm2(t).env })
  t.match((await client.get('/api/pm2/available')).body, { available: false, ...missing })
  t.match((await client.get('/api/pm2/apps')).body, { apps: [], ...missing })
})

t.test('adds the log files of the application of a project, each once', async t => {
  const pm2 = standInPm2(t)
  const logs = t.testdir({ 'out-0.log': '', 'error.log': '' })
  const entry = (id: number) => ({
    name: 'shop',
    pm_id: id,
    pm2_env: {
      status: 'online',
      pm_out_log_path: join(logs, `out-${id}.log`),
      pm_err_log_path: join(logs, 'error.log')
    }
  })
  const quiet = { name: 'quiet', pm_id: 9, pm2_env: { pm_out_log_path: '/dev/null', pm_err_log_path: '/dev/null' } }
  pm2.install([entry(0), entry(1), quiet])
  const { client, createProject } = await startServer(t, { environment: pm2.env })
  const { id } = await createProject('shop', { pm2AppName: 'shop' })
  const path = `/api/projects/${id}/log-sources`
  await client.post(path, { items: [{ filePath: join(logs, 'error.log'), label: 'mine' }] })
  const { status, body } = await client.post(`${path}/pm2`)
  t.equal(status, 200)
  t.match(body.items, [
    { filePath: join(logs, 'out-0.log'), label: 'out-0.log', kind: 'pm2' },
    { filePath: join(logs, 'out-1.log') }
  ])
  t.match((await client.get(path)).body.items, [{ label: 'mine' }, {}, {}])
  t.same((await client.post(`${path}/pm2`)).body, { success: true, items: [] })

  const refused = async (pm2AppName: string | null) => {
    const other = await createProject(`other-${pm2AppName}`, { pm2AppName })
    return client.post(`/api/projects/${other.id}/log-sources/pm2`)
  }
  for (const [name, error] of [
    [null, /is not linked/],
    ['gone', /no application "gone"/],
    ['quiet', /no application "quiet" that writes log files/]
  ] as const)
    t.match(await refused(name), { status: 409, body: { code: 'no_pm2_logs', error } })
  pm2.daemon.close()
  await once(pm2.daemon, 'close')
  await new Promise(done => setTimeout(done, 1600))
  t.match(await client.post(`${path}/pm2`), { status: 409, body: { error: /daemon of this user is not running/ } })
})

t.test('GET /api/overview', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const read = async (query = '') => (await client.get(`/api/overview${query}`)).body

  t.test('an empty server has all fields, and zero counts', async t => {
    t.match(await read(), {
      status: { projectCount: 0, deploymentCount: 0 },
      health: { status: 'ok' },
      runningCount: 0,
      queuedCount: 0,
      broken: { total: 0, items: [] },
      deployments: [],
      pinned: [],
      newestProject: null,
      days: null
    })
  })

  t.test('contains the newest project before the first deployment', async t => {
    const project = await stage.createProject('shop')
    t.match(await read(), { newestProject: { id: project.id, token: project.token }, status: { projectCount: 1 } })
  })

  t.test('contains deployments, pinned projects and, on request, days', async t => {
    const [project] = (await client.get('/api/projects')).body
    await client.put(`/api/projects/${project.id}/pin`, { pinned: true })
    const bytes = await zipOf({ 'index.html': 'one' })
    await stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', { filename: 'a.zip', bytes }]
    ])
    const overview = await read('?days=7')
    t.match(overview, {
      deployments: [{ projectId: project.id, status: 'success' }],
      pinned: [{ id: project.id, name: 'shop', status: 'success', lastDeployAt: String }],
      newestProject: null,
      days: { today: /^\d{4}-\d\d-\d\d$/, items: [{ success: 1, failed: 0 }] }
    })
    t.notMatch(JSON.stringify(overview), project.token, 'contains no deploy token')
  })

  t.match(await client.get('/api/overview?days=x'), { status: 400, body: { field: 'days' } })
})

t.test('a project is broken or not, depending on its history', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const bytes = await zipOf({ 'index.html': 'one' })
  const good = {}
  const bad = { postDeployScript: 'exit 3' }
  const early = { preDeployScript: 'exit 3' }
  const inBackground = { postDeployScript: 'exit 3', postDeployAsync: true }
  const none = { preDeployScript: '', postDeployScript: '', postDeployAsync: false }

  const deploy = async (project: Project, fields: Partial<Project>): Promise<string> => {
    await client.put(`/api/projects/${project.id}`, { ...none, ...fields })
    const { headers } = await stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', { filename: 'a.zip', bytes }]
    ])
    const id = String(headers['x-svc-deploy-id'])
    const ended = async (): Promise<boolean> => {
      const { steps } = (await client.get(`/api/logs/${id}`)).body as { steps: DeploymentStep[] }
      return steps.every(step => step.endedAt !== null)
    }
    await until(ended)
    return id
  }

  interface Expected {
    /** Positions of deployments in the history, or null if the project is not broken. */
    failed: number | null
    since?: number
    lastGood?: number | null
    isLastGoodLive?: boolean
    live?: number | null
  }
  const histories: Array<[name: string, history: Array<Partial<Project>>, expected: Expected]> = [
    ['only good', [good, good], { failed: null, live: 1 }],
    ['never good', [bad], { failed: 0, since: 0, lastGood: null, isLastGoodLive: false, live: 0 }],
    ['nothing in place', [early], { failed: 0, since: 0, lastGood: null, isLastGoodLive: false, live: null }],
    ['before the files', [good, early], { failed: 1, since: 1, lastGood: 0, isLastGoodLive: true, live: 0 }],
    ['after the files', [good, bad, bad], { failed: 2, since: 1, lastGood: 0, isLastGoodLive: false, live: 2 }],
    ['in the background', [good, inBackground], { failed: 1, since: 1, lastGood: 0, isLastGoodLive: false, live: 1 }],
    ['mended', [bad, inBackground, good], { failed: null, live: 2 }]
  ]
  const expectedOrder: string[] = []
  for (const [name, history, { failed, since, lastGood, isLastGoodLive, live }] of histories) {
    const project = await stage.createProject(name.replaceAll(' ', '-'))
    const ids: string[] = []
    for (const fields of history) ids.push(await deploy(project, fields))
    const read = (await client.get(`/api/projects/${project.id}/overview`)).body as ProjectOverview
    const idOf = (n: number | null | undefined): string | null =>
      n === null || n === undefined ? null : (ids[n] as string)
    t.equal(read.live?.id ?? null, idOf(live), `${name}: what is live`)
    t.equal(read.deploymentCount, history.length)
    t.same(
      read.deployments.map(({ id }) => id),
      [...ids].reverse()
    )
    const overview = (await client.get('/api/overview')).body as Overview
    const listed = overview.broken.items.find(({ projectId }) => projectId === project.id) ?? null
    t.same(listed, read.broken, `${name}: both say the same`)
    if (failed === null) t.equal(read.broken, null, name)
    else {
      expectedOrder.push(project.id)
      t.match(
        read.broken,
        {
          projectName: project.name,
          projectEnv: 'production',
          goingId: null,
          isLastGoodLive,
          failed: { id: idOf(failed), status: history[failed] === inBackground ? 'success' : 'failed' }
        },
        name
      )
      t.equal(read.broken?.lastGood?.id ?? null, idOf(lastGood))
      t.equal(read.broken?.since, read.deployments.find(({ id }) => id === idOf(since))?.startTime)
      t.equal(read.broken?.failed.backgroundFailed, history[failed] === inBackground ? true : undefined)
    }
  }
  const { broken } = (await client.get('/api/overview')).body as Overview
  t.equal(broken.total, expectedOrder.length)
  t.same(
    broken.items.map(({ projectId }) => projectId),
    expectedOrder.toReversed(),
    'the one that broke last first'
  )

  await t.test('a rollback repairs the project, and liveSource is the upload', async t => {
    const [project] = (await client.get('/api/projects')).body.filter(
      ({ name }: Project) => name === 'after-the-files'
    ) as [Project]
    await client.put(`/api/projects/${project.id}`, none)
    const path = `/api/projects/${project.id}/overview`
    const before = (await client.get(path)).body as ProjectOverview
    const source = before.broken?.lastGood?.id as string
    await client.post(`/api/deployments/${source}/rollback`)
    const once = (await client.get(path)).body as ProjectOverview
    t.match(once, { broken: null, live: { triggerSource: 'rollback', status: 'success' }, liveSource: { id: source } })
    await client.post(`/api/deployments/${once.live?.id}/rollback`)
    t.match(
      (await client.get(path)).body,
      { live: { rollbackOf: once.live?.id }, liveSource: { id: source } },
      'through another roll-back'
    )
    t.equal(before.liveSource, null)
  })

  await t.test('a corrected status repairs or breaks the project', async t => {
    const [project] = (await client.get('/api/projects')).body.filter(({ name }: Project) => name === 'never-good') as [
      Project
    ]
    const read = async (): Promise<ProjectOverview> => (await client.get(`/api/projects/${project.id}/overview`)).body
    const id = (await read()).deployments[0]?.id
    await client.patch(`/api/deployments/${id}/status`, { status: 'success' })
    t.equal((await read()).broken, null)
    await client.patch(`/api/deployments/${id}/status`, { status: 'failed' })
    t.equal((await read()).broken?.failed.id, id)
  })

  await t.test('the project stays broken during the next deployment, which is named', async t => {
    const [project] = (await client.get('/api/projects')).body.filter(
      ({ name }: Project) => name === 'before-the-files'
    ) as [Project]
    await client.put(`/api/projects/${project.id}`, { ...none, preDeployScript: 'mkfifo ../go; cat ../go' })
    const going = stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', { filename: 'a.zip', bytes }]
    ])
    const read = async (): Promise<ProjectOverview> => (await client.get(`/api/projects/${project.id}/overview`)).body
    await until(async () => (await read()).broken?.goingId != null && existsSync(join(stage.sites, 'go')))
    t.match((await read()).broken, { goingId: (await read()).deployments[0]?.id, failed: { status: 'failed' } })
    await (await open(join(stage.sites, 'go'), 'w')).close()
    await going
    t.equal((await read()).broken, null)
  })

  t.match(await client.get('/api/projects/none/overview'), { status: 404 })
})

t.test('search over the API', async t => {
  const { client, createProject } = await startServer(t)
  const { id } = await createProject('shop')
  const { status, body } = await client.get('/api/search?q=%20shop%20')
  t.equal(status, 200)
  t.equal(body.q, 'shop')
  t.same(
    body.groups.map(({ type }: { type: string }) => type),
    ['projects', 'deployments', 'log-sources', 'audit', 'settings']
  )
  t.match(body.groups[0], { type: 'projects', total: 1, items: [{ id, title: 'shop', href: `projects/${id}` }] })
  t.equal((await client.get('/api/search?q=shop&types=projects,audit')).body.groups.length, 2)
  t.equal((await client.get('/api/search')).body.groups[0].total, 0)
  t.match(await client.get('/api/search?q=x&types=users'), { status: 400, body: { field: 'types' } })
  t.match(await client.get('/api/search?q=x&limit=0'), { status: 400, body: { field: 'limit' } })
  t.equal((await client.get(`/api/search?q=${'x'.repeat(201)}`)).status, 400)
})

t.test('the audit log', async t => {
  const { client, createProject } = await startServer(t)
  const one = await createProject('one')
  const two = await createProject('two')
  await client.put(`/api/projects/${two.id}`, { name: 'Two' })
  const items = async (query = '') =>
    (await client.get(`/api/audit${query}`)).body.items as Array<Record<string, unknown>>

  t.test('lists entries newest first, with the specified fields', async t => {
    const all = await items()
    t.same(
      all.map(({ action }) => action),
      ['project.update', 'project.create', 'project.create']
    )
    t.match(all[0], {
      id: /^aud_/,
      at: /Z$/,
      action: 'project.update',
      actor: 'admin',
      ip: '127.0.0.1',
      projectId: two.id,
      target: two.id,
      detail: 'two\nname: two → Two',
      ok: true
    })
  })

  t.test('filters and pages', async t => {
    t.equal((await items('?action=project.create')).length, 2)
    t.equal((await items(`?projectId=${one.id}`)).length, 1)
    const [newest] = await items('?limit=1')
    t.same(
      (await items(`?before=${newest?.['id']}`)).map(({ projectId }) => projectId),
      [two.id, one.id]
    )
    t.match(await client.get('/api/audit?action=nothing'), {
      status: 400,
      body: { code: 'invalid_field', field: 'action', error: /"nothing": svc does not record .* Known: auth\.login, / }
    })
    t.same(await items('?action=terminal.open'), [], 'a known one without entries')
    t.same(await items('?until=2020-01-01T00:00:00Z'), [])
    const [third, second] = await items()
    t.same((await items(`?since=${third?.['at']}`))[0], third, 'from this time on')
    t.ok((await items(`?until=${second?.['at']}`)).every(({ at }) => String(at) < String(second?.['at'])))
    t.equal((await items('?since=2020-01-01T00:00:00%2B02:00')).length, 3)
    for (const wrong of ['since=yesterday', 'until=2020'])
      t.match(await client.get(`/api/audit?${wrong}`), { status: 400, body: { code: 'invalid_field' } }, wrong)
    t.equal((await client.get('/api/audit?limit=none')).status, 400)
    t.equal((await client.get('/api/audit?before=aud_unknown')).status, 400)
  })
})

t.test('proofs of the audit log', async t => {
  const { client, as, createProject, home } = await startServer(t)
  t.match(await client.get('/api/audit/checkpoint'), { status: 404, body: { code: 'not_found' } }, 'an empty log')
  const shop = await createProject('shop')
  const checkpoint = async (): Promise<AuditCheckpoint> => (await client.get('/api/audit/checkpoint')).body
  const rootOf = ({ note }: AuditCheckpoint): Buffer =>
    readCheckpoint(readNote(note)?.text ?? '')?.root ?? Buffer.alloc(0)
  const bytesOf = (proof: string[]): Buffer[] => proof.map(hash => Buffer.from(hash, 'base64'))

  t.test('a checkpoint is signed by the key in the data directory', async t => {
    const found = await checkpoint()
    t.match(found, { size: 1, at: /Z$/ })
    t.same(readSignedCheckpoint(found.note, found.key), { size: 1, root: rootOf(found).toString('base64') })
    t.equal(readFileSync(join(home.keys, 'server.pub'), 'utf8'), `${found.key}\n`)
    t.match(await as(shop.token).get('/api/audit/checkpoint'), { status: 200 }, 'a deploy token may witness')
  })

  t.test('a consistency proof connects two checkpoints', async t => {
    const before = await checkpoint()
    for (const name of ['a', 'b', 'c', 'd']) await createProject(name)
    const after = await checkpoint()
    t.equal(after.size, before.size + 4)
    const query = `?from=${before.size}&to=${after.size}`
    const { from, to, proof } = (await as(shop.token).get(`/api/audit/proof${query}`)).body as ConsistencyProof
    const claim = { from, to, fromRoot: rootOf(before), toRoot: rootOf(after), proof: bytesOf(proof) }
    t.ok(isConsistent(claim, hashNode))
    t.same((await client.get(`/api/audit/proof?from=${before.size}`)).body, { from, to, proof }, 'up to now')
  })

  t.test('sizes that the tree does not have are refused', async t => {
    const { size } = await checkpoint()
    const wrong = ['', '?from=', '?from=x', '?from=-1', '?from=1.5', '?from=1e3', `?from=${'9'.repeat(16)}`]
    for (const query of [...wrong, '?from=3&to=2', `?from=1&to=${size + 1}`, '?from=1&to=x', `?from=${size + 1}`])
      t.match(await client.get(`/api/audit/proof${query}`), { status: 400, body: { code: 'invalid_field' } }, query)
  })

  t.test('an inclusion proof connects an entry and a checkpoint', async t => {
    const { items } = (await client.get('/api/audit')).body as { items: Array<{ id: string; seq: number }> }
    for (const { id, seq } of items) {
      const found = (await client.get(`/api/audit/inclusion?id=${id}`)).body as InclusionProof
      t.equal(found.seq, seq)
      const { size } = found.checkpoint
      const claim = { index: seq - 1, size, root: rootOf(found.checkpoint), proof: bytesOf(found.proof) }
      t.ok(isIncluded({ ...claim, leaf: Buffer.from(found.leaf, 'base64') }), id)
    }
    t.match(await client.get('/api/audit/inclusion'), { status: 400 })
    t.match(await client.get('/api/audit/inclusion?id=aud_unknown'), { status: 404 })
    await as('a-wrong-token').get('/api/projects')
    const [open] = (await client.get('/api/audit?action=auth.login_failed')).body.items
    t.match(open, { seq: null })
    t.match(await client.get(`/api/audit/inclusion?id=${open.id}`), { status: 409, body: { code: 'not_sealed' } })
  })

  t.test('an export is verified without the server', async t => {
    const answer = await client.get('/api/audit/export')
    t.match(answer.headers, {
      'content-type': 'application/x-ndjson',
      'content-disposition': /^attachment; filename="svc-audit-.*\.jsonl"$/
    })
    t.match(verified(answer.text), { faults: [], removed: 0, omitted: 0 })
    t.match(answer.text, /"action":"audit\.export"/, 'the export is in the log')
    const part = await client.get('/api/audit/export?from=2&to=3')
    t.match(verified(part.text), { faults: [], entries: 2 })
    for (const query of ['?from=0', '?to=0', '?from=x', '?from=999', '?from=3&to=2'])
      t.match(await client.get(`/api/audit/export${query}`), { status: 400, body: { code: 'invalid_field' } }, query)
    t.match(await as(shop.token).get('/api/audit/export'), { status: 403 })
  })
})

t.test('each deployment is followed by a checkpoint that contains it, without being asked', async t => {
  const { client, createProject, as, sites } = await startServer(t)
  const kept = join(sites, 'kept.notes')
  await client.put('/api/settings', { checkpoint_file: `>>${kept}` })
  const project = await createProject('site')
  const sizes = (): number[] =>
    existsSync(kept)
      ? [...readFileSync(kept, 'utf8').matchAll(/^svc\/\S+\n(\d+)\n/gm)].map(([, size]) => Number(size))
      : []
  for (const files of [{ a: '1' }, { a: '2' }]) {
    const file = { filename: 'a.zip', bytes: await zipOf(files) }
    await as(project.token).upload([
      ['projectId', project.id],
      ['file', file]
    ])
    const { seq } = (await client.get('/api/audit?action=deployment.upload&limit=1')).body.items[0] as { seq: number }
    await until(() => Math.max(0, ...sizes()) >= seq)
  }
  t.equal(sizes().length >= 2, true)
})

t.test('a named token reads its own entries, and an operator those of its projects, too', async t => {
  const { client, createProject, as } = await startServer(t)
  const [one, two] = [await createProject('one'), await createProject('two')]
  const mint = async (name: string, role: string, projectIds: string[]) =>
    as(((await client.post('/api/tokens', { name, role, projectIds })).body as { token: string }).token)
  const ana = await mint('ana', 'deployer', [one.id, two.id])
  const ben = await mint('ben', 'deployer', [one.id])
  const operator = await mint('olga', 'operator', [one.id])
  const push = async (from: typeof client, projectId: string) =>
    from.upload([
      ['projectId', projectId],
      ['file', { filename: 'a.zip', bytes: await zipOf({ a: projectId }) }]
    ])
  for (const [from, project] of [
    [ana, one],
    [ana, two],
    [ben, one]
  ] as const)
    await push(from, project.id)
  const seenBy = async (from: typeof client): Promise<string[]> => {
    const { items } = (await from.get('/api/audit?limit=500')).body as { items: Array<Record<string, string>> }
    return items.map(({ actor, action, projectId }) => `${actor} ${action} ${projectId === two.id ? 'two' : 'one'}`)
  }
  t.same(await seenBy(ana), ['token:ana deployment.upload two', 'token:ana deployment.upload one'])
  t.same(await seenBy(ben), ['token:ben deployment.upload one'])
  t.same(
    (await seenBy(operator)).filter(line => !line.startsWith('admin')),
    [
      'system deployment.end one',
      'token:ben deployment.upload one',
      'system deployment.end one',
      'token:ana deployment.upload one'
    ]
  )
  for (const from of [ana, operator]) t.equal((await from.get('/api/audit/export')).status, 403)
})
