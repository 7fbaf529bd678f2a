import t from 'tap'
import { chmodSync, existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  hubKeyName,
  newClusterKey,
  openHubKey,
  parseClusterKey,
  readClusterFile,
  readClusterKeys,
  writeClusterFile,
  writeClusterKeys
} from '../../../lib/base/config/cluster-file.js'
import { isHub, refuseHub } from '../../../lib/base/config/home.js'

const file = {
  cluster: 'svc',
  hub: { name: 'h1', url: 'http://h1' },
  etcd: { endpoints: ['http://e1'], caFile: null, certFile: null, keyFile: null, user: null, passwordFile: null },
  hubCaFile: null,
  hasNode: true
}

t.test('cluster.json marks the directory of a hub', async t => {
  const directory = t.testdir()
  t.equal(await readClusterFile(directory), null)
  refuseHub(directory)
  await writeClusterFile(directory, file)
  t.strictSame(await readClusterFile(directory), file)
  t.ok(isHub(directory))
  t.throws(() => refuseHub(directory), { code: 'is_hub' })
  writeFileSync(join(directory, 'cluster.json'), '{')
  await t.rejects(readClusterFile(directory), { code: 'broken_config' })
})

t.test('cluster.key is for its owner only', async t => {
  const directory = t.testdir()
  const path = join(directory, 'cluster.key')
  const key = newClusterKey()
  await writeClusterKeys(directory, [key])
  t.equal(statSync(path).mode & 0o777, 0o600)
  chmodSync(path, 0o644)
  t.strictSame(await readClusterKeys(path), [key])
  t.equal(statSync(path).mode & 0o777, 0o600, 'the access of others is removed')
  writeFileSync(path, 'no key')
  await t.rejects(readClusterKeys(path), { code: 'cluster_key' })
  await t.rejects(readClusterKeys(join(directory, 'missing')), { code: 'cluster_key' })
  t.equal(parseClusterKey('ab'), null)
})

t.test('the key of a hub is in its data directory, and a damaged one is refused', async t => {
  const directory = t.testdir()
  const { publicKey } = await openHubKey(directory)
  t.ok(existsSync(join(directory, 'keys', hubKeyName)))
  t.equal((await openHubKey(directory)).publicKey, publicKey)
  const other = t.testdir({})
  mkdirSync(join(other, 'keys'), { recursive: true })
  writeFileSync(join(other, 'keys', hubKeyName), '')
  await t.rejects(openHubKey(other), { code: 'hub_key', message: /Restore it from a backup/ })
})
