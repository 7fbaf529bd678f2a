import { copyFileSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import t from 'tap'
import {
  anyArchive,
  besideArchive,
  findKept,
  openEach,
  openKept,
  secondsOf
} from '../../../lib/core/archive/pack-set.js'
import { readIndex, writeIndex } from '../../../lib/core/archive/pack-index.js'
import { contentsOf, sharedArchives } from '../../support/shared-archive.js'

const files = { a: 'one', 'dir/b': 'two'.repeat(400), c: 'three' }

async function stage(t: Parameters<typeof sharedArchives>[0]) {
  const archives = await sharedArchives(t)
  const first = await archives.add(files)
  const second = await archives.add({ ...files, a: 'changed' })
  const [zip, shared] = [archives.pathOf(first.id), archives.pathOf(second.id)]
  return {
    ...archives,
    first,
    second,
    zip,
    shared,
    index: besideArchive(shared, 'index'),
    pack: besideArchive(shared, 'pack')
  }
}

t.test('an archive is found by the path of its zip, whole or not', async t => {
  const { zip, shared, index, pathOf, idOf } = await stage(t)
  t.strictSame(await findKept(zip), { path: zip, isShared: false })
  t.strictSame(await findKept(shared), { path: index, isShared: true })
  t.equal(await findKept(pathOf(idOf(9))), null)
  await t.rejects(openKept(pathOf(idOf(9)), anyArchive), { code: 'ENOENT' })
  const opened: string[] = []
  openEach(shared, path => {
    readFileSync(path)
    opened.push(path.replace(/^.*\//, ''))
  })
  t.strictSame(opened, [`${idOf(1)}.index`, `${idOf(0)}.zip`, `${idOf(1)}.pack`])
})

t.test('limits are those of every archive', async t => {
  const { shared } = await stage(t)
  await t.rejects(openKept(shared, { ...anyArchive, maxEntries: 2 }), { code: 'too_many_entries' })
  await t.rejects(openKept(shared, { ...anyArchive, maxExtractedBytes: 100 }), { code: 'extracted_too_large' })
})

t.test('a whole archive that became a pack is found there', async t => {
  const { shared, zip } = await stage(t)
  renameSync(zip, besideArchive(zip, 'pack'))
  t.same(await contentsOf(shared), { ...files, a: 'changed' })
})

t.test('a missing, a short and another pack are refused', async t => {
  const { shared, zip, pack, add, pathOf, idOf } = await stage(t)
  const saved = readFileSync(zip)
  rmSync(zip)
  await t.rejects(openKept(shared, anyArchive), { code: 'damaged_pack', message: /"dep_a+.pack": it is missing/ })
  writeFileSync(zip, saved.subarray(0, saved.length - 30))
  await t.rejects(openKept(shared, anyArchive), { code: 'damaged_pack' })
  writeFileSync(zip, saved)
  const own = readFileSync(pack)
  truncateSync(pack, 10)
  await t.rejects(openKept(shared, anyArchive), { code: 'damaged_pack' })
  writeFileSync(pack, own)
  await add({ ...files, a: 'other!!' })
  copyFileSync(besideArchive(pathOf(idOf(2)), 'pack'), pack)
  await t.rejects(openKept(shared, anyArchive), { code: 'damaged_index', message: /packs are not those/ })
})

t.test('an index of another archive is refused, and one that names what is not there', async t => {
  const { index, shared } = await stage(t)
  const good = readIndex(readFileSync(index), 'x')
  const other = (patch: Partial<typeof good>): void => writeFileSync(index, writeIndex({ ...good, ...patch }))
  other({ runs: [0, 1, 2, 1, 7, 1] })
  await t.rejects(openKept(shared, anyArchive), { code: 'damaged_pack', message: /lacks the entry 7/ })
  other({ runs: [0, 1, 2, 2, 0, 1] })
  await t.rejects(openKept(shared, anyArchive), { code: 'damaged_index' })
  other({ paths: [[0, 'elsewhere']] })
  await t.rejects(openKept(shared, anyArchive), { code: 'damaged_index' })
  other({})
  t.same(await contentsOf(shared), { ...files, a: 'changed' })
})

t.test(
  'each flipped bit of a pack is noticed: in its directory when it is opened, in its contents when they are read',
  async t => {
    const { shared, pack } = await stage(t)
    const saved = readFileSync(pack)
    let harmless = 0
    for (let at = 0; at < saved.length; at++) {
      const other = Buffer.from(saved)
      other.writeUInt8((other[at] as number) ^ (1 << (at % 8)), at)
      writeFileSync(pack, other)
      const found = await contentsOf(shared).catch(error => error as Error)
      if (found instanceof Error) continue
      // Sizes, names and times of a local header say nothing.
      t.same(found, { ...files, a: 'changed' }, `byte ${at}`)
      harmless++
    }
    t.ok(harmless < saved.length / 2, `${harmless} of ${saved.length} bytes say nothing`)
  }
)

t.test('times are whole seconds that a zip can contain', async t => {
  t.strictSame([secondsOf(null), secondsOf(1999), secondsOf(-1), secondsOf(1e15)], [0, 1, -1, 2 ** 31 - 1])
})
