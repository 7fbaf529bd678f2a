import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { json } from 'node:stream/consumers'
import t from 'tap'
import { apiRoutes } from '../../lib/api/routes.js'
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

/** Sends a path as it is: clients of URLs resolve "..", and "%2e%2e". */
async function getRaw(url: string, path: string, token: string) {
  const { hostname, port } = new URL(url)
  const sent = request({ hostname, port, path, headers: { authorization: `Bearer ${token}` } }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  return { status: answer.statusCode, body: await json(answer) }
}

t.test('no row is reached that is not relayed, however its path is written', async t => {
  const { stage, shop } = await startFleet(t, ['plant'])
  const at = '/api/nodes/plant/at'
  const get = (path: string) => getRaw(stage.url, path, stage.server.adminToken.current())
  const rows = apiRoutes(stage.server.services.api).filter(
    ({ method, path }) => method === 'GET' && /^\/api\//.test(path)
  )
  for (const { path, isRelayed } of rows) {
    if (isRelayed) continue
    const below = path.slice('/api/'.length).replace(/[:*]\w+/g, 'x')
    t.match(await get(`${at}/${below}`), { status: 404, body: { code: 'not_relayed' } }, path)
  }
  const unreadable = [
    'projects/%00',
    '%2e%2e/settings',
    '..%2Fsettings/%2e%2e',
    'projects/%2E%2E/settings',
    'projects/%ff',
    'projects/../settings'
  ]
  for (const path of unreadable)
    t.match(await get(`${at}/${path}`), { status: 400, body: { code: 'invalid_path' } }, path)
  // A slash in a segment, an escape that is escaped again, and empty segments are no way to another row.
  const others = [
    `projects%2F${shop.id}`,
    `projects%2F${shop.id}%2Ffiles`,
    '..%2Fsettings',
    '%252e%252e/settings',
    'projects%252Fx',
    '/settings',
    '',
    'settings%20',
    'projects//files'
  ]
  for (const path of others) t.match(await get(`${at}/${path}`), { status: 404, body: { code: 'not_relayed' } }, path)
  t.match(
    await get('/api/nodes/plant%2Fat%2Fprojects/at/settings'),
    { status: 404, body: { code: 'not_relayed' } },
    'the name of a node does not begin the path'
  )
  t.match(await get('/api/nodes/plant%2Fat%2Fsettings/at/projects'), {
    status: 404,
    body: { code: 'not_found' }
  })
})
