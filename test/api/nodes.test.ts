import t from 'tap'
import { enrolledAgent } from '../support/fake-agent.js'
import { startServer } from '../support/server.js'

async function openFleet(t: Parameters<typeof startServer>[0]) {
  const stage = await startServer(t)
  const hub = await stage.server.services.fleet.hub()
  const agents = [
    await enrolledAgent({ url: stage.url, hub }, 'web-1'),
    await enrolledAgent({ url: stage.url, hub }, 'web-2')
  ]
  return { stage, agents }
}

t.test('nodes are listed by name, filtered by project and label', async t => {
  const { stage } = await openFleet(t)
  const { client } = stage
  const names = async (query: string): Promise<string[]> =>
    (await client.get(`/api/nodes${query}`)).body.nodes.map(({ name }: { name: string }) => name)
  const shop = await stage.createProject('shop')
  t.same(await names(''), ['web-1', 'web-2'])
  t.same(await names(`?projectId=${shop.id}`), [])
  await client.patch(`/api/projects/${shop.id}/placements`, { add: [{ node: 'web-2' }] })
  t.same(await names(`?projectId=${shop.id}`), ['web-2'])
  await client.patch('/api/nodes/web-1', { labels: { zone: 'eu' } })
  t.same(await names('?label=zone=eu'), ['web-1'])
  t.match(await client.get('/api/nodes?label=zone'), { status: 400, body: { field: 'label' } })
})

t.test('a node is changed by name or id, and drained', async t => {
  const { stage } = await openFleet(t)
  const { client } = stage
  const { node } = (await client.get('/api/nodes/web-1')).body
  t.match(node, { name: 'web-1', isConnected: false, isDrained: false, placements: [] })
  t.match((await client.get(`/api/nodes/${node.id}`)).body, { node: { id: node.id } })
  t.match(await client.get('/api/nodes/web-9'), { status: 404, body: { code: 'not_found' } })

  t.match((await client.patch(`/api/nodes/${node.id}`, { name: 'db-1' })).body, { node: { name: 'db-1', labels: {} } })
  t.match(await client.patch('/api/nodes/db-1', { name: 'WEB-2' }), { status: 409, body: { code: 'name_taken' } })
  t.match(await client.patch('/api/nodes/db-1', { name: 'two words' }), { status: 400, body: { field: 'name' } })
  t.match(await client.patch('/api/nodes/db-1', { labels: { 'a b': '' } }), {
    status: 400,
    body: { field: 'labels.a b' }
  })

  t.match((await client.put('/api/nodes/db-1/drain', { drained: true })).body, { node: { isDrained: true } })
  t.match((await client.put('/api/nodes/db-1/drain', { drained: false })).body, { node: { isDrained: false } })
  t.match(await client.put('/api/nodes/db-1/drain', {}), { status: 400, body: { field: 'drained' } })
})

t.test('a node that is removed can no longer sign requests', async t => {
  const { stage, agents } = await openFleet(t)
  t.equal((await agents[0]?.report())?.status, 200)
  t.match((await stage.client.delete('/api/nodes/web-1')).body, { success: true, message: /"web-1"/ })
  t.equal((await agents[0]?.report())?.status, 401)
  t.match(await stage.client.delete('/api/nodes/web-1'), { status: 404 })
})

t.test('a token that is limited to a project sees only its nodes, with its placement only', async t => {
  const { stage } = await openFleet(t)
  const { client } = stage
  const [shop, forum] = [await stage.createProject('shop'), await stage.createProject('forum')]
  for (const { id } of [shop, forum]) await client.patch(`/api/projects/${id}/placements`, { add: [{ node: 'web-1' }] })
  await client.patch(`/api/projects/${forum.id}/placements`, { add: [{ node: 'web-2' }] })
  const { token } = (await client.post('/api/tokens', { name: 'ci', role: 'operator', projectIds: [shop.id] })).body
  const limited = stage.as(token)
  const { nodes } = (await limited.get('/api/nodes')).body
  t.match(nodes, [{ name: 'web-1', placements: [{ projectId: shop.id, projectName: 'shop' }] }])
  t.equal(nodes[0].placements.length, 1)
  t.match(await limited.get('/api/nodes/web-2'), { status: 404 })
  t.match(await limited.get(`/api/nodes?projectId=${forum.id}`), { status: 404 })
  t.match(await limited.put('/api/nodes/web-1/drain', { drained: true }), { body: { code: 'scope_too_narrow' } })
})
