import { statfsSync } from 'node:fs'
import fs from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { freeBytes } from '../../lib/base/free-space.js'

const realStatfs = fs.statfs

t.afterEach(() => {
  fs.statfs = realStatfs
})

t.test('the free space of a directory, and of one that does not exist yet', async t => {
  const directory = t.testdir()
  const { blocks, bsize } = statfsSync(directory)
  for (const path of [directory, join(directory, 'not/yet')]) {
    const free = await freeBytes(path)
    t.ok(free !== null && free > 0 && free <= blocks * bsize, path)
  }
})

t.test('space that cannot be known is null, not 0', async t => {
  const directory = t.testdir({ file: '' })
  t.equal(await freeBytes(join(directory, 'file/below')), null, 'below a file')
  fs.statfs = (async () => ({ blocks: 0, bavail: 0, bsize: 4096 })) as unknown as typeof fs.statfs
  t.equal(await freeBytes(directory), null, 'a file system that counts no blocks')
  fs.statfs = undefined as unknown as typeof fs.statfs
  t.equal(await freeBytes(directory), null, 'Node before 18.15')
})
