import t from 'tap'
import { createEtcdClient, endOfPrefix } from '../../lib/cluster/etcd/client.js'
import { EtcdConnection } from '../../lib/cluster/etcd/connection.js'
import { startEtcd, withoutEtcd } from '../support/etcd.js'
import { soon, until } from '../support/until.js'
import { contentOf, hubsOn, put } from './hubs.js'

const skip = withoutEtcd()
const etcd = skip === false ? await startEtcd() : null
t.teardown(() => etcd?.close())
const options = () => (etcd as NonNullable<typeof etcd>).options
const limits = { keptWrites: 10, keptForAbsent: 40, trimMs: 100, probeMs: 200 }

async function linesIn(): Promise<number[]> {
  const connection = new EtcdConnection(options())
  const { keys } = await createEtcdClient(connection).range({
    key: '/svc/',
    end: endOfPrefix('/svc/'),
    isKeysOnly: true
  })
  connection.close()
  return keys.flatMap(({ key }) => (/\/log\/\d+$/.test(key) ? [Number(key.split('/').at(-1))] : []))
}

t.test('the log is trimmed as far as no hub needs it; one that was away too long takes an image', { skip }, async t => {
  const stage = hubsOn(t, options())
  const first = await stage.open('h1', { limits })
  await stage.leader()
  const second = await stage.open('h2', { limits })
  for (let n = 0; n < 100; n++) await put(first, `k${n}`, String(n))
  await second.reached(first.sequence(), soon())
  // The second hub says how far it is; then the log is trimmed to ten lines.
  await second.close()
  stage.hubs.delete('h2')
  await until(async () => (await linesIn()).length <= 60, { what: 'a shorter log' })
  for (let n = 0; n < 100; n++) await put(first, `l${n}`, String(n))
  await until(async () => Math.min(...(await linesIn())) > first.sequence() - 60, {
    what: 'a log without the absent hub'
  })
  t.ok((await linesIn()).length >= 10)
  let images = 0
  const again = await stage.open('h2', {
    limits,
    async fetchImage() {
      images++
      const image = await first.image()
      return (async function* () {
        yield* image.pieces
      })()
    }
  })
  t.equal(images, 1)
  await put(first, 'after', '1')
  await again.reached(first.sequence(), soon())
  t.same(contentOf(again), contentOf(first))
})

t.test('a hub says how far it is, and its list can forget it', { skip }, async t => {
  const stage = hubsOn(t, options())
  const first = await stage.open('h1', { limits })
  await stage.leader()
  await put(first, 'a', '1')
  await until(async () => (await first.hubs()).find(({ applied }) => applied === first.sequence()))
  const [hub] = await first.hubs()
  t.match(hub, { name: 'h1', url: 'http://h1.test', seenAt: /^\d{4}-\d\d-\d\dT/ })
  await first.forgetHub('h1')
  t.same(await first.hubs(), [])
})

t.test('a leader that writes nothing notices that its last lines are gone from etcd', { skip }, async t => {
  const stage = hubsOn(t, options())
  const first = await stage.open('h1', { limits: { ...limits, trimMs: 600_000 } })
  await stage.leader()
  for (const value of ['1', '2', '3']) await put(first, 'a', value)
  // What a restore of a snapshot leaves that has the key of the leader, too.
  const base64 = (text: string): string => Buffer.from(text).toString('base64')
  const line = `/svc/${stage.cluster}/log/${String(first.sequence()).padStart(16, '0')}`
  const answer = await etcd?.ask('/v3/kv/deleterange', { key: base64(line) })
  t.equal(answer?.['deleted'], '1')
  await until(() => first.role().problem !== null, { what: 'a problem' })
  t.match(first.role(), { kind: 'alone', problem: /etcd was restored from a backup/ })
  await t.rejects(put(first, 'b', '1'), { code: 'no_leader' })
})
