import t from 'tap'
import type { Test } from 'tap'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import type { Refusal } from '../../../lib/base/errors.js'
import type { Call, Value } from '../../../lib/core/store/database.js'
import { realDisk } from '../../../lib/core/store/disk.js'
import {
  encodeHeader,
  encodeLine,
  encodeTransaction,
  type LogLine,
  openRedoFile,
  readRedo,
  type RedoFile,
  type RedoLog,
  Trimmed,
  openFileLog
} from '../../../lib/core/store/redo.js'
import { startEtcd, withoutEtcd } from '../../support/etcd.js'
import { createFaultyDisk } from './stage.js'
import { aLog } from '../../cluster/stage.js'
import { soon } from '../../support/until.js'

const insert = 'INSERT INTO t VALUES (?)'
const calls = (...values: Call['values']): Call[] => [{ sql: insert, values }]
const header = encodeHeader(7)
const first = encodeLine(8, [encodeTransaction(calls('a')), encodeTransaction(calls('b'))])
const second = encodeLine(10, [encodeTransaction(calls('c'))])
const zeros = Buffer.alloc(4096)
const read = (...parts: Buffer[]) => readRedo(Buffer.concat(parts), 'svc.db.redo')

t.test('reads back what was encoded, with and without reserved room', async t => {
  for (const room of [Buffer.alloc(0), zeros]) {
    const content = read(header, first, second, room)
    t.same(content, {
      after: 7,
      lines: [
        { first: 8, transactions: [calls('a'), calls('b')] },
        { first: 10, transactions: [calls('c')] }
      ],
      end: header.length + first.length + second.length,
      torn: false
    })
  }
})

const values: Array<[what: string, value: Call['values'][number]]> = [
  ['null', null],
  ['an integer', -42],
  ['the largest exact integer', Number.MAX_SAFE_INTEGER],
  ['a fraction', 0.1 + 0.2],
  ['a tiny number', 5e-324],
  ['empty text', ''],
  ['text with newlines, quotes and NUL', 'a\nb\r\n"\\\0c'],
  ['text that looks like the start of a line', '\n00000000 {"first":1}\n'],
  ['text beyond the basic plane', '漢🙂'],
  ['half a surrogate pair', '\ud800'],
  ['empty bytes', Buffer.alloc(0)],
  ['bytes', Buffer.from([0, 10, 255])]
]

for (const [what, value] of values) {
  t.test(`keeps ${what} exactly in a redo line`, async t => {
    t.strictSame(read(header, encodeLine(8, [encodeTransaction(calls(value))])).lines[0]?.transactions, [calls(value)])
  })
}

t.test('ignores a last line that was torn at any byte, before reserved room or the end of the file', async t => {
  for (let cut = 1; cut < second.length; cut++) {
    for (const room of [Buffer.alloc(0), zeros]) {
      const content = read(header, first, second.subarray(0, cut), room)
      t.equal(content.lines.length, 1, `cut at ${cut}`)
      t.equal(content.torn, true, `cut at ${cut}`)
      t.equal(content.end, header.length + first.length, `cut at ${cut}`)
    }
  }
})

t.test('ignores a last line of which only a later block reached the disk', async t => {
  const half = second.length >> 1
  const content = read(header, first, Buffer.alloc(half), second.subarray(half), zeros)
  t.equal(content.lines.length, 1)
  t.equal(content.torn, true)
})

t.test('refuses any changed byte in a line that is not the last', async t => {
  const from = header.length
  for (let at = from; at < from + first.length; at++) {
    const file = Buffer.concat([header, first, second, zeros])
    file[at] = (file[at] as number) ^ 1
    t.throws(() => readRedo(file, 'svc.db.redo'), { code: 'redo_damaged' }, `byte ${at}`)
  }
})

t.test('refuses a line in the middle that has become zeros', async t => {
  t.throws(() => read(header, Buffer.alloc(first.length), second, zeros), { code: 'redo_damaged' })
})

