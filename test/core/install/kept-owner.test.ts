import t from 'tap'
import { chmodSync, lstatSync, mkdirSync, mkdtempSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tmpdir } from 'node:os'
import { disk } from '../../../lib/core/install/disk.js'
import {
  clearWay,
  isAtOrBelow,
  keptOwnerOf,
  mayGiveWay,
  restoreOwner,
  staysInTheWay,
  wayOf
} from '../../../lib/core/install/kept-owner.js'
import { Refusal } from '../../../lib/base/errors.js'
import { holdFolders, holdTarget } from '../../../lib/core/install/held.js'

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

const refusal = new Refusal('conflict', 'directory_in_the_way', 'Nothing was changed: "d" is a directory')

t.test('a directory gives way if nothing in it belongs to anybody else', async t => {
  const target = mkdtempSync(join(tmpdir(), 'svc-way-'))
  mkdirSync(join(target, 'd/e/empty'), { recursive: true, mode: 0o750 })
  for (const path of ['d/a', 'd/e/b', 'file']) writeFileSync(join(target, path), '')
  symlinkSync('/etc', join(target, 'd/link'))
  const root = holdTarget(disk, target)
  const folders = holdFolders(disk, root)
  t.teardown(() => {
    folders.close()
    root.close()
  })
  const clear = (path: string, given: readonly string[]) =>
    clearWay({ disk, folders }, { path, refusal }, below => given.includes(below))
  const all = ['d/a', 'd/e/b', 'd/link']
  t.match(clear('d', all), [{ path: 'd/e/empty', mode: 0o40750 }, { path: 'd/e' }, { path: 'd' }], 'children first')
  for (const missing of all) {
    const given = all.filter(path => path !== missing)
    const named = { code: 'directory_in_the_way', message: new RegExp(`"${missing}", which svc did not put there`) }
    t.throws(() => clear('d', given), named, 'links are not followed')
  }
  t.strictSame(clear('file', ['file']), [])
  t.throws(() => clear('file', []), refusal)
})

t.test('paths in the way, and below', t => {
  const ways = new Map([['a/b', refusal]])
  t.equal(wayOf(ways, 'a/b/c/d'), refusal)
  t.equal(wayOf(ways, 'a/b'), refusal)
  for (const path of ['a', 'a/bc', 'b']) t.equal(wayOf(ways, path), null)
  t.strictSame(
    ['a/b/c', 'a/c'].map(path => isAtOrBelow(ways, path)),
    [true, false]
  )
  t.ok(mayGiveWay(refusal))
  t.notOk(mayGiveWay({ code: 'other_file_system' }), 'a mount point stays')
  t.match(staysInTheWay(refusal, 'd/a', 'was edited'), { message: /is a directory, and "d\/a" was edited$/ })
  t.end()
})
