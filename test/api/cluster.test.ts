import t from 'tap'
import { startServer } from '../support/server.js'
import { startHubs, type Hub } from '../support/hubs.js'

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
