import t from 'tap'
import { createClient } from '../../support/client.js'
import { startHubs, type Hub } from '../../support/hubs.js'
import { until } from '../../support/until.js'

const leads = (hub: Hub): boolean => hub.told.info.includes('This hub leads the cluster now')

t.test('each term has new services, and those of an ended term change nothing', async t => {
  const { hubs, cluster } = await startHubs(t)
  const [first, second] = hubs as [Hub, Hub]
  await until(() => leads(first))
  const { deployer } = first.server.services
  await first.client.post('/api/projects', { name: 'Shop', deployPath: `${first.directory}-shop` })
  cluster.lead('h2')
  await until(() => leads(second))
  await until(() => first.server.services.deployer !== deployer)
  cluster.lead('h1')
  await until(() => first.told.info.filter(line => /leads the cluster/.test(line)).length === 2)
  await t.rejects(deployer.receive(null as never, {} as never), { code: 'shutting_down' })
  t.equal((await first.client.get('/api/projects')).body.length, 1)
  t.strictSame([...first.told.warn, ...second.told.warn], [], 'no service complains about its end')
})

t.test('settings and tokens that the leader changes count on a follower', async t => {
  const { hubs } = await startHubs(t)
  const [first, second] = hubs as [Hub, Hub]
  await until(() => leads(first))
  t.equal((await first.client.put('/api/settings', { metrics_token: 'metrics-token-0123456789' })).status, 200)
  const { body } = await first.client.post('/api/tokens', { name: 'reader', role: 'viewer' })
  const reader = createClient(() => second.url, body.token.token ?? body.token)
  await until(async () => (await reader.get('/api/projects')).status === 200)
  const metrics = createClient(() => second.url, 'metrics-token-0123456789')
  t.equal((await metrics.get('/metrics')).status, 200)
  await first.client.delete(`/api/tokens/${body.record?.id ?? body.token.id}`)
  await until(async () => (await reader.get('/api/projects')).status === 401)
  t.pass('a revoked token is refused by every hub')
})
