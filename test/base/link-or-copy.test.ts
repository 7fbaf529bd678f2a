import { existsSync } from 'node:fs'
import { readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { linkOrCopy } from '../../lib/base/link-or-copy.js'

t.test('gives the file a second name', async t => {
  const directory = t.testdir({ a: 'one' })
  await linkOrCopy(join(directory, 'a'), join(directory, 'b'))
  t.equal((await stat(join(directory, 'b'))).ino, (await stat(join(directory, 'a'))).ino)
})

t.test('rejects for a missing file and for a name that is taken', async t => {
  const directory = t.testdir({ a: 'one', b: 'two' })
  await t.rejects(linkOrCopy(join(directory, 'none'), join(directory, 'c')), { code: 'ENOENT' })
  await t.rejects(linkOrCopy(join(directory, 'a'), join(directory, 'b')), { code: 'EEXIST' })
  t.equal(await readFile(join(directory, 'b'), 'utf8'), 'two')
})

t.test(
  'copies to another file system',
  { skip: !existsSync('/dev/shm') && 'there is no second file system' },
  async t => {
    const directory = t.testdir({ a: 'one' })
    const other = join('/dev/shm', `svc-link-or-copy-${process.pid}`)
    t.teardown(() => rm(other, { force: true }))
    await linkOrCopy(join(directory, 'a'), other)
    t.equal(await readFile(other, 'utf8'), 'one')
    await t.rejects(linkOrCopy(join(directory, 'a'), other), 'a copy replaces nothing')
  }
)
