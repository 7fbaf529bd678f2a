import t from 'tap'
import { startFleet } from '../support/fleet-on-server.js'

t.test('only marked rows are relayed, by the rules of the hub', async t => {
  const { stage, shop } = await startFleet(t, ['plant'])
  const at = '/api/nodes/plant/at'
  for (const path of ['settings', 'tokens', 'backup', 'agent/desired', 'nodes', 'nothing'])
    t.match(await stage.client.get(`${at}/${path}`), { status: 404, body: { code: 'not_relayed' } }, path)
  const other = await stage.createProject('other')
  t.match(await stage.as(other.token).get(`${at}/logs`), { status: 404 }, 'a node without its project')
  t.match(await stage.as(shop.token).get(`${at}/system/resources`), { status: 403 })
  t.match(await stage.as(null).get(`${at}/logs`), { status: 401 })
  const { ticket } = (await stage.client.post('/api/tickets', { purpose: 'download' })).body as { ticket: string }
  t.match(await stage.as(null).get(`${at}/logs?ticket=${ticket}`), { status: 401 }, 'a ticket is for downloads')
})
