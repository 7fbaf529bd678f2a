import t from 'tap'
import { spawnSync } from 'node:child_process'
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { areOverlapping, lineageOf } from '../../lib/install/lineage.js'

const cases: Array<[one: string, other: string, isOne: boolean, what: string]> = [
  ['a', 'a', true, 'one path'],
  ['a', 'b', false, 'two directories'],
  ['a', 'a-old', false, 'a name that only begins alike'],
  ['a', 'a/in', true, 'one within the other'],
  ['a/in', 'a', true, 'one above the other'],
  ['to-a', 'a', true, 'a link to the other'],
  ['to-a/in', 'a', true, 'through a link into the other'],
  ['a', 'to-a-in/new/one', true, 'not there yet, but it would lie in the other'],
  ['to-a/new', 'a/new', true, 'neither is there yet, and they would be one'],
  ['a/in', 'a/other', false, 'side by side']
]

t.test('finds directories that overlap', async t => {
  const top = t.testdir()
  mkdirSync(join(top, 'a/in'), { recursive: true })
  symlinkSync('a', join(top, 'to-a'))
  symlinkSync('a/in', join(top, 'to-a-in'))
  for (const [one, other, isOne, what] of cases) {
    t.equal(areOverlapping(await lineageOf(join(top, one)), await lineageOf(join(top, other))), isOne, what)
  }
})

t.test('rejects a loop of links', async t => {
  const top = t.testdir()
  symlinkSync('round', join(top, 'round'))
  await t.rejects(lineageOf(join(top, 'round')), { code: 'ELOOP' })
})

t.test('recognizes a directory that is mounted at a second place', async t => {
  const top = t.testdir()
  for (const name of ['a/in', 'mounted']) mkdirSync(join(top, name), { recursive: true })
  const mount = spawnSync('mount', ['--bind', join(top, 'a'), join(top, 'mounted')])
  if (mount.status !== 0) return t.comment('skipped: this user has no permission to mount')
  try {
    t.ok(areOverlapping(await lineageOf(join(top, 'a/in')), await lineageOf(join(top, 'mounted'))))
    t.ok(areOverlapping(await lineageOf(join(top, 'mounted/in')), await lineageOf(join(top, 'a'))))
  } finally {
    // Before the directory of the test is removed.
    spawnSync('umount', [join(top, 'mounted')])
  }
})
