import t from 'tap'
import { enrolledAgent } from '../support/fake-agent.js'
import { beginRollout } from '../support/fleet-rollout.js'
import { startServer } from '../support/server.js'

t.test('a project is placed on nodes with its own directory or another, and removed', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const hub = await stage.server.services.fleet.hub()
  for (const name of ['web-1', 'web-2']) await enrolledAgent({ url: stage.url, hub }, name)
  const shop = await stage.createProject('shop')
  const path = `/api/projects/${shop.id}/placements`
  t.same((await client.get(path)).body.placements, [])

  const { node } = (await client.get('/api/nodes/web-2')).body
  const added = await client.patch(path, { add: [{ node: 'web-1' }, { node: node.id, deployPath: '/srv/other' }] })
  t.match(added, {
    status: 200,
    body: {
      placements: [
        { nodeName: 'web-1', deployPath: shop.deployPath, liveDeployId: null, isDrifted: false },
        { nodeName: 'web-2', deployPath: '/srv/other' }
      ]
    }
  })
  t.match((await client.patch(path, { remove: ['web-1'] })).body.placements, [{ nodeName: 'web-2' }])
  t.equal((await client.get(path)).body.placements.length, 1)
})

t.test('unknown nodes and projects, and empty changes are refused', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const shop = await stage.createProject('shop')
  const path = `/api/projects/${shop.id}/placements`
  t.match(await client.patch(path, { add: [{ node: 'web-9' }] }), { status: 404, body: { code: 'not_found' } })
  t.match(await client.patch(path, {}), { status: 400, body: { field: 'add' } })
  t.match(await client.patch(path, { add: [{}] }), { status: 400, body: { field: 'add[0].node' } })
  t.match(await client.get('/api/projects/proj_unknown/placements'), { status: 404 })
  t.match(await client.patch('/api/projects/proj_unknown/placements', { remove: ['a'] }), { status: 404 })
})

t.test('the check of an upload says to how many nodes and in how many waves it would go', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const hub = await stage.server.services.fleet.hub()
  const shop = await stage.createProject('shop')
  const check = async () => (await stage.as(shop.token).get(`/api/deploy/check?projectId=${shop.id}`)).body.rollout
  t.equal(await check(), null)
  for (const name of ['web-1', 'web-2', 'web-3', 'web-4']) {
    await enrolledAgent({ url: stage.url, hub }, name)
    await client.patch(`/api/projects/${shop.id}/placements`, { add: [{ node: name }] })
  }
  await client.put('/api/nodes/web-4/drain', { drained: true })
  await client.put(`/api/projects/${shop.id}`, { policy: { rollout: { canary: 1, then: '2' } } })
  t.match(await check(), { nodes: 3, waves: 2, policy: { canary: 1, then: '2', onFailure: 'halt' } })
})

t.test('a node cannot be removed while a rollout is in progress', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const hub = await stage.server.services.fleet.hub()
  await enrolledAgent({ url: stage.url, hub }, 'web-1')
  const shop = await stage.createProject('shop')
  const path = `/api/projects/${shop.id}/placements`
  await client.patch(path, { add: [{ node: 'web-1' }] })
  const id = await beginRollout({ hub }, {}, shop.id)
  t.match(await client.patch(path, { remove: ['web-1'] }), { status: 409, body: { code: 'rollout_in_progress' } })
  await client.post(`/api/rollouts/${id}/halt`)
  t.match(await client.patch(path, { remove: ['web-1'] }), { status: 200, body: { placements: [] } })
})
