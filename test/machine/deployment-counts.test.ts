import t from 'tap'
import { createDeploymentCounts, maxCountedProjects } from '../../lib/machine/deployment-counts.js'
import { metricsText } from '../../lib/machine/metrics-text.js'
import { occasion } from '../support/occasion.js'
import { parseMetrics } from '../support/prometheus.js'

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
