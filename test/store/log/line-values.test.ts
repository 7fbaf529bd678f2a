import t from 'tap'
import { createLineValues, tagOf } from '../../../lib/store/log/line-values.js'
import { LostLeadership } from '../../../lib/store/log/redo-log.js'
import { encodeTransaction } from '../../../lib/store/redo.js'
import { anEtcd, withoutEtcd } from '../../support/etcd.js'
import { aLog } from './stage.js'

const skip = withoutEtcd()

t.test('a line is one value, a long one a value and its parts', { skip }, async t => {
  const { client, keys, sealing, history, lead, close } = await aLog((await anEtcd(t)).options)
  t.teardown(close)
  const values = createLineValues({ client, keys, sealing, history: history.id, writeMs: 5000 })
  const revision = await lead()
  const calls = (text: string) => [{ sql: 'INSERT INTO x VALUES (?)', values: [text] }]
  const partKeys = async () =>
    (await client.range({ key: keys.part, end: keys.partOf(99, 0), isKeysOnly: true })).keys.map(({ key }) => key)

  const short = await values.seal(1, [encodeTransaction(calls('short'))], revision)
  t.same(await partKeys(), [])
  t.same(await values.open({ key: keys.line(1), value: short }), { first: 1, transactions: [calls('short')] })
  t.not(tagOf(short), tagOf(await values.seal(1, [encodeTransaction(calls('short'))], revision)))
  await t.rejects(values.open({ key: keys.line(2), value: short }), { code: 'cluster_sealed' }, 'at another place')

  const text = 'long'.repeat(400_000)
  const long = await values.seal(2, [encodeTransaction(calls(text))], revision)
  t.ok(long.length < 100)
  t.same(await partKeys(), [keys.partOf(2, 0), keys.partOf(2, 1), keys.partOf(2, 2)])
  t.same(await values.open({ key: keys.line(2), value: long }), { first: 2, transactions: [calls(text)] })
  await t.rejects(values.seal(3, [encodeTransaction(calls(text))], revision + 1), LostLeadership)
  t.equal((await partKeys()).length, 3, 'a hub that does not lead writes no part')
  await client.delete(keys.partOf(2, 1))
  await t.rejects(values.open({ key: keys.line(2), value: long }), /the part is missing/)
})
