import t from 'tap'
import { forwardKeyOf } from '../../../lib/http/outgoing/forwarded.js'
import { createHubClient } from '../../../lib/http/outgoing/hub-request.js'
import { startHubs, testKey, type Hub } from '../../support/hubs.js'

t.test('a hub gets a copy of the database, and nobody else does', async t => {
  const { hubs } = await startHubs(t)
  const [first, second] = hubs as [Hub, Hub]
  const client = createHubClient({ key: forwardKeyOf(testKey), hub: 'h3' })
  const { signal } = new AbortController()
  for (const { url } of [first, second]) {
    const chunks: Buffer[] = []
    for await (const chunk of await client.ask(url, { method: 'GET', target: '/api/hub/image', signal })) {
      chunks.push(chunk as Buffer)
    }
    t.equal(Buffer.concat(chunks).toString('latin1', 0, 15), 'SQLite format 3')
  }
  const stranger = createHubClient({ key: forwardKeyOf(Buffer.alloc(32)), hub: 'h3' })
  await t.rejects(stranger.ask(first.url, { method: 'GET', target: '/api/hub/image', signal }), { code: 'not_found' })
})
