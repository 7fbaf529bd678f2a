import { chmod, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { replaceFile } from '../../lib/config/replace-file.js'

const noModes = process.platform === 'win32' ? 'Windows has no permission bits' : false

t.test('a file is written whole, with its mode, and nothing is left beside it', { skip: noModes }, async t => {
  const directory = t.testdir({})
  const path = join(directory, 'a')
  await replaceFile(path, 'one', 0o600)
  await replaceFile(path, 'two', 0o600)
  t.equal(await readFile(path, 'utf8'), 'two')
  t.equal((await stat(path)).mode & 0o777, 0o600)
  t.strictSame(await readdir(directory), ['a'])
})

t.test('a failure leaves the old one, and nothing else', async t => {
  const directory = t.testdir({ a: {} })
  await t.rejects(replaceFile(join(directory, 'a'), 'x', 0o600), 'a directory stands there')
  await t.rejects(replaceFile(join(directory, 'none', 'a'), 'x', 0o600), { code: 'ENOENT' })
  t.strictSame(await readdir(directory), ['a'])
})

t.test('readers at the same moment see the old or the new', async t => {
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
