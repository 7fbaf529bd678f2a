import t from 'tap'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { compareWithBase, writeDelta } from '../../../lib/base/shared/tree-delta.js'
import { readTree } from '../../../lib/core/archive/tree-wire.js'
import { treeOf } from '../../../lib/core/archive/tree.js'
import { createBaseThread } from '../../../lib/core/install/assemble.js'
import { type Files, lay, limits, stageAssembly, zipOfSources } from '../../support/assembly-stage.js'
import { createRandom, type Random } from '../../support/random.js'
import { sourcesOf } from '../../support/planned.js'
import { snapshot } from '../../support/tree.js'
import { zipOf } from '../../support/zip.js'
import { sha256 } from '../../../lib/base/digests.js'
import { readIndex } from '../../../lib/core/archive/pack-index.js'
import { anyArchive, besideArchive, openKept, piecesOf, treeOfKept } from '../../../lib/core/archive/pack-set.js'
import { openArchive } from '../../../lib/core/archive/read.js'
import { contentsOf, sharedArchives } from '../../support/shared-archive.js'

const unlimited = { maxEntries: Infinity, maxExtractedBytes: Infinity }

t.test('the assembled archive contains what a whole push would have sent', async t => {
  const { place, keep, push } = await stageAssembly(t)
  await keep({ 'a.txt': 'one', 'dir/b.txt': 'two', 'dir/gone.txt': 'away', 'run.sh': { text: 'x', mode: 0o755 } })
  const { to, files, came, treeSha256 } = await push({
    'a.txt': 'one',
    'dir/b.txt': 'changed',
    'dir/moved.txt': 'away',
    'dir/copied.txt': 'away',
    'run.sh': { text: 'x', mode: 0o644 },
    'new/link': { link: '../a.txt' },
    'empty/': ''
  })
  t.strictSame([files, came], [6, 2], 'contents that are in the base under any name do not come')
  t.equal((await treeOfKept(to, unlimited, new AbortController().signal)).treeSha256, treeSha256)
  for (const [program, ...words] of [
    ['unzip', '-q', to, '-d', place('unzip')],
    ['python3', '-c', 'import sys, zipfile; assert zipfile.ZipFile(sys.argv[1]).testzip() is None', to]
  ] as const) {
    t.doesNotThrow(() => execFileSync(program, words, { stdio: 'pipe' }), program)
  }
  t.strictSame(snapshot(place('unzip')), snapshot(place('site')), 'and unzip finds the same files')
})

t.test('the same for random trees, one after the other', async t => {
  for (let seed = 1; seed <= 40; seed++) {
    const random = createRandom(seed)
    const { keep, push } = await stageAssembly(t, random.oneOf([0, Infinity]))
    await keep(someFiles(random))
    const { to, treeSha256 } = await push(someFiles(random))
    t.equal((await treeOfKept(to, unlimited, new AbortController().signal)).treeSha256, treeSha256, `seed ${seed}`)
  }
})

/** At least one file: a push without any is refused. */
function someFiles(random: Random): Files {
  const text = (): string => random.oneOf(['', 'a', 'b'.repeat(5000), 'c'.repeat(300_000), `${random.below(50)}`])
  const name = (): string => random.oneOf(['x', 'y', 'ü', 'sub/x', 'sub/y', 'sub/deep/z']) + random.below(4)
  const file = (): Files[string] => random.oneOf([text(), { text: text(), mode: random.oneOf([0o644, 0o755]) }])
  return { one: text(), ...Object.fromEntries(random.some(10, () => [name(), file()])) }
}

t.test('refuses what is incomplete, and what is not what the tree says', async t => {
  const { place, base, thread, keep, push } = await stageAssembly(t)
  await keep({ a: 'one', b: 'two' })
  const files = { a: 'one', b: 'changed', c: 'new' }
  await t.rejects(
    push(files, ({ paths }) => void paths.delete('b')),
    {
      code: 'assembly_incomplete',
      message: /contents of 1 file: "b"/
    }
  )
  await t.rejects(
    push(files, ({ paths }) => void paths.add('a')),
    { code: 'assembly_differs', message: /"a"/ }
  )
  await t.rejects(
    push({ ...files, c: 'newer' }, () => writeFileSync(place('site/c'), 'other')),
    { code: 'assembly_differs', message: /"c": it changed after it was compared/ }
  )
  t.notOk(existsSync(place('whole.zip')))
  rmSync(base.archive)
  await t.rejects(thread.readTree(base), { code: 'base_gone', message: /is not kept any more/ })
})

t.test('a damaged base is none: the client sends the whole archive', async t => {
  const { base, thread, keep, push } = await stageAssembly(t)
  const damages: Record<string, (path: string) => void> = {
    'it was cut off': path => truncateSync(path, 50),
    'it is empty': path => truncateSync(path, 0),
    'it is something else': path => writeFileSync(path, 'hello'),
    'contents of it were overwritten': path => writeFileSync(path, readFileSync(path).fill('x', 0, 60)),
    'a directory is in its place': path => {
      rmSync(path)
      mkdirSync(path)
    }
  }
  const gone = { code: 'base_gone', message: /cannot be read any more. Send the whole archive/ }
  for (const [what, damage] of Object.entries(damages)) {
    await keep({ a: 'one'.repeat(100), b: 'two' })
    await push({ a: 'one'.repeat(100), b: 'new' })
    damage(base.archive)
    await t.rejects(thread.readTree(base), gone, what)
    await t.rejects(push({ a: 'one'.repeat(100), b: 'newer' }), gone, what)
    rmSync(base.archive, { recursive: true })
  }
  await keep({ a: 'one', b: 'two' })
  mkdirSync(base.manifest)
  t.equal((await push({ a: 'one', b: 'new' })).came, 1, 'a manifest that cannot be read is not used')
})

