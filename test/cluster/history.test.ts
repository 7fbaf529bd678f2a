import t from 'tap'
import { randomBytes } from 'node:crypto'
import { createEtcdClient, endOfPrefix } from '../../lib/cluster/etcd/client.js'
import { EtcdConnection, EtcdError } from '../../lib/cluster/etcd/connection.js'
import {
  beginHistory,
  newHistoryId,
  openHistory,
  readHistory,
  rekeyLog,
  sealHistory
} from '../../lib/cluster/history.js'
import { createSealing, keysOf } from '../../lib/cluster/sealing.js'
import { anEtcd, startEtcd, withoutEtcd } from '../support/etcd.js'
import { createHubList } from '../../lib/cluster/hub-list.js'
import { encodeLine, UnknownOutcome } from '../../lib/core/store/redo.js'
import type { ReplicatedStore } from '../../lib/cluster/replicated-store.js'
import { readSettings } from '../../lib/core/store/tables/server.js'
import { ownHub } from '../support/hub-keys.js'
import { soon, until } from '../support/until.js'
import { hubsOn, put } from './hubs.js'
import { aLog } from './stage.js'

t.test('a log begins once', { skip: withoutEtcd() }, async t => {
  const etcd = await anEtcd(t, { tls: false, auth: false })
  const connection = new EtcdConnection(etcd.options)
  t.teardown(() => connection.close())
  const needs = { client: createEtcdClient(connection), keys: keysOf('a'), sealing: createSealing(randomBytes(32)) }
  t.equal(await readHistory(needs), null)
  const history = { id: newHistoryId(), after: 12 }
  t.equal(await beginHistory(needs, history), true)
  t.equal(await beginHistory(needs, history), true, 'a request that is carried out twice is not another log')
  t.equal(await beginHistory(needs, { id: newHistoryId(), after: 0 }), false)
  t.same(await readHistory(needs), history)
  await t.rejects(readHistory({ ...needs, sealing: createSealing(randomBytes(32)) }), { code: 'cluster_sealed' })
})

t.test('a history that was moved to another cluster is refused', async t => {
  const sealing = createSealing(randomBytes(32))
  const value = sealHistory({ id: 'x', after: 1 }, { keys: keysOf('a'), sealing })
  t.throws(() => openHistory(value, { keys: keysOf('b'), sealing }), { code: 'cluster_sealed' })
  t.not(newHistoryId(), newHistoryId())
})

/* The hostile peer is a hub that was removed: it has the old key, and can read and write in etcd. */

const skip = withoutEtcd()
const etcd = skip === false ? await startEtcd() : null
t.teardown(() => etcd?.close())
/** No hub loses its lease because the machine is slow. */
const limits = { probeMs: 200, leaseSeconds: 60 }
const options = () => (etcd as NonNullable<typeof etcd>).options

async function rekey(leader: ReplicatedStore, others: readonly ReplicatedStore[]): Promise<Buffer> {
  const key = randomBytes(32)
  for (const hub of [leader, ...others]) await hub.expectKey(key)
  await leader.rekey(key, await leader.hubs())
  return key
}

t.test('a removed hub reads and writes nothing more, and the others go on', { skip }, async t => {
  const stage = hubsOn(t, options())
  const kept: Record<string, readonly Buffer[]> = {}
  const keeping = (name: string) => ({
    limits,
    async keepKeys(keys: readonly Buffer[]) {
      kept[name] = keys
    }
  })
  const first = await stage.open('h1', keeping('h1'))
  await stage.leader()
  const second = await stage.open('h2', keeping('h2'))
  const removed = await stage.open('h3', { limits })
  await put(first, 'a', 'x'.repeat(2_000_000))
  await removed.reached(first.sequence(), soon())
  const connection = new EtcdConnection(options())
  t.teardown(() => connection.close())
  const client = createEtcdClient(connection)
  const keys = keysOf(stage.cluster)
  const everything = async () =>
    (await client.range({ key: `/svc/${stage.cluster}/`, end: endOfPrefix(`/svc/${stage.cluster}/`) })).keys
  const before = await everything()

  await first.forgetHub('h3')
  await until(() => removed.role().reason === 'hub_removed')
  const key = await rekey(first, [second])
  await put(first, 'a', 'secret of after')
  await second.reached(first.sequence(), soon())
  t.equal(readSettings(second)['a'], 'secret of after')
  await until(() => kept['h2']?.length === 1 && kept['h2'][0]?.equals(key), { what: 'the new key of h2 alone' })
  t.same(kept['h1'], [key])

  // It reads nothing.
  const old = createSealing(stage.clusterKey)
  const history = second.peers.find('h1') === null ? '' : (await historyOf(client, keys, key)).id
  for (const { key: at, value } of await everything()) {
    const number = /\/(?:log|part)\/(\d+)/.exec(at)?.[1]
    const place = { key: at, history: at === keys.history ? '' : history, number: Number(number ?? 0) }
    t.throws(() => old.open(value, place), { code: 'cluster_sealed' }, at)
  }
  await t.rejects(stage.open('h4', { limits, begin: false }), { code: 'cluster_sealed' }, 'and opens no store')

  // It enters nobody into the list.
  const evil = { ...ownHub({ name: 'h3', url: 'http://evil.test' }), applied: 0, seenAt: null, schema: 1 }
  const asRemoved = { client, keys, sealing: old, history }
  await createHubList(asRemoved).register(evil)
  await createHubList(asRemoved).register({ ...evil, name: 'h2' })
  await put(first, 'b', '1')
  await second.reached(first.sequence(), soon())
  t.equal(first.peers.find('h3'), null)
  t.not(first.peers.find('h2')?.url, 'http://evil.test', 'nor instead of another hub')
  await until(() => first.peers.find('h2')?.url === 'http://h2.test', { what: 'the entry of h2 again' })

  // It writes no line, also not one of before the key was replaced.
  const at = first.sequence()
  const line = old.seal(encodeLine(at + 1, [JSON.stringify([["INSERT INTO settings VALUES ('evil', 'x')"]])]), {
    key: keys.line(at + 1),
    history,
    number: at + 1
  })
  const earlier = before.find(({ key: place }) => place.startsWith(keys.log))?.value as Buffer
  for (const value of [line, earlier]) {
    await client.put(keys.line(at + 1), value)
    await until(() => second.role().reason === 'cluster_sealed', { what: 'the refusal of the line' })
    t.equal(readSettings(second)['evil'], undefined)
    await client.delete(keys.line(at + 1))
    await until(() => second.role().problem === null, { what: 'no problem any more' })
  }
  for (const name of [keys.history, keys.leader]) {
    const now = (await client.range({ key: name })).keys[0]?.value as Buffer
    await client.put(name, before.find(({ key: place }) => place === name)?.value as Buffer)
    await until(() => second.role().reason === 'cluster_sealed' || name === keys.history)
    t.equal(first.peers.find('h3'), null)
    await client.put(name, now)
    await until(() => second.role().problem === null)
  }
})

