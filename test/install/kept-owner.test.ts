import { chmodSync, lstatSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { disk } from '../../lib/install/disk.js'
import { keptOwnerOf, restoreOwner } from '../../lib/install/kept-owner.js'

t.test('restores the permissions of the file that was kept, and of no other', async t => {
  const directory = t.testdir({ a: 'x', other: 'y' })
  const [place, other] = [join(directory, 'a'), join(directory, 'other')]
  chmodSync(place, 0o640)
  const kept = keptOwnerOf(statSync(place))
  chmodSync(place, 0o000)
  restoreOwner(disk, place, kept)
  t.equal(statSync(place).mode & 0o7777, 0o640)
  chmodSync(other, 0o604)
  renameSync(other, place)
  restoreOwner(disk, place, kept)
  t.equal(statSync(place).mode & 0o7777, 0o604, 'another inode')
  const link = join(directory, 'link')
  symlinkSync('a', link)
  restoreOwner(disk, link, { ...kept, ino: lstatSync(link).ino })
  t.equal(statSync(place).mode & 0o7777, 0o604, 'not through a link')
  t.doesNotThrow(() => restoreOwner(disk, join(directory, 'absent'), kept))
  writeFileSync(place, 'x')
})