t.test('refuses any changed byte of the header, an empty file, and a file of zeros', async t => {
  for (let at = 0; at < header.length - 1; at++) {
    const file = Buffer.concat([header, zeros])
    file[at] = (file[at] as number) ^ 1
    t.throws(() => readRedo(file, 'svc.db.redo'), { code: 'redo_damaged' }, `byte ${at}`)
  }
  t.throws(() => read(header.subarray(0, -1)), { code: 'redo_damaged' })
  t.throws(() => read(), { code: 'redo_damaged' })
  t.throws(() => read(zeros), { code: 'redo_damaged' })
})

t.test('refuses a newer format and names the file', async t => {
  const newer = encodeLine(0, []).toString()
  t.throws(() => readRedo(Buffer.from(newer), 'svc.db.redo'), { code: 'redo_damaged' }, 'a line is no header')
  const { crc32 } = await import('../../../lib/base/digests.js')
  const json = '{"redo":2,"after":0}'
  const file = Buffer.from(`${crc32(Buffer.from(json)).toString(16).padStart(8, '0')} ${json}\n`)
  try {
    readRedo(file, '/home/svc.db.redo')
    t.fail('not refused')
  } catch (error) {
    t.match(error as Refusal, { kind: 'unsupported', code: 'redo_newer', message: '/home/svc.db.redo' })
  }
})

const line = (n: number) => encodeLine(n, [encodeTransaction([{ sql: 'INSERT', values: [n] }])])
const content = (path: string) => readRedo(realDisk.read(path) as Uint8Array, path)
const numbers = (path: string) => content(path).lines.map(({ first }) => first)

async function begun(t: Scene, disk = realDisk): Promise<{ redo: RedoFile; path: string }> {
  const path = join(t.testdir(), 'svc.db.redo')
  const redo = openRedoFile({ disk, path, end: 0, torn: false })
  await redo.restart(0, 0)
  t.teardown(() => redo.close())
  return { redo, path }
}

interface Scene {
  testdir(): string
  teardown(close: () => Promise<void>): void
}

t.test('appends lines one after another into reserved room', async t => {
  const { redo, path } = await begun(t)
  const bytes = statSync(path).size
  for (let n = 1; n <= 100; n++) await redo.append(line(n))
  t.same(
    numbers(path),
    Array.from({ length: 100 }, (_, n) => n + 1)
  )
  t.equal(statSync(path).size, bytes, 'the file is no longer than before')
  t.equal(content(path).end, redo.end)
})

t.test('writes a line that is longer than the reserved room, and the lines after it', async t => {
  const { redo, path } = await begun(t)
  await redo.append(encodeLine(1, [encodeTransaction([{ sql: 'INSERT', values: ['x'.repeat(3_000_000)] }])]))
  await redo.append(line(2))
  t.same(numbers(path), [1, 2])
})

t.test('continues a log at its end and first cuts off a torn line', async t => {
  const { redo, path } = await begun(t)
  await redo.append(line(1))
  const { end } = redo
  await redo.append(line(2))
  await redo.close()
  const again = openRedoFile({ disk: realDisk, path, end, torn: true })
  await again.append(line(7))
  await again.close()
  t.same(numbers(path), [1, 7])
})

t.test('keeps the lines from a byte on when restarting', async t => {
  const { redo, path } = await begun(t)
  await redo.append(line(1))
  const from = redo.end
  await redo.append(line(2))
  await redo.append(line(3))
  await redo.restart(1, from)
  await redo.append(line(4))
  t.same(numbers(path), [2, 3, 4])
  t.equal(content(path).after, 1)
})

t.test('writes the next line at the right place after a failed append, whatever part reached the disk', async t => {
  for (const share of [0, 0.5, 1]) {
    for (const step of [1, 2]) {
      const disk = createFaultyDisk(realDisk)
      const { redo, path } = await begun(t, disk)
      await redo.append(line(1))
      Object.assign(disk, { steps: 0, failAt: step, share })
      await t.rejects(redo.append(line(2)), { code: 'EIO' })
      await redo.append(line(2))
      t.same(numbers(path), [1, 2], `step ${step}, share ${share}`)
    }
  }
})

