import t, { type Test } from 'tap'
import { chmodSync, lstatSync, renameSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sha256 } from '../../../lib/base/digests.js'
import { disk } from '../../../lib/core/install/disk.js'
import { holdFolders, holdTarget } from '../../../lib/core/install/held.js'
import { ownedContents } from '../../../lib/core/install/owned-tree.js'
import { createRecords, type Item } from '../../../lib/core/install/plan.js'
import { changeTimes, takeUntouched } from '../../../lib/core/install/untouched.js'
import type { OwnedEntry } from '../../../lib/model/manifest.js'

const digest = (text: string): string => sha256(Buffer.from(text)).toString('hex')

/** A target that svc owns, and an archive with the same files. */
async function stageOwned(t: Test, names: readonly string[], change: (entry: OwnedEntry) => OwnedEntry = each => each) {
  const directory = t.testdir(Object.fromEntries(names.map(name => [name, name])))
  const place = (name: string): string => join(directory, name)
  const owned = names.map(path => {
    const { mode, size, mtimeMs, ctimeMs, ino } = statSync(place(path))
    return change({ path, mode, size, mtimeMs, ctimeMs, ino, sha256: digest(path), since: 'dep_1' })
  })
  const items = owned.map(({ path, size, mode, mtimeMs }): Item => {
    return { path, kind: 'file', size, mode: mode & 0o7777, mtimeMs }
  })
  const head = { deployId: 'dep_1', sequence: 1, target: directory }
  const tree = await ownedContents(
    head,
    (async function* () {
      yield* owned
    })()
  )
  const root = holdTarget(disk, directory, { make: false })
  const folders = holdFolders(disk, root)
  t.teardown(() => {
    folders.close()
    root.close()
  })
  const records = createRecords(items.length)
  items.forEach((_, index) => records.setExisting(index, 'file'))
  const needs = { disk, folders, items, records, toleranceMs: 2000, check: () => {} }
  const taken = async (more: Partial<typeof needs> = {}, of: Uint8Array = tree) =>
    (await takeUntouched({ ...needs, tree: of, ...more })).map(index => names[index])
  return { place, items, records, taken, needs, tree }
}

t.test('takes what has the same size, times, inode and permissions', async t => {
  const { taken, records, place } = await stageOwned(t, ['a', 'b'])
  t.strictSame(await taken(), ['a', 'b'])
  t.equal(records.outcome(0), 'unchanged')
  t.equal(records.sha256(0).toString('hex'), digest('a'))
  t.equal(records.ctimeMs(0), statSync(place('a')).ctimeMs)
  t.match(records.before(1), { size: 1 })
})

t.test('takes nothing that was touched in any way', async t => {
  const names = ['edited', 'linked', 'mode', 'removed', 'renamed', 'time', 'untouched']
  const { taken, place } = await stageOwned(t, names)
  const { atime, mtime } = statSync(place('edited'))
  writeFileSync(place('edited'), 'EDITED')
  utimesSync(place('edited'), atime, mtime)
  chmodSync(place('mode'), 0o600)
  rmSync(place('removed'))
  writeFileSync(place('other'), 'renamed')
  utimesSync(place('other'), atime, statSync(place('renamed')).mtime)
  renameSync(place('other'), place('renamed'))
  utimesSync(place('time'), 1, 1)
  rmSync(place('linked'))
  symlinkSync('untouched', place('linked'))
  t.strictSame(await taken(), ['untouched'])
})

t.test('takes nothing that the archive wants otherwise', async t => {
  const { taken, items } = await stageOwned(t, ['a', 'group', 'mode', 'size', 'time', 'windows'])
  const patches: Array<Partial<Item>> = [
    {},
    { gid: 54_321 },
    { mode: 0o600 },
    { size: 99 },
    { mtimeMs: 1 },
    { mode: null }
  ]
  const wanted = items.map((item, at) => ({ ...item, ...patches[at] }))
  t.strictSame(await taken({ items: wanted }), ['a'])
})

t.test('takes nothing whose last change is not known, and nothing of a torn tree', async t => {
  const { taken } = await stageOwned(t, ['a'], ({ ctimeMs: _, ...entry }) => entry)
  t.strictSame(await taken(), [])
  const torn = await stageOwned(t, ['b'])
  t.strictSame(await torn.taken({}, torn.tree.subarray(0, -20)), [])
  t.strictSame(await torn.taken({}, torn.tree.subarray(0, 30)), [])
})

t.test('tells when files were changed last, if that is old enough to be sure', async t => {
  const { needs, records, place, taken } = await stageOwned(t, ['kept', 'new', 'other', 'same'])
  await taken()
  records.keep(0)
  for (const [index, name] of [
    [1, 'new'],
    [2, 'other']
  ] as const) {
    const { mode, gid, mtimeMs, ino } = lstatSync(place(name))
    records.settle(index, 'staged', { mode, gid, mtimeMs, ino, sha256: sha256(Buffer.from(name)) })
  }
  writeFileSync(place('other'), 'edited by somebody else')
  await new Promise(resolve => setTimeout(resolve, 60))
  writeFileSync(place('same'), 'edited after it was read')
  const order = [0, 1, 2, 3]
  const before = records.ctimeMs(3)
  t.strictSame([...changeTimes({ ...needs, order })], [statSync(place('new')).ctimeMs, Number.NaN, before])
  const { mtimeMs, ino, mode, gid } = statSync(place('same'))
  records.settle(3, 'staged', { mode, gid, mtimeMs, ino, sha256: sha256(Buffer.from('x')) })
  t.strictSame([...changeTimes({ ...needs, order })].at(-1), Number.NaN, 'it has another size, or is too young')
})
