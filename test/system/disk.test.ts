import { statfsSync } from 'node:fs'
import t from 'tap'
import { percentOf, readDisk, unknownDisk } from '../../lib/system/disk.js'

t.test('the disk of a directory, as df counts it', async t => {
  const directory = t.testdir()
  const { bsize, blocks } = statfsSync(directory)
  const disk = await readDisk(directory)
  t.equal(disk.totalBytes, bsize * blocks)
  t.ok((disk.freeBytes as number) <= (disk.totalBytes as number))
  t.ok((disk.percentUsed as number) >= 0 && (disk.percentUsed as number) <= 100)
})

t.test('a directory that is not there has no figures', async t => {
  t.same(await readDisk('/nowhere/at/all'), unknownDisk)
})

t.test('percent with two decimals', async t => {
  t.equal(percentOf(1, 3), 33.33)
  t.equal(percentOf(0, 0), 0)
})
