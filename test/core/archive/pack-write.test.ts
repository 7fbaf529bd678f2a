import { execFileSync } from 'node:child_process'
import { existsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { sha256 } from '../../../lib/base/digests.js'
import { anyArchive, besideArchive, openKept, piecesOf } from '../../../lib/core/archive/pack-set.js'
import { openArchive } from '../../../lib/core/archive/read.js'
import { createRandom } from '../../support/random.js'
import { contentsOf, sharedArchives } from '../../support/shared-archive.js'

async function wholeOf(path: string): Promise<Buffer> {
  const archive = await openKept(path, anyArchive)
  try {
    const pieces: Buffer[] = []
    for await (const piece of piecesOf(archive.file)) pieces.push(Buffer.from(piece))
    return Buffer.concat(pieces)
  } finally {
    archive.close()
  }
}

t.test('a chain of archives is read as the whole archives that they stand for', async t => {
  const { top, add, pathOf } = await sharedArchives(t)
  const random = createRandom(7)
  let files: Record<string, string> = {}
  const text = (): string =>
    Array.from({ length: 1 + random.below(200) }, () => random.below(1e9).toString(36)).join(' ')
  for (let n = 0; n < 60; n++) files[`d${n % 5}/f${n}`] = text()
  await add(files)
  const all: Array<{ id: string; files: Record<string, string>; sha256: string; bytes: number }> = []
  for (let push = 1; push < 8; push++) {
    files = { ...files, [`d${push}/f${random.below(60)}`]: text(), [`new${push}`]: text() }
    delete files[`d${push % 5}/f${push}`]
    all.push({ files, ...(await add(files, 1_700_000_000_000 + (push % 2) * 1000)) })
  }
  for (const { id, files, ...stated } of all) {
    t.strictSame(await contentsOf(pathOf(id)), await inOrder(files, pathOf(id)), id)
    const whole = await wholeOf(pathOf(id))
    t.equal(whole.length, stated.bytes)
    t.equal(sha256(whole).toString('hex'), stated.sha256, 'the whole zip is the one that was hashed')
    const path = join(top, `${id}-whole.zip`)
    writeFileSync(path, whole)
    const [shared, read] = [await openKept(pathOf(id), anyArchive), await openArchive(path, anyArchive)]
    t.strictSame(shared.entries, read.entries, 'its directory says the same')
    t.equal(shared.totalBytes, read.totalBytes)
    shared.close()
    read.close()
    execFileSync('python3', ['-c', 'import sys, zipfile; assert zipfile.ZipFile(sys.argv[1]).testzip() is None', path])
    execFileSync('unzip', ['-tq', path])
  }
})

async function inOrder(files: Record<string, string>, path: string): Promise<Record<string, string>> {
  const keys = Object.keys(await contentsOf(path))
  t.equal(keys.length, Object.keys(files).length)
  return Object.fromEntries(keys.map(key => [key, files[key] as string]))
}

t.test('the bytes of the whole zip do not depend on the time zone', async t => {
  const { add, pathOf } = await sharedArchives(t)
  await add({ a: 'one', b: 'two' })
  const { id, sha256: stated } = await add({ a: 'one', b: 'three' })
  const before = process.env['TZ']
  t.teardown(() => {
    if (before === undefined) delete process.env['TZ']
    else process.env['TZ'] = before
  })
  for (const zone of ['Asia/Shanghai', 'America/New_York', 'UTC']) {
    process.env['TZ'] = zone
    t.equal(sha256(await wholeOf(pathOf(id))).toString('hex'), stated, zone)
  }
})

t.test('an archive without new contents has no pack of its own', async t => {
  const { add, pathOf } = await sharedArchives(t)
  await add({ a: 'one', b: 'two' })
  const { id } = await add({ a: 'one' })
  t.notOk(existsSync(besideArchive(pathOf(id), 'pack')))
  t.same(await contentsOf(pathOf(id)), { a: 'one' })
})

t.test('what an archive stores is what came, whatever the times of the others are', async t => {
  const { add, pathOf } = await sharedArchives(t)
  const files: Record<string, string> = {}
  const random = createRandom(3)
  for (let n = 0; n < 2000; n++)
    files[`d${n % 50}/f${n}.js`] = random
      .below(2 ** 31)
      .toString(36)
      .repeat(40)
  await add(files)
  const { id, bytes, storedBytes } = await add({ ...files, 'd1/f1.js': 'changed' }, 1_710_000_000_000)
  t.ok(storedBytes < bytes / 30, `${storedBytes} of ${bytes} bytes`)
  const sizes = (['index', 'pack'] as const).map(ending => statSync(besideArchive(pathOf(id), ending)).size)
  t.ok(Math.abs(storedBytes - (sizes[0] as number) - (sizes[1] as number)) < 10, 'but for the name of its pack')
})

t.test('an archive of many packs takes over the entries of small ones', async t => {
  const { add, pathOf } = await sharedArchives(t)
  let files: Record<string, string> = { big: 'x'.repeat(100_000) }
  await add(files)
  let most = 0
  for (let push = 1; push < 60; push++) {
    files = { ...files, [`f${push}`]: `contents ${push}` }
    const { id } = await add(files)
    const archive = await openKept(pathOf(id), anyArchive)
    most = Math.max(most, archive.packs?.packs.length ?? 0)
    archive.close()
    if (push % 10 === 0) t.same(await contentsOf(pathOf(id)), files, `push ${push}`)
  }
  t.ok(most <= 26, `${most} packs`)
})
