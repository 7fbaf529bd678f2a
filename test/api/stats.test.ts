import t from 'tap'
import { startServer } from '../support/server.js'

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
