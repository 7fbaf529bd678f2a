import t from 'tap'
import type { Test } from 'tap'
import { readdirSync } from 'node:fs'
import { Readable } from 'node:stream'
import { createBudget, createSpool, spoolFromBytes, type SpoolOptions } from '../../lib/base/budget.js'
import { Refusal } from '../../lib/base/errors.js'

const budgetOf = (total: number, perKey: number) =>
  createBudget({ all: total, each: { caller: perKey }, refuse: over => new Refusal('too_many', over, 'Too much') })

t.test('one key leaves room for the others, and all together have a limit', async t => {
  const budget = budgetOf(10, 6)
  const mine = budget.claim({ caller: 'a' }, 4)
  mine.add(2)
  t.throws(() => mine.add(1), { code: 'caller' })
  t.throws(() => budget.claim({ caller: 'a' }, 1), { code: 'caller' })
  const other = budget.claim({ caller: 'b' }, 4)
  t.throws(() => budget.claim({ caller: 'c' }, 1), { code: 'all' })
  t.strictSame(
    [budget.held(), budget.held('caller', 'a'), budget.held('caller', 'b'), budget.held('caller', 'c')],
    [10, 6, 4, 0]
  )
  mine.release()
  mine.release()
  t.equal(budget.held(), 4, 'only the first release counts')
  other.release()
  t.strictSame([budget.held(), budget.held('caller', 'a'), budget.held('caller', 'b')], [0, 0, 0])
})

t.test('what is refused takes nothing, and a bracket gives back after a failure', async t => {
  const budget = budgetOf(10, 10)
  t.throws(() => budget.claim({ caller: 'a' }, 11))
  t.equal(budget.held(), 0)
  await t.rejects(
    budget.during({ caller: 'a' }, 10, async () => {
      t.equal(budget.held('caller', 'a'), 10)
      throw new Error('lost')
    }),
    /lost/
  )
  await t.rejects(
    budget.during({ caller: 'a' }, 11, async () => t.fail('it has no place')),
    { code: 'caller' }
  )
  t.equal(budget.held(), 0)
})

t.test('a thousand claims of random size in random order end at nothing', async t => {
  const budget = budgetOf(1000, 300)
  const open: Array<{ key: string; amount: number; release(): void }> = []
  let seed = 7
  const random = (below: number): number => (seed = (seed * 48271) % 2147483647) % below
  for (let i = 0; i < 1000; i++) {
    const [key, amount] = [`k${random(5)}`, random(80)]
    try {
      open.push({ key, amount, ...budget.claim({ caller: key }, amount) })
    } catch {
      open.splice(random(open.length), 1)[0]?.release()
    }
    const sum = open.reduce((all, each) => all + each.amount, 0)
    if (budget.held() !== sum || sum > 1000) t.fail(`${budget.held()} is held, not ${sum}`)
  }
  for (const { release } of open) release()
  t.equal(budget.held(), 0)
})

t.test('limits each kind of key, and returns what there is no room for without an error', async t => {
  const limits = { all: 5, each: { node: 4, caller: 3 } }
  const budget = createBudget({ ...limits, refuse: over => new Refusal('too_many', over, 'Too much') })
  const claim = (node: string, caller: string, amount: number) => budget.claim({ node, caller }, amount)
  const first = claim('a', 'x', 3)
  t.throws(() => claim('b', 'x', 1), { code: 'caller' }, 'what a caller has anywhere counts')
  t.throws(() => claim('a', 'y', 2), { code: 'node' })
  t.throws(() => claim('b', 'y', 3), { code: 'all' })
  t.equal(budget.tryClaim({ node: 'b', caller: 'y' }, 3), null)
  t.ok(budget.tryClaim({ node: 'b', caller: 'y' }, 2))
  t.equal(budget.held(), 5, 'what was refused does not count')
  first.release(1)
  t.throws(() => claim('a', 'x', 2), { code: 'caller' })
  first.release()
  first.release()
  t.equal(budget.held(), 2, 'nothing is given back twice')
  t.ok(claim('y', 'b', 2), 'kinds do not share keys')
})

const megabyte = 1024 * 1024
const refuse = (which: string): Refusal => new Refusal('too_many', which, 'Too much')

function stage(t: Test) {
  const budget = createBudget({ all: 40 * megabyte, each: { caller: 20 * megabyte }, refuse })
  const directory = t.testdir({})
  let held = 0
  const options = (more: Partial<SpoolOptions> = {}): SpoolOptions => ({
    caller: 'a',
    announcedBytes: 0,
    maxBytes: 16 * megabyte,
    tooLarge: () => new Refusal('too_large', 'too_large', 'Too large'),
    hold: bytes => void (held += bytes),
    ...more
  })
  return { budget, directory, spool: createSpool({ directory, budget }), options, held: () => held }
}

t.test('keeps small bodies in memory, and large ones in a file without a name', async t => {
  const { budget, directory, spool, options, held } = stage(t)
  for (const bytes of [0, 1, 70_000, spoolFromBytes, spoolFromBytes + 1, 5 * megabyte]) {
    const all = Buffer.alloc(bytes, 'abcdefg')
    const pieces = Array.from({ length: Math.ceil(bytes / 65_536) }, (_, i) =>
      all.subarray(i * 65_536, (i + 1) * 65_536)
    )
    const spooled = await spool.receive(Readable.from(pieces), options())
    t.ok((await spooled.read()).equals(all), String(bytes))
    t.ok((await spooled.read(2)).equals(all.subarray(0, 2)), 'its first bytes')
    t.equal(budget.held('caller', 'a') > 0, bytes > spoolFromBytes, 'a small body takes nothing of the disk')
    t.strictSame(readdirSync(directory), [])
    await spooled.discard()
    t.equal(budget.held(), 0)
  }
  t.ok(held() < 10 * megabyte, 'a large body holds one block')
})

t.test('takes the place of an announced body before its first byte', async t => {
  const { budget, spool, options } = stage(t)
  const silent = new Readable({ read() {} })
  const waiting = spool.receive(silent, options({ announcedBytes: 15 * megabyte }))
  t.equal(budget.held('caller', 'a'), 15 * megabyte)
  const unread = new Readable({ read: () => t.fail('no byte may be read') })
  await t.rejects(spool.receive(unread, options({ announcedBytes: 10 * megabyte })), { code: 'caller' })
  await t.rejects(spool.receive(unread, options({ announcedBytes: 17 * megabyte })), { code: 'too_large' })
  silent.destroy(new Error('the client has left'))
  await t.rejects(waiting, /has left/)
  t.equal(budget.held(), 0, 'a client that leaves gives its place back')
})

t.test('a body that announces nothing is refused when the budget is full, and leaves nothing', async t => {
  const { budget, directory, spool, options } = stage(t)
  const first = await spool.receive(Readable.from(blocks(12)), options())
  await t.rejects(spool.receive(Readable.from(blocks(12)), options()), { code: 'caller' })
  const other = await spool.receive(Readable.from(blocks(12)), options({ caller: 'b' }))
  await t.rejects(spool.receive(Readable.from(blocks(17)), options({ caller: 'c' })), { code: 'too_large' })
  await t.rejects(spool.receive(Readable.from(blocks(4)), options({ caller: 'd', maxBytes: megabyte })))
  await first.discard()
  await other.discard()
  t.equal(budget.held(), 0)
  t.strictSame(readdirSync(directory), [])
})

function* blocks(megabytes: number): Generator<Buffer> {
  for (let i = 0; i < megabytes; i++) yield Buffer.alloc(megabyte)
}
