import t from 'tap'
import { createEtcdClient, endOfPrefix, type WatchEvent } from '../../../lib/cluster/etcd/client.js'
import { EtcdConnection } from '../../../lib/cluster/etcd/connection.js'
import { startEtcd, withoutEtcd } from '../../support/etcd.js'

const skip = withoutEtcd()
const etcd = skip === false ? await startEtcd() : null
const connection = etcd && new EtcdConnection(etcd.options)
const client = createEtcdClient(connection as NonNullable<typeof connection>)
t.teardown(async () => {
  connection?.close()
  await etcd?.close()
})
const bytes = (text: string): Buffer => Buffer.from(text)

t.test('writes, reads and removes keys, in order and with limits', { skip }, async t => {
  const value = Buffer.from([0, 255, 10, 13])
  await client.put('/svc/r/é', value)
  t.same((await client.range({ key: '/svc/r/é' })).keys[0]?.value, value)
  for (const name of ['a', 'b', 'c']) await client.put(`/svc/k/${name}`, bytes(name))
  const all = { key: '/svc/k/', end: endOfPrefix('/svc/k/') }
  const named = async (more: object) => (await client.range({ ...all, ...more })).keys.map(({ key }) => key.slice(-1))
  t.same(await named({}), ['a', 'b', 'c'])
  t.same(await named({ limit: 2 }), ['a', 'b'])
  t.same(await named({ limit: 1, isDescending: true, isKeysOnly: true }), ['c'])
  t.same(await named({ isSerializable: true }), ['a', 'b', 'c'])
  await client.delete('/svc/k/a')
  t.same(await named({}), ['b', 'c'])
  await client.delete(all.key, all.end)
  t.same(await named({}), [])
})

t.test('creates a key only if it does not exist', { skip }, async t => {
  const create = (value: string) =>
    client.transact({
      when: [{ key: '/svc/once', createRevision: 0 }],
      then: [{ put: '/svc/once', value: bytes(value) }],
      otherwise: [{ range: { key: '/svc/once' } }]
    })
  const first = await create('first')
  t.ok(first.succeeded)
  const second = await create('second')
  t.notOk(second.succeeded)
  t.same(second.ranges[0]?.[0], {
    key: '/svc/once',
    value: bytes('first'),
    createRevision: first.revision,
    modRevision: first.revision
  })
})

t.test('removes a key with its lease', { skip }, async t => {
  const lease = await client.grantLease(100)
  await client.transact({ when: [], then: [{ put: '/svc/leased', value: bytes('x'), lease }] })
  t.equal(await client.renewLease(lease), 100)
  await client.revokeLease(lease)
  t.equal((await client.range({ key: '/svc/leased' })).keys.length, 0)
  t.equal(await client.renewLease(lease), 0)
})

t.test('reports changes from a revision on, and says if it was compacted', { skip }, async t => {
  const { revision } = await client.range({ key: '/svc/w/' })
  await client.put('/svc/w/a', bytes('1'))
  await client.put('/svc/v', bytes('not watched'))
  await client.delete('/svc/w/a')
  const stop = new AbortController()
  const seen: WatchEvent[] = []
  const request = { key: '/svc/w/', end: endOfPrefix('/svc/w/'), from: revision + 1 }
  await client
    .watch(request, { signal: stop.signal, take: events => void (seen.push(...events) === 2 && stop.abort()) })
    .catch(error => t.equal((error as Error).name, 'AbortError'))
  t.match(seen, [
    { key: '/svc/w/a', isDeleted: false, value: bytes('1') },
    { key: '/svc/w/a', isDeleted: true }
  ])
  await client.compact(revision + 3)
  const { signal } = new AbortController()
  await t.rejects(client.watch(request, { signal, take: () => {} }), { code: 11 })
  await t.rejects(client.compact(revision + 1), { code: 11 })
  t.ok((await client.usedBytes()) > 0)
})