t.test('leaves a usable log if a restart fails at any step', async t => {
  for (let step = 1; ; step++) {
    const disk = createFaultyDisk(realDisk)
    const { redo, path } = await begun(t, disk)
    const from = redo.end
    await redo.append(line(1))
    Object.assign(disk, { steps: 0, failAt: step })
    const isDone = await redo.restart(0, from).then(
      () => disk.steps < step,
      () => false
    )
    disk.failAt = 0
    await redo.append(line(2))
    t.same(numbers(path), [1, 2], `step ${step}`)
    if (isDone) break
  }
})

t.test('writes a line into existing room on a full disk', async t => {
  const disk = createFaultyDisk(realDisk)
  const { redo, path } = await begun(t, disk)
  // Two steps make the room smaller than usual: after the long line, nothing can be reserved.
  Object.assign(disk, { steps: 0, failAt: 2, code: 'ENOSPC' })
  await redo.append(encodeLine(1, [encodeTransaction([{ sql: 'INSERT', values: ['x'.repeat(2_000_000)] }])]))
  disk.failAt = 0
  await redo.append(line(2))
  t.same(numbers(path), [1, 2])
})

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

const logCalls = (...values: Value[]): Call[] => [{ sql: 'INSERT INTO settings (key, value) VALUES (?, ?)', values }]
const one = (n: number): string => encodeTransaction(logCalls(`k${n}`, n))

/** Follows until the transaction with number `upTo` was handed over; returns the lines. */
async function readLog(log: RedoLog, after: number, upTo: number): Promise<LogLine[]> {
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
    t.strictSame(await readLog(log, 0, 5), [
      { first: 1, transactions: [logCalls('k1', 1)] },
      { first: 2, transactions: [logCalls('k2', 2), logCalls('k3', 3), logCalls('k4', 4)] },
      { first: 5, transactions: [logCalls('k5', 5)] }
    ])
  })

  t.test(`${name}: preserves every value`, { skip }, async t => {
    const { log } = await open(t)
    const values: Value[] = ['', 'a\u0000b\n"\\', '漢字 🎉', 0, -1.5, 2 ** 53, null, Buffer.from([0, 255, 10])]
    await log.append(1, [encodeTransaction(logCalls(...values))])
    const [line] = await readLog(log, 0, 1)
    t.same(line?.transactions[0]?.[0]?.values, values)
  })

  t.test(`${name}: keeps a transaction of 3 MB, and the ones around it`, { skip }, async t => {
    const { log, reopen } = await open(t)
    const large = 'é'.repeat(1_500_000)
    await log.append(1, [one(1)])
    await log.append(2, [encodeTransaction(logCalls('large', large))])
    await log.append(3, [one(3)])
    const lines = await readLog(await reopen(), 0, 3)
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
      (await readLog(again, 0, 3)).map(({ first, transactions }) => [first, transactions.length]),
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
    const firsts = async (after: number) => (await readLog(log, after, 6)).map(({ first }) => first)
    t.same(await firsts(2), [3, 6])
    t.same(await firsts(4), [3, 6], 'the line that contains transaction 5 begins with 3')
    t.same(await firsts(5), [6])
  })

  t.test(`${name}: hands over 300 lines that are appended while it is followed, each once`, { skip }, async t => {
    const { log } = await open(t)
    const reading = readLog(log, 0, 300)
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
      const first = (await readLog(each, 8, 10)).at(-1)
      t.same(first, { first: 9, transactions: [logCalls('k9', 9), logCalls('k10', 10)] })
      const signal = soon()
      await t.rejects(each.follow(0, { signal, take: () => {} }), Trimmed)
    }
    await log.append(11, [one(11)])
    t.equal((await readLog(log, 10, 11)).length, 1, 'the log continues')
  })

  t.test(`${name}: does not cut through a line`, { skip }, async t => {
    const { log } = await open(t)
    await log.append(1, [one(1)])
    await log.append(2, [one(2), one(3), one(4)])
    await log.trim(3)
    const lines = await readLog(log, 3, 4)
    t.same(lines.at(-1)?.transactions.at(-1), logCalls('k4', 4))
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
