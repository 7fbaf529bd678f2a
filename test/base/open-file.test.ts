import t from 'tap'
import { closeSync, fstatSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { OpenFile } from '../../lib/base/open-file.js'
import { watchDescriptors } from '../support/descriptors.js'

const path = join(t.testdir(), 'file')
writeFileSync(path, '0123456789')

t.test('reads bytes at a position, and fewer only at the end', async t => {
  const file = new OpenFile(path, 'r')
  const four = Buffer.alloc(4)
  t.equal(file.size, 10)
  t.equal(file.readSync(four, 3), 4)
  t.equal(four.toString(), '3456')
  t.equal(await file.read(four, 8), 2)
  t.equal(four.toString(), '8956')
  file.close()
})

t.test('writes all bytes, one write after the other', async t => {
  const file = new OpenFile(`${path}.new`, 'wx', 0o600)
  file.writeSync(Buffer.from('first '))
  file.writeSync(Buffer.from('second'))
  file.close()
  t.equal(readFileSync(`${path}.new`, 'utf8'), 'first second')
})

t.test('a second close does not close another file with the same number', async t => {
  const watch = watchDescriptors()
  const file = new OpenFile(path, 'r')
  file.close()
  const other = openSync(path, 'r')
  file.close()
  t.doesNotThrow(() => fstatSync(other))
  closeSync(other)
  t.same([await watch.difference(), watch.faults], [[], []])
  watch.stop()
})

t.test('refuses any use of a closed file', async t => {
  const file = new OpenFile(path, 'r')
  file.close()
  const other = openSync(path, 'r')
  t.throws(() => file.readSync(Buffer.alloc(1), 0), { code: 'EBADF' })
  t.throws(() => file.writeSync(Buffer.alloc(1)), { code: 'EBADF' })
  t.throws(() => file.size, { code: 'EBADF' })
  await t.rejects(file.read(Buffer.alloc(1), 0), { code: 'EBADF' })
  closeSync(other)
})

t.test('a close waits for the reads in progress', async t => {
  const watch = watchDescriptors()
  const file = new OpenFile(path, 'r')
  const ten = Array.from({ length: 20 }, () => Buffer.alloc(10))
  const reads = ten.map(into => file.read(into, 0))
  file.close()
  file.close()
  // Each of these would get the number if it were free now, and would be read instead of the file.
  const others = Array.from({ length: 20 }, () => openSync('/dev/null', 'r'))
  t.same(
    await Promise.all(reads),
    ten.map(() => 10)
  )
  t.ok(ten.every(bytes => bytes.toString() === '0123456789'))
  others.forEach(other => closeSync(other))
  t.same([await watch.difference(), watch.faults], [[], []])
  watch.stop()
})
