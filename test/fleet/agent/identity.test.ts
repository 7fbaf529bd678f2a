import t from 'tap'
import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  addressesOf,
  identityPath,
  openAgentKey,
  readIdentity,
  writeIdentity
} from '../../../lib/fleet/agent/identity.js'

const identity = { hubs: ['https://a'], nodeId: 'node_1', name: 'plant', hubKey: 'key' }

t.test('an identity is kept for its owner only', async t => {
  const home = t.testdir()
  t.equal(await readIdentity(home), null)
  await writeIdentity(home, identity)
  t.strictSame(await readIdentity(home), identity)
  t.equal(statSync(identityPath(home)).mode & 0o777, 0o600)
})

t.test('a file that is no identity is refused', async t => {
  const home = t.testdir()
  for (const text of ['{', 'null', '{"hubs":[]}', JSON.stringify({ ...identity, hubs: [] })]) {
    writeFileSync(identityPath(home), text)
    await t.rejects(readIdentity(home), { code: 'agent_identity', message: /agent\.json/ })
  }
})

t.test('the key is created once', async t => {
  const home = t.testdir()
  const { publicKey, key } = await openAgentKey(home)
  t.equal(Buffer.from(publicKey, 'base64').length, 32)
  t.equal(key.asymmetricKeyType, 'ed25519')
  t.equal((await openAgentKey(home)).publicKey, publicKey)
  writeFileSync(join(home, 'keys/agent.ed25519'), 'nothing')
  await t.rejects(openAgentKey(home), { code: 'agent_identity' })
})

t.test('the addresses are those that were given, then those that the hub named', async t => {
  t.strictSame(addressesOf({ ...identity, named: ['https://b', 'https://a'] }), ['https://a', 'https://b'])
})
