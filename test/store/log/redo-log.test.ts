import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import type { Call, Value } from '../../../lib/store/database.js'
import { realDisk } from '../../../lib/store/disk.js'
import { openFileLog } from '../../../lib/store/log/file-log.js'
import { Trimmed, type LogLine, type RedoLog } from '../../../lib/store/log/redo-log.js'
import { encodeTransaction, readRedo } from '../../../lib/store/redo.js'
import { startEtcd, withoutEtcd } from '../../support/etcd.js'
import { aLog } from './stage.js'

/*
 * The contract of a redo log, on a file and on a real etcd: one suite for both.
 */

/** A log, and another object on the same one, as after a restart of the process. */
interface Opened {
  log: RedoLog
  reopen(): Promise<RedoLog>
}

type Open = (t: Test) => Promise<Opened>

async function onFile(t: Test): Promise<Opened> {
  const path = join(t.testdir(), 'svc.db.redo')
  const log = openFileLog({ disk: realDisk, path, end: 0, torn: false, after: 0, last: 0 })
  await log.trim(0)
  t.teardown(() => log.close())
  return {
    log,
    async reopen() {
      const { end, torn, after, lines } = readRedo(realDisk.read(path) as Uint8Array, path)
      const line = lines.at(-1)
      const last = line === undefined ? after : line.first + line.transactions.length - 1
      const again = openFileLog({ disk: realDisk, path, end, torn, after, last })
      t.teardown(() => again.close())
      return again
    }
  }
}

const calls = (...values: Value[]): Call[] => [{ sql: 'INSERT INTO settings (key, value) VALUES (?, ?)', values }]
const one = (n: number): string => encodeTransaction(calls(`k${n}`, n))

/** Follows until the transaction with number `upTo` was handed over; returns the lines. */
async function read(log: RedoLog, after: number, upTo: number): Promise<LogLine[]> {
  const lines: LogLine[] = []
  const stop = new AbortController()
  await log.follow(after, {
    signal: stop.signal,
    take(line) {
      lines.push(line)
      if (line.first + line.transactions.length > upTo) stop.abort()
    }
  })
  return lines
}

