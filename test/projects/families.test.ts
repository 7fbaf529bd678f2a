import t from 'tap'
import type { Family } from '../../lib/model/family.js'
import { enrolledAgent } from '../support/fake-agent.js'
import { startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'

async function push(stage: Stage, { id, token }: { id: string; token: string }, text: string): Promise<string> {
  const bytes = await zipOf({ 'index.html': text })
  const { headers } = await stage.as(token).upload([
    ['projectId', id],
    ['message', `Release ${text}`],
    ['file', { filename: 'a.zip', bytes }]
  ])
  return String(headers['x-svc-deploy-id'])
}

const read = async (client: Stage['client']): Promise<Family[]> => (await client.get('/api/families')).body.families

t.test('families say which release is where, how far apart, and where it goes next', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const test = await stage.createProject('shop-test')
  const dev = await stage.createProject('shop-dev', { env: 'development' })
  await stage.createProject('alone')
  for (const text of ['1', '2', '3']) await push(stage, dev, text)
  await push(stage, test, '3')
  const old = await push(stage, shop, '1')
  const [family, ...others] = await read(stage.client)
  t.same(others, [])
  t.match(family, {
    name: 'shop',
    members: [
      { projectName: 'shop-dev', env: 'development', distance: null, nodes: null, promotesTo: [test.id] },
      { projectName: 'shop-test', env: 'test', distance: { isSame: true, releases: 0 }, promotesTo: [shop.id] },
      { projectName: 'shop', env: 'production', distance: { isSame: false, releases: 2 }, promotesTo: [] }
    ]
  })
  t.match(family?.members[2]?.release, { id: old, message: 'Release 1', isPromotable: true })

  const given = { name: 'seer', role: 'viewer', projectIds: [shop.id] }
  const { token } = (await stage.client.post('/api/tokens', given)).body
  t.same(await read(stage.as(token)), [], 'a token sees families of its own projects only')

  const hub = await stage.server.services.fleet.hub()
  const agents = [await enrolledAgent({ url: stage.url, hub }, 'a'), await enrolledAgent({ url: stage.url, hub }, 'b')]
  await stage.client.patch(`/api/projects/${shop.id}/placements`, { add: agents.map(({ nodeId: node }) => ({ node })) })
  t.match((await read(stage.client))[0]?.members[2], { release: null, nodes: { have: 0, all: 2 } })
  const { treeSha256 } = (await stage.client.get(`/api/logs/${old}`)).body
  const placement = { projectId: shop.id, liveDeployId: old, liveTree: treeSha256, isDrifted: false }
  await agents[0]?.report({ placements: [placement] })
  t.match((await read(stage.client))[0]?.members[2], { release: { id: old }, nodes: { have: 1, all: 2 } })
})
