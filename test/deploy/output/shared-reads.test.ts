import { appendFileSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { createSharedReads } from '../../../lib/deploy/output/shared-reads.js'

t.test('reads a block once for many followers', async t => {
  const path = join(t.testdir({ 'a.log': 'one\ntwo\n', 'b.log': 'other\n' }), 'a.log')
  const reads = createSharedReads()
  const blocks = await Promise.all(Array.from({ length: 50 }, () => reads.read(path, 0, Infinity)))
  t.equal(new Set(blocks).size, 1)
  t.equal(blocks[0]?.bytes.toString(), 'one\ntwo\n')
  t.equal((await reads.read(path, 4, Infinity))?.bytes.toString(), 'two\n', 'another offset')
  t.equal((await reads.read(join(path, '../b.log'), 0, Infinity))?.bytes.toString(), 'other\n', 'another file')
})

t.test('returns nothing beyond the given end, and reads the end again', async t => {
  const path = join(t.testdir({ 'a.log': 'one\ntwo\n' }), 'a.log')
  const reads = createSharedReads()
  t.equal((await reads.read(path, 0, 4))?.bytes.toString(), 'one\n')
  t.equal(await reads.read(path, 8, Infinity), null)
  appendFileSync(path, 'three\n')
  t.equal((await reads.read(path, 8, Infinity))?.bytes.toString(), 'three\n')
  t.equal(await reads.read(`${path}.none`, 0, Infinity), null)
  writeFileSync(`${path}.none`, 'now\n')
  t.equal((await reads.read(`${path}.none`, 0, Infinity))?.bytes.toString(), 'now\n')
})

t.test('completes many different reads and keeps few blocks', async t => {
  const path = join(t.testdir({ 'a.log': 'line\n'.repeat(100) }), 'a.log')
  const reads = createSharedReads()
  const blocks = await Promise.all(Array.from({ length: 100 }, (_, line) => reads.read(path, line * 5, line * 5 + 5)))
  t.ok(blocks.every(block => block?.bytes.toString() === 'line\n'))
  await rm(path)
  const kept = await Promise.all(Array.from({ length: 100 }, (_, line) => reads.read(path, line * 5, line * 5 + 5)))
  t.ok(kept.filter(block => block !== null).length <= 8)
})

t.test('does not cache a failed read', async t => {
  const directory = t.testdir({ 'a.log': {} })
  const reads = createSharedReads()
  const path = join(directory, 'a.log')
  await t.rejects(reads.read(path, 0, Infinity), { code: 'EISDIR' })
  await rm(path, { recursive: true })
  writeFileSync(path, 'now\n')
  t.equal((await reads.read(path, 0, Infinity))?.bytes.toString(), 'now\n')
})
