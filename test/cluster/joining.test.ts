import { randomBytes } from 'node:crypto'
import t from 'tap'
import { readSettings } from '../../lib/core/store/tables/server.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import { startEtcd, withoutEtcd } from '../support/etcd.js'
import { ownHub } from '../support/hub-keys.js'
import { soon } from '../support/until.js'
import { mkdirSync } from 'node:fs'
import { contentOf, hubsOn, put } from './hubs.js'

const skip = withoutEtcd()
const etcd = skip === false ? await startEtcd() : null
t.teardown(() => etcd?.close())
const options = () => (etcd as NonNullable<typeof etcd>).options

t.test('a server becomes the first hub with all that it has, and leaves with all that was added', { skip }, async t => {
  const stage = hubsOn(t, options())
  mkdirSync(stage.directoryOf('h1'), { recursive: true })
  const server = await openStore({ directory: stage.directoryOf('h1') })
  for (let n = 0; n < 10; n++) await server.write(tx => tx.run("INSERT INTO settings VALUES (?, 'x')", `s${n}`))
  const before = contentOf(server)
  await server.close()

  const hub = await stage.open('h1')
  t.same(contentOf(hub), before)
  t.equal(hub.sequence(), 10, 'the numbers continue')
  await stage.leader()
  await put(hub, 'in the cluster', '1')
  const inside = contentOf(hub)
  await hub.close()
  stage.hubs.clear()

  const again = await openStore({ directory: stage.directoryOf('h1') })
  t.same(contentOf(again), inside)
  await again.write(tx => tx.run("INSERT INTO settings VALUES ('after', 'x')"))
  await again.close()
})

t.test('a cluster begins once, and only on request', { skip }, async t => {
  const stage = hubsOn(t, options())
  await t.rejects(stage.open('h1', { begin: false }), { code: 'cluster_missing' })
  const first = await stage.open('h1', { begin: true })
  await t.rejects(stage.open('h2', { begin: true }), { code: 'cluster_exists', kind: 'conflict' })
  await t.rejects(stage.open('h3', { begin: false, clusterKey: randomBytes(32) }), { code: 'cluster_sealed' })
  await t.rejects(stage.open('h3', { begin: true, clusterKey: randomBytes(32) }), { code: 'cluster_exists' })
  await put(await stage.leader(), 'a', '1')
  await first.close()
  const again = await stage.open('h1', { begin: true })
  t.same(readSettings(again), { a: '1' }, 'the hub that began it continues')
})

t.test('a hub with another database takes that of the cluster', { skip }, async t => {
  const stage = hubsOn(t, options())
  const first = await stage.open('h1')
  await stage.leader()
  await put(first, 'a', '1')
  mkdirSync(stage.directoryOf('h2'), { recursive: true })
  const other = await openStore({ directory: stage.directoryOf('h2') })
  for (let n = 0; n < 50; n++) await other.write(tx => tx.run("INSERT INTO settings VALUES (?, 'x')", `s${n}`))
  await other.close()
  const second = await stage.open('h2')
  t.same(readSettings(second), { a: '1' })
  await put(first, 'b', '2')
  await second.reached(first.sequence(), soon())
  t.same(contentOf(second), contentOf(first))
})

t.test('a hub without a database waits for one, and says so', { skip }, async t => {
  const stage = hubsOn(t, options())
  const first = await stage.open('h1')
  await t.rejects(stage.open('h2', { fetchImage: undefined as never }), { code: 'image_needed' })
  const said: string[] = []
  let failures = 0
  const second = await stage.open('h2', {
    onWaiting: sentence => void said.push(sentence),
    async fetchImage(from) {
      t.match(from, ownHub({ name: 'h1', url: 'http://h1.test' }))
      if (++failures < 3) throw new Error('the connection was refused')
      const image = await first.image()
      return (async function* () {
        yield* image.pieces
      })()
    }
  })
  t.match(said[0], /needs the database of another hub.*the connection was refused/)
  t.same(contentOf(second), contentOf(first))
  const stop = new AbortController()
  const waiting = stage.open('h3', {
    signal: stop.signal,
    fetchImage: async () => {
      stop.abort(new Error('enough'))
      throw new Error('not there')
    }
  })
  await t.rejects(waiting, { message: 'enough' })
})
