import { readdirSync } from 'node:fs'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { createBudget } from '../../lib/base/budget.js'
import { Refusal } from '../../lib/base/errors.js'
import { createSpool, spoolFromBytes, type SpoolOptions } from '../../lib/base/spool.js'

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
