import t from 'tap'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'

t.test('GET /api/overview', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const read = async (query = '') => (await client.get(`/api/overview${query}`)).body

  t.test('an empty server: nothing is missing, nothing is counted', async t => {
    t.match(await read(), {
      status: { projectCount: 0, deploymentCount: 0 }, health: { status: 'ok' }, runningCount: 0, queuedCount: 0,
      deployments: [], pinned: [], newestProject: null, days: null
    })
  })

  t.test('before the first deployment: the project it may go to', async t => {
    const project = await stage.createProject('shop')
    t.match(await read(), { newestProject: { id: project.id, token: project.token }, status: { projectCount: 1 } })
  })

  t.test('after it: the deployment, pinned projects, and the days where they are asked for', async t => {
    const [project] = (await client.get('/api/projects')).body
    await client.put(`/api/projects/${project.id}/pin`, { pinned: true })
    const bytes = await zipOf({ 'index.html': 'one' })
    await stage.as(project.token).upload([['projectId', project.id], ['file', { filename: 'a.zip', bytes }]])
    const overview = await read('?days=7')
    t.match(overview, {
      deployments: [{ projectId: project.id, status: 'success' }],
      pinned: [{ id: project.id, name: 'shop', status: 'success', lastDeployAt: String }],
      newestProject: null,
      days: { today: /^\d{4}-\d\d-\d\d$/, items: [{ success: 1, failed: 0 }] }
    })
    t.notMatch(JSON.stringify(overview), project.token, 'no secret that nobody needs')
  })

  t.match(await client.get('/api/overview?days=x'), { status: 400, body: { field: 'days' } })
})
