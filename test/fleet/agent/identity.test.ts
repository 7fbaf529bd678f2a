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

t.test('addresses without TLS that a hub names are used if that is allowed, or they are on this machine', async t => {
  const named = ['http://b', 'http://127.9.9.9:1', 'http://[::1]:2', 'http://localhost:3', 'http://127.0.0.1.example']
  const local = named.slice(1, 4)
  t.strictSame(addressesOf({ ...identity, named }), ['https://a', ...local])
  t.strictSame(addressesOf({ ...identity, named, allowHttp: true }), ['https://a', ...named])
  t.strictSame(addressesOf({ ...identity, hubs: ['http://a'], named }), ['http://a', ...named], 'of an earlier version')
  t.strictSame(addressesOf({ ...identity, hubs: ['http://a'], named, allowHttp: false }), ['http://a', ...local])
})
