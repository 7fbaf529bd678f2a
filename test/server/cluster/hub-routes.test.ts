import t from 'tap'
import { systemClock } from '../../../lib/base/clock.js'
import { createHubClient } from '../../../lib/http/outgoing/hub-request.js'
import { openHubIdentity } from '../../../lib/server/cluster/options.js'
import { ownHub, signerOf } from '../../support/hub-keys.js'
import { startHubs, testKey, type Hub } from '../../support/hubs.js'

const image = { method: 'GET', target: '/api/hub/image', signal: new AbortController().signal } as const

t.test('a hub gets a copy of the database, and nobody else does', async t => {
  const { hubs, cluster } = await startHubs(t)
  const [first, second] = hubs as [Hub, Hub]
  const { signer } = await openHubIdentity(second.directory, { hub: second, key: testKey }, systemClock)
  const asSecond = createHubClient({ signer, allowsHttp: false })
  const chunks: Buffer[] = []
  for await (const chunk of await asSecond.ask(cluster.peer('h1'), image)) chunks.push(chunk as Buffer)
  t.equal(Buffer.concat(chunks).toString('latin1', 0, 15), 'SQLite format 3')

  const refused = { code: 'hub_refused' }
  const asStranger = createHubClient({ signer: signerOf('h2'), allowsHttp: false })
  await t.rejects(asStranger.ask(cluster.peer('h1'), image), refused, 'the name of a hub with another key')
  const meant = { ...cluster.peer('h1'), boot: ownHub(first).boot }
  await t.rejects(asSecond.ask(meant, image), { code: 'hub_out_of_step' }, 'meant for another start')
  const old = { ...cluster.peer('h1'), publicKey: null }
  await t.rejects(asSecond.ask(old, image), { code: 'hub_refused', message: /older svc/ }, 'the key of the cluster')

  cluster.forget('h2')
  await t.rejects(asSecond.ask(cluster.peer('h1'), image), refused, 'a hub that was removed')
  const passedOn = await second.client.post('/api/tags', { name: 'a', color: 'blue' })
  t.match(passedOn, { status: 403, body: { code: 'hub_refused' } }, 'it passes nothing on')
})

t.test('the local operator of a follower is believed on its own machine only', async t => {
  const { hubs } = await startHubs(t)
  const [leader, follower] = hubs as [Hub, Hub]
  const { createClient } = await import('../../../lib/cli/client/client.js')
  const socketPath = follower.server.localSocket as string
  const local = createClient({ serverUrl: 'http://localhost', socketPath, token: null, env: {} })
  const reset = {
    method: 'POST',
    path: '/api/auth/reset',
    json: { newToken: 'A-new-token-0123456789-abcdef' }
  } as const
  await t.rejects(local.json(reset), { message: /Run the command on the machine of "h1"/ })
  await local.json({ method: 'POST', path: '/api/tags', json: { name: 'local', color: 'blue' } })
  const { body } = await leader.client.get('/api/audit?action=tag.create')
  t.match(body, { items: [{ actor: 'admin', ip: '127.0.0.1' }] }, 'for the leader it is the holder of the admin token')
})
