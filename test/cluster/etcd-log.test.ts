import t from 'tap'
import type { Test } from 'tap'
import { EtcdError } from '../../lib/cluster/etcd/connection.js'
import { EtcdLog, createLineValues, tagOf } from '../../lib/cluster/etcd-log.js'
import {
  encodeTransaction,
  type LogLine,
  LostLeadership,
  LostLine,
  OlderLog,
  Trimmed,
  UnknownOutcome
} from '../../lib/core/store/redo.js'
import { anEtcd, startEtcd, withoutEtcd } from '../support/etcd.js'
import { until } from '../support/until.js'
import { aLog } from './stage.js'

/* What only the log on etcd has: leaders, lost answers, compaction. test/core/store/redo.test.ts has the rest. */

const skip = withoutEtcd()
const etcd = skip === false ? await startEtcd() : null
t.teardown(() => etcd?.close())
const options = () => (etcd as NonNullable<typeof etcd>).options
const one = (n: number, text = ''): string => encodeTransaction([{ sql: 'INSERT', values: [n, text] }])

async function aStage(t: Test) {
  const stage = await aLog(options())
  t.teardown(() => stage.close())
  const read = async (after = 0) => {
    const lines: LogLine[] = []
    const { signal } = new AbortController()
    await stage.log.catchUp(after, { signal, take: line => void lines.push(line) })
    return lines.map(({ first, transactions }) => [first, transactions.length])
  }
  return { ...stage, read }
}

t.test('refuses an append of an earlier leader, and of one that never was', { skip }, async t => {
  const { lead, another, log, read } = await aStage(t)
  const earlier = await another(await lead())
  await earlier.append(1, [one(1)])
  await lead()
  await t.rejects(earlier.append(2, [one(2)]), LostLeadership)
  await t.rejects((await another(null)).append(2, [one(2)]), LostLeadership)
  await t.rejects(earlier.append(2, [one(2, 'x'.repeat(2_000_000))]), LostLeadership, 'in parts, too')
  await log.append(2, [one(2), one(3)])
  t.same(await read(), [
    [1, 1],
    [2, 2]
  ])
})

t.test('refuses a number that another leader has written', { skip }, async t => {
  const { log, another, lead, read } = await aStage(t)
  const revision = await lead()
  const other = await another(revision)
  await log.append(1, [one(1)])
  await t.rejects(other.append(1, [one(1, 'another')]), LostLeadership)
  t.same(await read(), [[1, 1]])
})

t.test('appends nothing after a line that is gone or another one, although this hub still leads', { skip }, async t => {
  const { log, client, keys, read, another, lead } = await aStage(t)
  const revision = await lead()
  for (let n = 1; n <= 3; n++) await log.append(n, [one(n, 'x'.repeat(n === 3 ? 2_000_000 : 1))])
  const other = await another(revision)
  await client.delete(keys.line(3))
  await t.rejects(log.append(4, [one(4)]), LostLine, 'it is gone')
  const { keys: found } = await client.range({ key: keys.line(2) })
  await client.put(keys.line(3), found[0]?.value as Buffer)
  await t.rejects(other.append(4, [one(4)]), LostLine, 'it was written again')
  await client.delete(keys.line(3))
  t.same(await read(), [
    [1, 1],
    [2, 1]
  ])
  const { keys: begun } = await client.range({ key: keys.history })
  await client.delete(keys.log, keys.part)
  const empty = await another(revision)
  await client.put(keys.history, begun[0]?.value as Buffer)
  await t.rejects(empty.append(1, [one(1)]), LostLine, 'the history of an empty log counts as the line before')
})

t.test('a trim does not change the line before', { skip }, async t => {
  const { log, read } = await aStage(t)
  for (let n = 1; n <= 3; n++) await log.append(n, [one(n)])
  await log.trim(3)
  await log.append(4, [one(4)])
  t.same((await read(3)).at(-1), [4, 1])
})

t.test('an append whose answer is lost is accepted once', { skip }, async t => {
  const { client, log, read } = await aStage(t)
  const { transact } = client
  let sent = 0
  client.transact = async (transaction, limits) => {
    await transact(transaction, limits)
    sent++
    return transact(transaction, limits)
  }
  await log.append(1, [one(1)])
  await log.append(2, [one(2)])
  t.equal(sent, 2, 'each was carried out twice')
  client.transact = transact
  t.same(await read(), [
    [1, 1],
    [2, 1]
  ])
})

