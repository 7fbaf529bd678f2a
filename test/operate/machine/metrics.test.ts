import t from 'tap'
import { startServer } from '../../support/server.js'
import { parseMetrics } from '../../support/prometheus.js'
import { createDeploymentCounts, maxCountedProjects, metricsText } from '../../../lib/operate/machine/metrics.js'
import { occasion } from '../../support/occasion.js'

t.test('metrics cover the server, its projects, its store and its streams', async t => {
  const { client, createProject } = await startServer(t)
  await createProject('one')
  await createProject('two')
  const { text } = await client.get('/metrics')
  const metrics = parseMetrics(text)
  t.ok(metrics !== undefined)
  const value = (name: string): number => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
  t.equal(value('svc_projects'), 2)
  t.equal(value('svc_store_healthy'), 1)
  t.ok(value('svc_store_commits_total') >= 2)
  t.ok(value('svc_process_resident_memory_bytes') > 1e6)
  t.ok(Math.abs(value('svc_start_time_seconds') - Date.now() / 1000) < 600)
  for (const name of ['deployments_queued', 'deployments_running', 'uploads_in_flight', 'log_searches_in_flight']) {
    t.equal(value(`svc_${name}`), 0, name)
  }
  t.match(text, /^svc_followers\{of="log"\} 0$/m)
})

t.test('writes each type of metric in the text format', async t => {
  t.equal(
    metricsText([
      { name: 'svc_a_total', type: 'counter', help: 'A \\ help\nin two lines.', samples: [{ value: 3 }] },
      {
        name: 'svc_b',
        type: 'gauge',
        help: 'B.',
        samples: [
          { labels: { name: 'a "b"\\\nc' }, value: 0.5 },
          { labels: { name: '汉' }, value: Infinity }
        ]
      },
      { name: 'svc_none', type: 'gauge', help: 'Without samples.', samples: [] },
      {
        name: 'svc_c_seconds',
        type: 'histogram',
        help: 'C.',
        series: [{ labels: { of: 'x' }, figures: { buckets: [{ atMost: 0.5, count: 1 }], sum: 3.25, count: 2 } }]
      },
      {
        name: 'svc_d_seconds',
        type: 'summary',
        help: 'D.',
        quantiles: [{ quantile: 0.99, value: 1e-7 }],
        sum: 1,
        count: 2
      }
    ]),
    `# HELP svc_a_total A \\\\ help\\nin two lines.
# TYPE svc_a_total counter
svc_a_total 3
# HELP svc_b B.
# TYPE svc_b gauge
svc_b{name="a \\"b\\"\\\\\\nc"} 0.5
svc_b{name="汉"} +Inf
# HELP svc_c_seconds C.
# TYPE svc_c_seconds histogram
svc_c_seconds_bucket{of="x",le="0.5"} 1
svc_c_seconds_bucket{of="x",le="+Inf"} 2
svc_c_seconds_sum{of="x"} 3.25
svc_c_seconds_count{of="x"} 2
# HELP svc_d_seconds D.
# TYPE svc_d_seconds summary
svc_d_seconds{quantile="0.99"} 1e-7
svc_d_seconds_sum 1
svc_d_seconds_count 2
`
  )
})

t.test('the reader of the tests refuses other formats', async t => {
  const good = '# HELP a_total A.\n# TYPE a_total counter\na_total{b="c"} 1\n'
  t.equal(parseMetrics(good).get('a_total')?.samples[0]?.labels['b'], 'c')
  const head = '# HELP h H.\n# TYPE h histogram\n'
  for (const wrong of [
    good.trim(),
    `${good}${good}`,
    `${good}a_total{b="c"} 2\n`,
    `${good}b 1\n`,
    good.replace('"c"', '"c'),
    good.replace('"c"', '"\\c"'),
    good.replace(' 1', ' one'),
    good.replace('# HELP a_total A.\n', ''),
    good.replace('counter', 'count'),
    good.replaceAll('a_total', 'a'),
    `${head}h_bucket{le="1"} 1\nh_sum 1\nh_count 1\n`,
    `${head}h_bucket{le="1"} 2\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n`,
    `${head}h_bucket{le="+Inf"} 1\nh_count 1\n`,
    `${head}h_bucket{le="+Inf"} 1\nh_sum 1\nh_count 2\n`
  ])
    t.throws(() => parseMetrics(wrong), wrong)
})

const row = (patch: object) => occasion({ deployment: patch }).deployment

t.test('counts by project and status, and keeps the counts of a removed project', async t => {
  const counts = createDeploymentCounts()
  const read = (projects: Array<{ id: string; name: string }>) => parseMetrics(metricsText(counts.metrics(projects)))
  const ends = (projects: Array<{ id: string; name: string }>) =>
    read(projects).get('svc_deployments_total')?.samples ?? []
  t.match(
    ends([{ id: 'proj_1', name: 'shop' }]),
    [
      { labels: { project: 'proj_1', project_name: 'shop', status: 'success' }, value: 0 },
      { labels: { status: 'failed' }, value: 0 }
    ],
    'there before its first deployment'
  )
  counts.ended(row({}))
  counts.ended(row({ status: 'failed' }))
  counts.ended(row({ status: 'running' }))
  t.same(counts.totals(), { success: 1, failed: 1 })
  t.same(
    ends([]).map(({ value }) => value),
    [1, 1]
  )
  t.match(ends([{ id: 'proj_1', name: 'renamed' }]), [{ labels: { project_name: 'renamed' }, value: 1 }])
})

t.test('records durations of deployments and of their steps', async t => {
  const counts = createDeploymentCounts()
  const step = {
    name: 'extract',
    status: 'success',
    startedAt: '2030-01-01T00:00:00.000Z',
    endedAt: '2030-01-01T00:00:00.200Z'
  }
  counts.ended(
    row({
      steps: [
        step,
        { ...step, name: 'preDeploy', status: 'skipped' },
        { ...step, name: 'postDeploy', status: 'running', endedAt: null }
      ]
    })
  )
  counts.ended(row({ endTime: '2029-12-31T23:59:59.000Z' }))
  const metrics = parseMetrics(metricsText(counts.metrics([])))
  const samples = metrics.get('svc_deployment_duration_seconds')?.samples ?? []
  const of = (name: string, le?: string) =>
    samples.find(
      sample => sample.name.endsWith(name) && sample.labels['status'] === 'success' && sample.labels['le'] === le
    )?.value
  t.same(
    [of('_bucket', '0.1'), of('_bucket', '2.5'), of('_count'), of('_sum')],
    [1, 2, 2, 1.5],
    'a clock that was set back makes no negative time'
  )
  t.same(
    new Set(metrics.get('svc_deployment_step_duration_seconds')?.samples.map(({ labels }) => labels['step'])),
    new Set(['extract'])
  )
})

t.test('limits the number of series for any number of projects', async t => {
  const counts = createDeploymentCounts()
  for (let n = 0; n < 1_000; n++) counts.ended(row({ projectId: `proj_${n}`, projectName: `p${n}` }))
  const projects = Array.from({ length: 5_000 }, (_, n) => ({ id: `proj_${n}`, name: `p${n}` }))
  const samples = parseMetrics(metricsText(counts.metrics(projects))).get('svc_deployments_total')?.samples ?? []
  t.equal(samples.length, 2 * (maxCountedProjects + 1))
  const others = samples.find(({ labels }) => labels['project'] === 'other' && labels['status'] === 'success')
  t.match(others, { labels: { project_name: 'other' }, value: 1_000 - maxCountedProjects })
  t.equal(
    samples.reduce((sum, { value }) => sum + value, 0),
    1_000
  )
})
