import t from 'tap'
import { execFileSync } from 'node:child_process'
import { linkSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { measureTree } from '../../lib/install/tree-size.js'

const limits = { maxEntries: 100, deadlineMs: Infinity }

t.test('measures the size of the files below a directory', async t => {
  const directory = t.testdir({
    a: 'x'.repeat(100),
    below: { b: 'x'.repeat(20), deeper: { c: 'xxx' }, empty: {} },
    link: t.fixture('symlink', '/etc')
  })
  t.equal(await measureTree(directory, limits), 123)
  linkSync(join(directory, 'a'), join(directory, 'below/again'))
  t.equal(await measureTree(directory, limits), 123, 'a file with two names counts once')
  t.equal(await measureTree(join(directory, 'below'), { ...limits, maxEntries: 5 }), 123)
  t.equal(await measureTree(join(directory, 'below'), { ...limits, maxEntries: 4 }), null, 'too many entries')
  t.equal(await measureTree(directory, { ...limits, deadlineMs: 0 }), null, 'too late')
  t.equal(await measureTree(join(directory, 'missing'), limits), null)
  t.equal(await measureTree(join(directory, 'a'), limits), null, 'a file is not a directory')
})

t.test('does not block on a pipe, and does not measure a very deep tree', async t => {
  const directory = t.testdir({ a: 'xyz' })
  if (process.platform !== 'win32') execFileSync('mkfifo', [join(directory, 'pipe')])
  t.equal(await measureTree(directory, limits), 3)
  if (process.platform !== 'win32') t.equal(await measureTree(join(directory, 'pipe'), limits), null)
  mkdirSync(join(directory, 'd/'.repeat(120)), { recursive: true })
  t.equal(await measureTree(directory, { ...limits, maxEntries: 1000 }), null)
})
