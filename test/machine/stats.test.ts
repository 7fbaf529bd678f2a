import t from 'tap'
import type { DeploymentRow, DeploymentStep } from '../../lib/model/deployment.js'
import { createStats, datesUpTo } from '../../lib/machine/stats.js'
import { insertDeployment } from '../../lib/store/tables/deployments.js'
import { insertProject } from '../../lib/store/tables/projects.js'
import { setClock } from '../support/clock.js'
import { aDeployment, aProject, aStore } from '../store/stage.js'

const clock = setClock(Date.parse('2030-03-02T00:00:30Z'))
const step = (
  name: DeploymentStep['name'],
  ms: number,
  status: DeploymentStep['status'] = 'success'
): DeploymentStep => ({
  name,
  status,
  startedAt: '2030-03-01T00:00:00.000Z',
  endedAt: new Date(Date.parse('2030-03-01T00:00:00Z') + ms).toISOString()
})

t.test('stats', async t => {
  const store = await aStore(t)
  const rows: Array<Partial<DeploymentRow>> = [
    { startTime: '2030-02-27T23:59:59.999Z', status: 'failed' },
    {
      startTime: '2030-02-28T00:00:00.000Z',
      status: 'success',
      steps: [step('extract', 100), step('preDeploy', 0, 'skipped')]
    },
    { startTime: '2030-02-28T12:00:00.000Z', status: 'failed', steps: [step('extract', 300)] },
    { startTime: '2030-03-02T00:00:00.000Z', status: 'running', projectId: 'proj_b' },
    {
      startTime: '2030-03-02T00:00:01.000Z',
      status: 'success',
      projectId: 'proj_b',
      steps: [step('extract', 200), step('store', 5)]
    }
  ]
  await store.write(tx => {
    for (const id of ['proj_a', 'proj_b']) insertProject(tx, aProject({ id }))
    rows.forEach((row, index) => insertDeployment(tx, aDeployment({ id: `dep_${index}`, projectId: 'proj_a', ...row })))
  })
  const stats = createStats({ store, clock })

  t.test('counts by UTC day, empty days included', async t => {
    t.same(datesUpTo(clock.now(), 3), ['2030-02-28', '2030-03-01', '2030-03-02'])
    t.same(stats.heatmap(3), {
      days: 3,
      cells: [
        { date: '2030-02-28', count: 2, failed: 1 },
        { date: '2030-03-01', count: 0, failed: 0 },
        { date: '2030-03-02', count: 2, failed: 0 }
      ]
    })
  })

  t.test('computes the rate from finished deployments', async t => {
    t.same(stats.successRates(3).points, [
      { date: '2030-02-28', success: 1, failed: 1, rate: 50 },
      { date: '2030-03-01', success: 0, failed: 0, rate: null },
      { date: '2030-03-02', success: 1, failed: 0, rate: 100 }
    ])
  })

  t.test('computes the durations of each step', async t => {
    const all = stats.durations({ days: 3 })
    t.same(all.steps, [
      { name: 'store', count: 1, medianMs: 5, p95Ms: 5, maxMs: 5 },
      { name: 'extract', count: 3, medianMs: 200, p95Ms: 300, maxMs: 300 }
    ])
    t.match(all, { days: 3, projectId: null, deployments: 3 })
    t.same(
      all.recent.map(({ id }) => id),
      ['dep_1', 'dep_2', 'dep_4'],
      'oldest first'
    )
    t.same(stats.durations({ days: 3, projectId: 'proj_b' }).recent, [
      {
        id: 'dep_4',
        startTime: rows[4]?.startTime,
        status: 'success',
        steps: [
          { name: 'extract', ms: 200 },
          { name: 'store', ms: 5 }
        ]
      }
    ])
  })
})
