import { chmod, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { removeLeftovers, replaceFile } from '../../lib/base/replace-file.js'

const noModes = process.platform === 'win32' ? 'Windows has no permission bits' : false

t.test('writes a file with its mode, and leaves no temporary file', { skip: noModes }, async t => {
  const directory = t.testdir({})
  const path = join(directory, 'a')
  await replaceFile(path, 'one', 0o600)
  await replaceFile(path, 'two', 0o600)
  t.equal(await readFile(path, 'utf8'), 'two')
  t.equal((await stat(path)).mode & 0o777, 0o600)
  t.strictSame(await readdir(directory), ['a'])
})

t.test('a failure leaves the old file, and no temporary file', async t => {
  const directory = t.testdir({ a: {} })
  await t.rejects(replaceFile(join(directory, 'a'), 'x', 0o600), 'a directory stands there')
  await t.rejects(replaceFile(join(directory, 'none', 'a'), 'x', 0o600), { code: 'ENOENT' })
  t.strictSame(await readdir(directory), ['a'])
})

t.test('concurrent readers see the old or the new contents', async t => {
  const path = join(t.testdir({ a: '' }), 'a')
  const texts = ['x'.repeat(100_000), 'y'.repeat(100_000)]
  await writeFile(path, texts[0] as string)
  await chmod(path, 0o600)
  let isWriting = true
  const writing = (async () => {
    for (let round = 0; round < 20; round++) await replaceFile(path, texts[round % 2] as string, 0o600)
    isWriting = false
  })()
  let whole = true
  while (isWriting) whole &&= texts.includes(await readFile(path, 'utf8'))
  await writing
  t.ok(whole)
})

t.test('removes old temporary files of killed processes, but not those that may be in use', async t => {
  const directory = t.testdir({
    'a.0123456789ab.tmp': 'secret',
    'a.ba9876543210.tmp': 'in use',
    'b.0123456789ab.tmp': 'of another',
    'a.tmp': 'not ours'
  })
  const old = new Date('2020-01-01T00:00:00Z')
  for (const name of await readdir(directory))
    if (name !== 'a.ba9876543210.tmp') await utimes(join(directory, name), old, old)
  const future = new Date('2100-01-01T00:00:00Z')
  await writeFile(join(directory, 'a.0123456789ff.tmp'), 'written before the clock was set back')
  await utimes(join(directory, 'a.0123456789ff.tmp'), future, future)
  await replaceFile(join(directory, 'a'), 'one', 0o600)
  t.strictSame((await readdir(directory)).sort(), ['a', 'a.ba9876543210.tmp', 'a.tmp', 'b.0123456789ab.tmp'])
})

t.test('also next to the target of a link', async t => {
  const top = t.testdir({ place: { a: '1', 'a.0123456789ab.tmp': 'secret' }, a: t.fixture('symlink', 'place/a') })
  t.strictSame(await removeLeftovers(join(top, 'a'), Date.now() + 1000), [join(top, 'place/a.0123456789ab.tmp')])
  t.strictSame(await readdir(join(top, 'place')), ['a'])
})
