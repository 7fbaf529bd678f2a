import t from 'tap'
import { systemClock } from '../../../lib/base/clock.js'
import { openHubIdentity } from '../../../lib/server/cluster/hub-identity.js'

t.test('a hub keeps its key, and each start is another one', async t => {
  const directory = t.testdir()
  const options = { hub: { name: 'h1', url: 'http://h1' }, key: Buffer.alloc(32) }
  const first = await openHubIdentity(directory, options, systemClock)
  const second = await openHubIdentity(directory, options, systemClock)
  t.equal(second.hub.publicKey, first.hub.publicKey)
  t.not(second.hub.boot, first.hub.boot)
})