t.test(
  'an append whose answer is lost, and whose line is gone when it is sent again, may be known to other hubs',
  { skip },
  async t => {
    const { client, log, lead, keys } = await aStage(t)
    const { transact } = client
    await log.append(1, [one(1)])
    for (const goBack of [() => client.delete(keys.line(1)), () => lead()]) {
      client.transact = async (transaction, limits) => {
        await transact(transaction, limits)
        limits?.onUnanswered?.()
        client.transact = transact
        await client.delete(keys.line(2))
        await goBack()
        return transact(transaction, limits)
      }
      await t.rejects(log.append(2, [one(2)]), UnknownOutcome)
    }
  }
)

t.test('an error after the write is resolved by reading the line', { skip }, async t => {
  const { client, log, read } = await aStage(t)
  const { transact } = client
  client.transact = async (transaction, limits) => {
    await transact(transaction, limits)
    throw new EtcdError(13, 'internal error')
  }
  await log.append(1, [one(1)])
  client.transact = async () => {
    throw new EtcdError(13, 'internal error')
  }
  await t.rejects(log.append(2, [one(2)]), { code: 13 })
  client.transact = async (_, limits) => {
    limits?.onUnanswered?.()
    throw new EtcdError(8, 'mvcc: database space exceeded')
  }
  await t.rejects(log.append(2, [one(2)]), UnknownOutcome, 'another member may still carry it out')
  client.transact = transact
  t.same(await read(), [[1, 1]])
})

t.test('does not know what became of an append if etcd is gone', { skip }, async t => {
  const etcd = await startEtcd()
  t.teardown(() => etcd.close())
  const { log, close } = await aLog(etcd.options)
  t.teardown(close)
  await log.append(1, [one(1)])
  etcd.members[0]?.signal('SIGSTOP')
  const appending = log.append(2, [one(2)])
  await t.rejects(appending, UnknownOutcome)
  etcd.members[0]?.signal('SIGCONT')
  const { signal } = new AbortController()
  const last = await log.catchUp(0, { signal, take: () => {} })
  t.ok(last === 1 || last === 2, 'it may turn up later')
})

t.test('follows on after a compaction, and says if lines are gone', { skip }, async t => {
  const { client, log, read } = await aStage(t)
  for (let n = 1; n <= 5; n++) await log.append(n, [one(n)])
  const { watch } = client
  let watches = 0
  // The first watch begins at a revision that is compacted just before.
  client.watch = async (request, given) => {
    if (++watches > 1) return watch(request, given)
    await log.append(6, [one(6)])
    await log.append(7, [one(7)])
    const { revision } = await client.range({ key: '/svc/x' })
    await client.compact(revision)
    return watch(request, given)
  }
  const seen: number[] = []
  const stop = new AbortController()
  const take = ({ first }: LogLine) => void (seen.push(first) === 8 && stop.abort())
  const following = log.follow(0, { signal: stop.signal, take })
  await until(() => seen.length === 7)
  t.equal(watches, 2)
  await log.append(8, [one(8)])
  await following
  t.same(seen, [1, 2, 3, 4, 5, 6, 7, 8])
  await log.trim(6)
  await t.rejects(read(5), Trimmed)
  t.same(await read(6), [
    [7, 1],
    [8, 1]
  ])
})

t.test('sees that the log ends before what the reader has, or is another one', { skip }, async t => {
  const { log, read, keys, client, ...stage } = await aStage(t)
  for (let n = 1; n <= 3; n++) await log.append(n, [one(n)])
  await t.rejects(read(4), OlderLog)
  const other = new EtcdLog({ client, keys, ...stage, history: 'another', leading: () => null })
  const { signal } = new AbortController()
  await t.rejects(other.catchUp(3, { signal, take: () => {} }), { code: 'cluster_sealed' })
  await client.delete(keys.history)
  await t.rejects(read(3), OlderLog)
})

t.test('refuses a line that was changed in etcd', { skip }, async t => {
  const { log, read, keys, client } = await aStage(t)
  await log.append(1, [one(1)])
  await log.append(2, [one(2)])
  const { keys: found } = await client.range({ key: keys.line(1) })
  await client.put(keys.line(2), (found[0] as { value: Buffer }).value)
  await t.rejects(read(), { code: 'cluster_sealed' })
})

t.test('reads a log of many pages', { skip }, async t => {
  const { log, read } = await aStage(t)
  for (let n = 0; n < 100; n++) await log.append(1 + n * 3, [one(1), one(2), one(3)])
  t.equal((await read()).length, 100)
  t.equal((await read(149)).length, 51, 'from the middle of a line')
  await log.trim(151)
  await t.rejects(read(148), Trimmed)
  t.equal((await read(151)).length, 50)
})

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