async function historyOf(client: ReturnType<typeof createEtcdClient>, keys: ReturnType<typeof keysOf>, key: Buffer) {
  const { keys: found } = await client.range({ key: keys.history })
  const plain = createSealing(key).open(found[0]?.value as Buffer, { key: keys.history, history: '' })
  return JSON.parse(plain.toString()) as { id: string }
}

t.test('a hub that did not run at that moment starts with the key that it was given', { skip }, async t => {
  const stage = hubsOn(t, options())
  const first = await stage.open('h1', { limits })
  await stage.leader()
  const second = await stage.open('h2', { limits })
  await put(first, 'a', '1')
  const key = randomBytes(32)
  for (const hub of [first, second]) await hub.expectKey(key)
  const holders = await first.hubs()
  await second.close()
  stage.hubs.delete('h2')
  await put(first, 'a', '2')
  await first.rekey(key, holders)
  await put(first, 'a', '3')
  const kept: Buffer[][] = []
  const again = await stage.open('h2', {
    limits,
    nextKeys: [randomBytes(32), key],
    keepKeys: async keys => void kept.push([...keys])
  })
  t.equal(readSettings(again)['a'], '3', 'it lacked a line, so it took the database of the other hub')
  await until(() => kept.length > 0)
  t.same(kept.at(-1), [key], 'the earlier keys are gone')
  await first.close()
  stage.hubs.delete('h1')
  await until(() => again.role().kind === 'leader', { what: 'it leads' })
  await put(again, 'a', '4')
})

t.test('a hub gets no new key that another hub took its place for, and writes go on', { skip }, async t => {
  const stage = hubsOn(t, options())
  const first = await stage.open('h1', { limits })
  await stage.leader()
  const holders = await first.hubs()
  const key = randomBytes(32)
  await first.expectKey(key)
  const other = holders.map(hub => ({ ...hub, url: 'http://evil.test' }))
  await t.rejects(first.rekey(key, other), { code: 'hubs_changed' })
  await put(first, 'a', '1')
  t.equal(first.role().kind, 'leader')
  await Promise.all([first.rekey(key, holders), ...Array.from({ length: 30 }, (_, at) => put(first, 'a', String(at)))])
  t.equal(readSettings(first)['a'], '29')
})

t.test('an answer that is lost, and one that never comes', { skip }, async t => {
  const stage = await aLog(options())
  t.teardown(() => stage.close())
  const { client, keys, sealing, history } = stage
  const outside = { client, keys, sealing, history: history.id }
  const revision = await stage.lead()
  await client.put(keys.leader, sealing.seal(Buffer.from('{}'), { key: keys.leader, history: history.id }))
  const leader = (await client.range({ key: keys.leader })).keys[0]?.createRevision as number
  t.equal(leader, revision)
  const end = (await client.range({ key: keys.history })).keys[0] as { key: string; modRevision: number }
  const given = { holders: [], revision, end, after: 0 }
  const { transact } = client
  const lose = (isCarriedOut: boolean) => {
    client.transact = async (transaction, limits) => {
      if (transaction.when.length === 0) return transact(transaction, limits)
      if (isCarriedOut) await transact(transaction, limits)
      throw new EtcdError(13, 'internal error')
    }
  }
  lose(false)
  const [one, two] = [randomBytes(32), randomBytes(32)]
  await t.rejects(rekeyLog(outside, { ...given, key: one }), UnknownOutcome)
  t.notOk(sealing.keys[0]?.equals(one))
  client.transact = async (transaction, limits) => {
    if (transaction.when.length > 0) limits?.onUnanswered?.()
    return transact(transaction, limits)
  }
  const other = { ...end, modRevision: end.modRevision + 1 }
  await t.rejects(rekeyLog(outside, { ...given, end: other, key: one }), UnknownOutcome, 'etcd may have gone back')
  lose(true)
  await rekeyLog(outside, { ...given, key: two })
  t.same(sealing.keys, [two])
})
