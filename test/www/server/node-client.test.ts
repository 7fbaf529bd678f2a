import t from 'tap'
import type { Client } from '../../../www/server/client.js'
import { createNodeClient, pathOnHub } from '../../../www/server/node-client.js'

t.test('the pages of a node are asked for on the hub', async t => {
  for (const [path, onHub] of [
    ['api/projects', 'api/nodes/node_1/at/projects'],
    ['api/logs?limit=5', 'api/nodes/node_1/at/logs?limit=5'],
    ['api/terminal/ws?cols=80', 'api/nodes/node_1/terminal?cols=80'],
    ['api/terminal/available', 'api/nodes/node_1/at/terminal/available'],
    ['api/auth/session', 'api/auth/session'],
    ['api/tickets', 'api/tickets'],
    ['api/authors', 'api/nodes/node_1/at/authors'],
    ['projects/proj_a', 'projects/proj_a']
  ] as const) {
    t.equal(pathOnHub('node_1', path), onHub)
  }
  t.equal(pathOnHub('a/b', 'api/projects'), 'api/nodes/a%2Fb/at/projects')
})

t.test('a client of a node keeps what belongs to the session', async t => {
  const asked: string[] = []
  const hub = {
    address: (path: string) => `http://hub/${path}`,
    ask: async (_: string, path: string) => void asked.push(path),
    send: async (_: string, path: string) => {
      asked.push(path)
      return new Response()
    },
    changeHeaders: async () => ({ 'x-svc-csrf': 'the-csrf' }),
    ensureProven: async () => void asked.push('proof')
  } as unknown as Client
  const node = createNodeClient(hub, 'node_1')
  await node.ask('GET', 'api/projects')
  await node.send('GET', 'api/log-sources/x/stream')
  await node.call('GET /api/pm2/apps')
  await node.ensureProven()
  const [first, second] = ['api/nodes/node_1/at/projects', 'api/nodes/node_1/at/log-sources/x/stream']
  t.same(asked, [first, second, 'api/nodes/node_1/at/pm2/apps', 'proof'])
  t.equal(node.address('api/projects/p/download'), 'http://hub/api/nodes/node_1/at/projects/p/download')
  t.same(await node.changeHeaders(), { 'x-svc-csrf': 'the-csrf' })
})
