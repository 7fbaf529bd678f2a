import t from 'tap'
import { EtcdConnection } from '../../lib/cluster/etcd/connection.js'
import { createEtcdClient, endOfPrefix } from '../../lib/cluster/etcd/client.js'
import { readHistory } from '../../lib/cluster/history.js'
import { createSealing, keysOf } from '../../lib/cluster/sealing.js'
import { encodeLine } from '../../lib/core/store/redo.js'
import { startEtcd, withoutEtcd } from '../support/etcd.js'
import { changedBytes, createRandom } from '../support/random.js'
import { firstSeed, repetitions } from '../support/thorough.js'
import { until } from '../support/until.js'
import { contentOf, hubsOn, put } from './hubs.js'

/*
 * The hostile peer is etcd: somebody writes in it, with and without the key of the cluster. A follower then stops with a sentence,
 * changes nothing, and continues once the log is as it was.
 */

const skip = withoutEtcd()
const etcd = skip === false ? await startEtcd() : null
t.teardown(() => etcd?.close())
const limits = { probeMs: 200 }

t.test('a log that no hub has written stops a follower with a sentence, and changes nothing', { skip }, async t => {
  const { options } = etcd as NonNullable<typeof etcd>
  const stage = hubsOn(t, options)
  const first = await stage.open('h1', { limits })
  await stage.leader()
  let images = 0
  const second = await stage.open('h2', {
    limits,
    async fetchImage() {
      images++
      const image = await first.image()
      return (async function* () {
        yield* image.pieces
      })()
    }
  })
  const connection = new EtcdConnection(options)
  t.teardown(() => connection.close())
  const client = createEtcdClient(connection)
  const keys = keysOf(stage.cluster)
  const sealing = createSealing(stage.clusterKey)
  const { id: history } = (await readHistory({ client, keys, sealing })) as { id: string }
  await put(first, 'a', '1')
  await put(first, 'b', '2')
  await until(() => second.sequence() === first.sequence())
  images = 0
  const at = first.sequence()
  const sealed = (number: number, text: string | Buffer) =>
    sealing.seal(Buffer.from(text), { key: keys.line(number), history, number })
  const sql = (text: string, ...values: string[]) => JSON.stringify([[text, ...values]])
  const write = "INSERT INTO settings VALUES ('evil', 'x')"
  const { keys: lines } = await client.range({ key: keys.log, end: endOfPrefix(keys.log) })
  const last = lines.at(-1) as (typeof lines)[number]

  // prettier-ignore
  const cases: Array<[what: string, key: string, value: Buffer, problem: RegExp]> = [
    ['bytes that nobody sealed', keys.line(at + 1), Buffer.from('garbage'), /Cannot open the value/],
    ['nothing', keys.line(at + 1), Buffer.alloc(0), /Cannot open the value/],
    ['a line that was copied to the next number', keys.line(at + 1), last.value, /Cannot open the value/],
    ['a line that is no JSON', keys.line(at + 1), sealed(at + 1, 'no line'), /not the line of this number/],
    ['a line of another shape', keys.line(at + 1), sealed(at + 1, encodeLine(at + 1, ['7'])), /not the line of this/],
    ['a line without transactions', keys.line(at + 1), sealed(at + 1, encodeLine(at + 1, [])), /not the line of this/],
    ['a line with another number', keys.line(at + 1), sealed(at + 1, encodeLine(at + 2, [sql(write)])), /not the line/],
    [
      'a line that SQLite refuses at its end',
      keys.line(at + 1),
      sealed(at + 1, encodeLine(at + 1, [sql(write), sql('NONSENSE')])),
      /NONSENSE|syntax/
    ],
    ['a million parts', keys.line(at + 1), sealed(at + 1, '{"parts":999999}'), /names 999999 parts/],
    ['parts that are missing', keys.line(at + 1), sealed(at + 1, '{"parts":3}'), /part is missing/],
    ['parts without a number', keys.line(at + 1), sealed(at + 1, '{"parts":-1}'), /parts/],
    ['a line beyond a hole', keys.line(at + 3), sealed(at + 3, encodeLine(at + 3, [sql(write)])), /is missing before/],
    ['a key that is no number', `${keys.log}9999999x`, Buffer.from('x'), /no number/]
  ]
  for (const [what, key, value, problem] of cases) {
    const before = contentOf(second)
    await client.put(key, value)
    await until(() => second.role().problem !== null, { what: `a problem after: ${what}` })
    t.match(second.role().problem, problem, what)
    t.same(contentOf(second), before, `${what}: nothing has changed`)
    t.equal(second.sequence(), at)
    await client.delete(key)
    await until(() => second.role().problem === null, { what: `no problem any more after: ${what}` })
  }
  const random = createRandom(firstSeed)
  const valid = sealed(at + 1, encodeLine(at + 1, [sql(write)]))
  for (let n = 0; n < repetitions(3, 30); n++) {
    const changed = changedBytes(random, valid)
    const what = `seed ${firstSeed}, ${n}: ${changed.toString('hex')}`
    const before = contentOf(second)
    await client.put(keys.line(at + 1), changed)
    await until(() => second.role().problem !== null, { what: `a problem after ${what}` })
    t.same(contentOf(second), before, what)
    await client.delete(keys.line(at + 1))
    await until(() => second.role().problem === null, { what: `no problem any more after ${what}` })
  }
  t.equal(images, 0, 'it did not take the database of another hub instead')

  const { keys: found } = await client.range({ key: keys.leader })
  for (const value of [Buffer.from('x'), sealing.seal(Buffer.from('7'), { key: keys.leader, history })]) {
    await client.put(keys.leader, value)
    await until(() => second.role().problem !== null, { what: 'a problem of the leader key' })
    t.match(second.role().problem, /leader/)
    await client.put(keys.leader, (found[0] as (typeof found)[number]).value)
    await until(() => second.role().problem === null)
  }
  const { keys: begun } = await client.range({ key: keys.history })
  await client.put(keys.history, sealing.seal(Buffer.from('{"id":7}'), { key: keys.history, history: '' }))
  second.close()
  stage.hubs.delete('h2')
  await t.rejects(stage.open('h2', { limits }), /does not name a log/)
  await client.put(keys.history, (begun[0] as (typeof begun)[number]).value)
  const again = await stage.open('h2', { limits })
  t.same(contentOf(again), contentOf(first))
})