t.test('refuses an archive that would be larger than the limit, before it writes it', async t => {
  const { place, base, thread, keep } = await stageAssembly(t)
  const random = createRandom(1)
  const text = Array.from({ length: 20_000 }, () => String.fromCharCode(33 + random.below(90))).join('')
  await keep({ a: text })
  const { entries } = readTree(await thread.readTree(base))
  const [a] = [...entries()]
  const copies = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`copy${i}`, text]))
  lay(place('site'), copies)
  const tree = await treeOf(await sourcesOf(place('site')))
  const delta = compareWithBase(new Map([['a', a as NonNullable<typeof a>]]), tree)
  t.equal(delta.missing.length, 0)
  const sent = { delta: place('delta'), contents: place('contents.zip') }
  writeFileSync(sent.delta, writeDelta(delta, tree.treeSha256))
  await zipOfSources([], sent.contents)
  const { treeSha256 } = tree
  const given = { base, sent, treeSha256, to: place('whole.zip') }
  await t.rejects(thread.assemble({ ...given, limits: { ...limits, maxArchiveBytes: 100_000 } }), { code: 'too_large' })
  t.notOk(existsSync(place('whole.zip')))
})

t.test('a manifest saves reading, and a false one is found when the files are staged', async t => {
  const { base, keep, push } = await stageAssembly(t)
  await keep({ a: 'one', b: 'two' })
  const line = { path: 'a', size: 3, mode: 0o100644, sha256: 'f'.repeat(64), mtimeMs: 0, ino: 1, before: null }
  writeFileSync(base.manifest, `${JSON.stringify(line)}\n`)
  const { came } = await push({ a: 'one', b: 'two' })
  t.equal(came, 1, 'the digest of the manifest is taken as it is')
  writeFileSync(base.manifest, readFileSync(base.manifest, 'utf8').slice(0, -9))
  t.equal((await push({ a: 'one', b: 'two' })).came, 0, 'one that is torn is not used')
})

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

t.test('if nothing has changed, the index of the base is taken over, and is the one that would be made', async t => {
  const { add, pathOf, top } = await sharedArchives(t)
  await add({ a: 'one', 'b/c': 'two', d: 'three' })
  const { id, ...whole } = await add({ a: 'one', 'b/c': 'changed' })
  const thread = createBaseThread({ threadBytes: Infinity })
  t.teardown(() => thread.close())
  const kept = { archive: pathOf(id), manifest: join(top, 'none') }
  const { treeSha256 } = readTree(await thread.readTree(kept))
  const sent = { delta: join(top, 'delta'), contents: join(top, 'contents.zip') }
  const assemble = async (base: object, name: string) => {
    const to = join(top, name)
    const made = await thread.assemble({ base: { ...kept, ...base }, sent, treeSha256, to, sharesWith: id, limits })
    return { ...made, index: readIndex(readFileSync(besideArchive(to, 'index')), name) }
  }
  const send = async (delta: string, directories: string[]): Promise<void> => {
    writeFileSync(sent.delta, gzipSync(delta))
    lay(join(top, 'sent'), Object.fromEntries(directories.map(path => [path, ''])))
    await zipOfSources(await sourcesOf(join(top, 'sent')), sent.contents)
  }
  const nothing = writeDelta({ changed: [], gone: [], missing: [] }, treeSha256)
  await send(nothing, [])
  const made = await assemble({}, 'made.zip')
  const [bytes, digest] = [whole.bytes, whole.sha256]
  t.match(made, { bytes, sha256: digest, came: 0, files: 2 })
  t.strictSame(await assemble({ treeSha256, whole: { bytes, sha256: digest } }, 'taken.zip'), made)
  // What the record says comes back only if it is believed.
  const other = { treeSha256, whole: { bytes, sha256: 'other' } }
  t.equal((await assemble(other, 'believed.zip')).sha256, 'other')
  t.equal((await assemble({ ...other, treeSha256: 'of another tree' }, 'tree.zip')).sha256, digest)
  await send(nothing, ['empty/'])
  t.not((await assemble(other, 'directory.zip')).sha256, 'other', 'a directory that is new is added')
})

t.test('a small archive that contains much is read by the thread, however it is asked', async t => {
  const top = t.testdir({})
  const archive = join(top, 'base.zip')
  writeFileSync(archive, await zipOf({ much: Buffer.alloc(17 * 1024 * 1024), some: Buffer.alloc(1024 * 1024) }))
  const base = { archive, manifest: join(top, 'none') }
  let threads = 0
  const count = (): void => void threads++
  process.on('worker', count)
  t.teardown(() => process.off('worker', count))
  const isInThread = async (ask: (thread: ReturnType<typeof createBaseThread>) => Promise<unknown>) => {
    const [thread, before] = [createBaseThread(), threads]
    await ask(thread).finally(thread.close)
    return threads > before
  }
  t.equal(await isInThread(thread => thread.readSums(base, [1])), false)
  t.equal(await isInThread(thread => thread.readSums(base, Array(17).fill(1))), true, 'one file, many times')
  t.equal(await isInThread(thread => thread.readSums(base, [0])), true)
  t.equal(await isInThread(thread => thread.readTree(base)), true)
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
