import { statfsSync } from 'node:fs'
import t from 'tap'
import { percentOf, readDisk, unknownDisk } from '../../../lib/operate/machine/disk.js'

t.test('returns the figures of a file system as df does', async t => {
  const directory = t.testdir()
  const { bsize, blocks } = statfsSync(directory)
  const disk = await readDisk(directory)
  t.equal(disk.totalBytes, bsize * blocks)
  t.ok((disk.freeBytes as number) <= (disk.totalBytes as number))
  t.ok((disk.percentUsed as number) >= 0 && (disk.percentUsed as number) <= 100)
})

t.test('returns unknown figures for a missing directory', async t => {
  t.same(await readDisk('/nowhere/at/all'), unknownDisk)
})

t.test('rounds percentages to two decimals', async t => {
  t.equal(percentOf(1, 3), 33.33)
  t.equal(percentOf(0, 0), 0)
})