function contract(name: string, open: Open, skip: string | false): void {
  t.test(`${name}: hands over what was appended, in order and whole`, { skip }, async t => {
    const { log } = await open(t)
    await log.append(1, [one(1)])
    await log.append(2, [one(2), one(3), one(4)])
    await log.append(5, [one(5)])
    t.strictSame(await read(log, 0, 5), [
      { first: 1, transactions: [calls('k1', 1)] },
      { first: 2, transactions: [calls('k2', 2), calls('k3', 3), calls('k4', 4)] },
      { first: 5, transactions: [calls('k5', 5)] }
    ])
  })

  t.test(`${name}: preserves every value`, { skip }, async t => {
    const { log } = await open(t)
    const values: Value[] = ['', 'a\u0000b\n"\\', '漢字 🎉', 0, -1.5, 2 ** 53, null, Buffer.from([0, 255, 10])]
    await log.append(1, [encodeTransaction(calls(...values))])
    const [line] = await read(log, 0, 1)
    t.same(line?.transactions[0]?.[0]?.values, values)
  })

  t.test(`${name}: keeps a transaction of 3 MB, and the ones around it`, { skip }, async t => {
    const { log, reopen } = await open(t)
    const large = 'é'.repeat(1_500_000)
    await log.append(1, [one(1)])
    await log.append(2, [encodeTransaction(calls('large', large))])
    await log.append(3, [one(3)])
    const lines = await read(await reopen(), 0, 3)
    t.same(
      lines.map(({ first }) => first),
      [1, 2, 3]
    )
    t.ok(lines[1]?.transactions[0]?.[0]?.values[1] === large, 'unchanged')
  })

  t.test(`${name}: is the same after it was opened again, and continues`, { skip }, async t => {
    const { log, reopen } = await open(t)
    await log.append(1, [one(1), one(2)])
    const again = await reopen()
    await again.append(3, [one(3)])
    t.same(
      (await read(again, 0, 3)).map(({ first, transactions }) => [first, transactions.length]),
      [
        [1, 2],
        [3, 1]
      ]
    )
  })

  t.test(`${name}: begins in the middle, also of a line`, { skip }, async t => {
    const { log } = await open(t)
    await log.append(1, [one(1), one(2)])
    await log.append(3, [one(3), one(4), one(5)])
    await log.append(6, [one(6)])
    const firsts = async (after: number) => (await read(log, after, 6)).map(({ first }) => first)
    t.same(await firsts(2), [3, 6])
    t.same(await firsts(4), [3, 6], 'the line that contains transaction 5 begins with 3')
    t.same(await firsts(5), [6])
  })

  t.test(`${name}: hands over 300 lines that are appended while it is followed, each once`, { skip }, async t => {
    const { log } = await open(t)
    const reading = read(log, 0, 300)
    for (let n = 1; n <= 300; n++) await log.append(n, [one(n)])
    t.same(
      (await reading).map(({ first }) => first),
      Array.from({ length: 300 }, (_, at) => at + 1)
    )
  })

  t.test(`${name}: waits for one who takes slowly`, { skip }, async t => {
    const { log } = await open(t)
    const stop = new AbortController()
    let inside = 0
    const seen: number[] = []
    const reading = log.follow(0, {
      signal: stop.signal,
      async take({ first }) {
        t.equal(++inside, 1, 'one at a time')
        await new Promise(resolve => setImmediate(resolve))
        inside--
        seen.push(first)
        if (first === 20) stop.abort()
      }
    })
    for (let n = 1; n <= 20; n++) await log.append(n, [one(n)])
    await reading
    t.equal(seen.length, 20)
  })

  t.test(`${name}: ends when it is told to, also if nothing comes`, { skip }, async t => {
    const { log } = await open(t)
    const stop = new AbortController()
    const reading = log.follow(0, { signal: stop.signal, take: () => void t.fail('there is nothing') })
    setImmediate(() => stop.abort())
    await reading
    t.pass('without an error')
  })

  t.test(`${name}: passes an error of its reader on`, { skip }, async t => {
    const { log } = await open(t)
    await log.append(1, [one(1)])
    const failing = log.follow(0, {
      signal: new AbortController().signal,
      take() {
        throw new Error('the reader failed')
      }
    })
    await t.rejects(failing, { message: 'the reader failed' })
  })

  t.test(`${name}: removes what is no longer needed, and says so to one who asks for it`, { skip }, async t => {
    const { log, reopen } = await open(t)
    for (let n = 1; n <= 9; n += 2) await log.append(n, [one(n), one(n + 1)])
    await log.trim(8)
    for (const each of [log, await reopen()]) {
      const first = (await read(each, 8, 10)).at(-1)
      t.same(first, { first: 9, transactions: [calls('k9', 9), calls('k10', 10)] })
      const signal = AbortSignal.timeout(10_000)
      await t.rejects(each.follow(0, { signal, take: () => {} }), Trimmed)
    }
    await log.append(11, [one(11)])
    t.equal((await read(log, 10, 11)).length, 1, 'the log continues')
  })

  t.test(`${name}: does not cut through a line`, { skip }, async t => {
    const { log } = await open(t)
    await log.append(1, [one(1)])
    await log.append(2, [one(2), one(3), one(4)])
    await log.trim(3)
    const lines = await read(log, 3, 4)
    t.same(lines.at(-1)?.transactions.at(-1), calls('k4', 4))
  })
}

contract('a file', onFile, false)

const skip = withoutEtcd()
const etcd = skip === false ? await startEtcd() : null
contract(
  'etcd',
  async t => {
    const stage = await aLog((etcd as NonNullable<typeof etcd>).options)
    t.teardown(() => stage.close())
    return { log: stage.log, reopen: async () => stage.log }
  },
  skip
)
t.teardown(() => etcd?.close())
