import t from 'tap'
import { createHubList } from '../../lib/cluster/hub-list.js'
import { anEtcd, startEtcd, withoutEtcd } from '../support/etcd.js'
import { ownHub } from '../support/hub-keys.js'
import { EtcdConnection } from '../../lib/cluster/etcd/connection.js'
import { createEtcdClient } from '../../lib/cluster/etcd/client.js'
import { readHistory } from '../../lib/cluster/history.js'
import { createSealing, keysOf } from '../../lib/cluster/sealing.js'
import { until } from '../support/until.js'
import { aLog } from './stage.js'
import { hubsOn, type HubStage, put } from './hubs.js'

t.test('lists what each hub last said, by name', { skip: withoutEtcd() }, async t => {
  const stage = await aLog((await anEtcd(t)).options)
  t.teardown(() => stage.close())
  const list = createHubList({ ...stage, history: stage.history.id })
  const hub = (name: string, applied: number) => {
    return { ...ownHub({ name, url: `https://${name}` }), applied, seenAt: null, schema: 11 }
  }
  await list.register(hub('b', 1))
  await list.register(hub('a', 5))
  const { keys: found } = await stage.client.range({ key: stage.keys.hub('b') })
  const [entry] = list.read(found)
  t.equal(await list.announce(hub('b', 2), entry?.createRevision as number), true)
  t.same(await list.list(), [hub('a', 5), hub('b', 2)])
  await list.forget('a')
  t.same(await list.list(), [hub('b', 2)])
  t.equal(await list.announce(hub('a', 6), 1), false, 'a hub that was removed does not come back by itself')
  const others = createHubList({ ...stage, history: 'another log' })
  t.same(await others.list(), [], 'of another log')
})

const skip = withoutEtcd()
const etcd = skip === false ? await startEtcd() : null
t.teardown(() => etcd?.close())
const options = () => (etcd as NonNullable<typeof etcd>).options
const limits = { probeMs: 200 }

/** The list of hubs, as who has the key of the cluster and access to etcd can write it. */
async function listOf(t: Parameters<typeof hubsOn>[0], { cluster, clusterKey }: HubStage) {
  const connection = new EtcdConnection(options())
  t.teardown(() => connection.close())
  const outside = { client: createEtcdClient(connection), keys: keysOf(cluster), sealing: createSealing(clusterKey) }
  const history = (await readHistory(outside))?.id as string
  return { ...outside, list: createHubList({ ...outside, history }) }
}

t.test('a hub that is removed is unknown at once, follows no more, and does not come back', { skip }, async t => {
  const stage = hubsOn(t, options())
  const first = await stage.open('h1', { limits })
  await stage.leader()
  const second = await stage.open('h2', { limits })
  await put(first, 'a', '1')
  await until(() => second.sequence() === first.sequence())
  t.match(first.peers.find('h2'), ownHub({ name: 'h2', url: 'http://h2.test' }))
  await first.forgetHub('h2')
  await until(() => first.peers.find('h2') === null)
  await until(() => second.role().problem !== null)
  t.match(second.role(), { kind: 'alone', leader: null, problem: /not a hub of the cluster.*svc cluster join/ })
  const before = second.sequence()
  await put(first, 'b', '2')
  await first.resign()
  await until(() => first.role().kind === 'leader')
  t.equal(second.sequence(), before, 'it neither follows nor leads')
  await second.close()
  stage.hubs.delete('h2')
  await t.rejects(stage.open('h2', { limits }), { code: 'hub_removed', message: /svc cluster forget/ })
  t.same(
    (await first.hubs()).map(({ name }) => name),
    ['h1']
  )
})

t.test('a hub of an older svc publishes its key at its next start', { skip }, async t => {
  const stage = hubsOn(t, options())
  const first = await stage.open('h1', { limits })
  await stage.leader()
  const second = await stage.open('h2', { limits })
  await second.close()
  stage.hubs.delete('h2')
  const { list } = await listOf(t, stage)
  const old = { name: 'h2', url: 'http://h2.test', applied: 0, seenAt: null, schema: 1 }
  await list.register(old as never)
  await until(() => first.peers.find('h2')?.publicKey === null)
  await stage.open('h2', { limits })
  await until(() => first.peers.find('h2')?.publicKey === ownHub(old).publicKey)
})

t.test('another machine with the name of a hub takes its place', { skip }, async t => {
  const stage = hubsOn(t, options())
  await stage.open('h1', { limits })
  await stage.leader()
  const second = await stage.open('h2', { limits })
  const { list } = await listOf(t, stage)
  const { publicKey } = ownHub({ name: 'another', url: '' })
  const other = { ...ownHub({ name: 'h2', url: 'http://h3.test' }), publicKey, applied: 0, seenAt: null, schema: 1 }
  await list.register(other)
  await until(() => second.role().problem !== null)
  t.match(second.role(), { kind: 'alone', problem: /Another machine is the hub "h2"/ })
})

t.test('an entry that nobody can have written is nobody’s, and its hub writes it again', { skip }, async t => {
  const stage = hubsOn(t, options())
  const first = await stage.open('h1', { limits })
  await stage.leader()
  const second = await stage.open('h2', { limits })
  const { list, client, keys } = await listOf(t, stage)
  await client.put(keys.hub('h2'), Buffer.from('garbage'))
  for (const [name, more] of [
    ['h4', { url: 'file:///etc/passwd' }],
    ['h5', { applied: -1 }],
    ['h6', { publicKey: 'AAAA' }],
    ['h7', { seenAt: 'yesterday' }]
  ] as const) {
    await list.register({ ...ownHub({ name, url: 'http://a.test' }), applied: 0, seenAt: null, schema: 1, ...more })
  }
  await put(first, 'a', '1')
  t.same(
    (await first.hubs()).map(({ name }) => name).filter(name => name > 'h2'),
    []
  )
  await until(() => first.peers.find('h2') !== null, { what: 'the entry of h2 again' })
  t.equal(second.role().problem, null)
})
