import t from 'tap'
import { spawnSync } from 'node:child_process'
import { startHubs, type Hub } from '../support/hubs.js'
import { eventsOf } from '../support/client.js'
import { parseMetrics } from '../support/prometheus.js'
import { startServer } from '../support/server.js'
import { openStream } from '../support/sse.js'
import { zipOf } from '../support/zip.js'

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
