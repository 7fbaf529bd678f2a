import { chmodSync, existsSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { readTree } from '../../lib/core/archive/tree-wire.js'
import { sha256 } from '../../lib/base/digests.js'
import { updateDeployment } from '../../lib/core/store/tables/deployments.js'
import { stageChanges } from '../support/changes-stage.js'
import { admin } from '../support/deploy-stage.js'

/** Younger changes prove nothing (core/install/untouched.ts). */
const coarseMs = 50

t.test('changes are deployed as a whole release, which can be rolled back to', async t => {
  const { stage, shop, send, read } = await stageChanges(t)
  t.equal(stage.deployer.baseOf(shop.id, null), null)
  const first = await stage.deploy(shop, { a: 'one', b: 'two', c: 'three' })
  const second = await send(shop, { a: 'one', b: 'changed', c: 'three' })
  t.match(second, { status: 'success', reusedFrom: first.id, fileCount: 3, uploadedBytes: Number })
  t.ok((second.uploadedBytes ?? 0) < (second.archiveBytes ?? 0))
  t.match(await stage.output(second.id), `1 of 3 files came, the others are those of ${first.id}`)
  t.equal(read('b'), 'changed')
  const { finished } = await stage.deployer.rollback(first.id, { actor: admin })
  t.match(await finished, { status: 'success' })
  t.equal(read('b'), 'two')
  const again = await stage.deployer.rollback(second.id, { actor: admin })
  t.match(await again.finished, { status: 'success', treeSha256: second.treeSha256 })
  t.equal(read('b'), 'changed', 'its archive is whole, without the first one')
})

t.test('the base is the release that the client knows, or else the newest one that is whole', async t => {
  const { stage, shop } = await stageChanges(t)
  const first = await stage.deploy(shop, { a: 'one' })
  const second = await stage.deploy(shop, { a: 'two' })
  const { baseOf } = stage.deployer
  t.match(baseOf(shop.id, first.treeSha256), { deployId: first.id })
  t.match(baseOf(shop.id, 'f'.repeat(64)), { deployId: second.id, treeSha256: second.treeSha256 })
  const undone = await (await stage.deployer.undo(shop.id, { actor: admin })).finished
  t.match(undone, { status: 'success', exact: true })
  t.match(baseOf(shop.id, null), { deployId: second.id }, 'a way back keeps only what it changed')
  await stage.deployer.prune(shop.id, 0)
  const kept = baseOf(shop.id, null)
  t.ok(kept === null || existsSync(join(stage.home.deployments, `${kept.deployId}.zip`)))
})

t.test('a base of another project is none, nor is one that was removed', async t => {
  const { stage, shop, send } = await stageChanges(t)
  const blog = await stage.addProject({ name: 'blog', deployPath: join(stage.directory, 'blog') })
  const { id, treeSha256 } = await stage.deploy(blog, { secret: 'of the blog' })
  await stage.deploy(shop, { a: 'one' })
  const base = { deployId: id, treeSha256: treeSha256 as string }
  await t.rejects(stage.deployer.baseTree(shop.id, id), { code: 'base_gone' })
  await t.rejects(send(shop, { a: 'one' }, base), { code: 'base_gone' })
  t.same(
    (await stage.deployer.staleFiles()).map(({ path }) => path),
    [],
    'and nothing is left of what was sent'
  )
  await stage.deployer.prune(blog.id, 0)
})

t.test('the tree of a base has short digests, enough to find what has changed', async t => {
  const { stage, shop } = await stageChanges(t)
  const { id, treeSha256 } = await stage.deploy(shop, { a: 'one', 'dir/b': 'two' })
  const body = await stage.deployer.baseTree(shop.id, id)
  t.match(gunzipSync(body).toString(), /^svc-tree 1 16\n100644 3 [0-9a-f]{16} /)
  t.equal(readTree(body).treeSha256, treeSha256)
})

t.test('what a false manifest led to is noticed before anything is changed', async t => {
  const { stage, shop, send, read } = await stageChanges(t)
  const first = await stage.deploy(shop, { a: 'one', b: 'two' })
  const manifest = join(stage.home.deployments, `${first.id}.manifest`)
  const other = sha256(Buffer.from('six')).toString('hex')
  const text = readFileSync(manifest, 'utf8')
  writeFileSync(manifest, text.replace(sha256(Buffer.from('two')).toString('hex'), other))
  const row = await send(shop, { a: 'new', b: 'six' })
  t.match(row, { status: 'failed', errorMessage: /does not contain the files that the client stated/ })
  t.strictSame([read('a'), read('b')], ['one', 'two'])
})

/** Sets the time of writing back after a change, which the time of the last change of the inode still tells. */
function editSecretly(path: string, text: string): void {
  const { atime, mtime } = statSync(path)
  writeFileSync(path, text)
  utimesSync(path, atime, mtime)
}

t.test('files that were not touched are not written again, also not read', async t => {
  const { stage, shop, send } = await stageChanges(t)
  await stage.deploy(shop, { a: 'one', b: 'two', c: 'three' })
  await sleep(coarseMs)
  await send(shop, { a: 'one', b: 'two', c: 'first' })
  const place = (name: string) => join(shop.deployPath, name)
  const before = ['a', 'b'].map(name => statSync(place(name)))
  // Nobody could read them now; root reads everything.
  for (const name of ['a', 'b']) chmodSync(place(name), 0o644)
  t.match(await send(shop, { a: 'one', b: 'two', c: 'other' }), { status: 'success', fileCount: 3 })
  t.match(await send(shop, { a: 'one', b: 'two', c: 'again' }), { status: 'success', fileCount: 3 })
  const owned = await stage.deployer.ownedTree(shop.id)
  if (owned.baseline !== 'owned') throw new Error('no tree')
  for await (const { path, ctimeMs } of owned.entries())
    if (path !== 'c') t.equal(ctimeMs, statSync(place(path)).ctimeMs, path)
  t.strictSame(
    ['a', 'b'].map(name => statSync(place(name)).ino),
    before.map(({ ino }) => ino)
  )
})

t.test('a file that was edited is put right, whatever its times say', async t => {
  const { stage, shop, send, read } = await stageChanges(t)
  await stage.deploy(shop, { a: 'one', b: 'two', c: 'three' })
  await sleep(coarseMs)
  await send(shop, { a: 'one', b: 'two', c: 'first' })
  editSecretly(join(shop.deployPath, 'a'), 'ONE')
  rmSync(join(shop.deployPath, 'b'))
  const row = await send(shop, { a: 'one', b: 'two', c: 'other' })
  t.match(row, { status: 'success' })
  t.strictSame([read('a'), read('b'), read('c')], ['one', 'two', 'other'])
})

t.test('other contents of the same size and time are found by the digest of the tree', async t => {
  const { stage, shop, send, read } = await stageChanges(t)
  await stage.deploy(shop, { a: 'one', b: 'two' })
  await sleep(coarseMs)
  // All files that are sent have one time here: nothing but the digest tells that "b" is another one.
  await send(shop, { a: 'one', b: 'TWO', c: 'x' })
  await sleep(coarseMs)
  await send(shop, { a: 'one', b: 'TWO', c: 'y' })
  t.match(await send(shop, { a: 'one', b: 'six', c: 'y' }), { status: 'success' })
  t.strictSame([read('a'), read('b'), read('c')], ['one', 'six', 'y'])
})

t.test('a rollback reads nothing of what is in place, unless the tree of its release is another one', async t => {
  const { stage, shop, send, read } = await stageChanges(t)
  const first = await stage.deploy(shop, { a: 'one', b: 'two' })
  await sleep(coarseMs)
  await send(shop, { a: 'one', b: 'other' })
  await sleep(coarseMs)
  const archive = join(stage.home.deployments, `${first.id}.zip`)
  const back = async () => {
    const row = await (await stage.deployer.rollback(first.id, { actor: admin })).finished
    await stage.deployer.ownedTree(shop.id)
    await sleep(coarseMs)
    return row
  }
  const whole = readFileSync(archive)
  const damaged = Buffer.from(whole)
  // The contents of "a" follow a header of 30 bytes and its name.
  damaged.writeUInt8((damaged[31] as number) ^ 1, 31)
  writeFileSync(archive, damaged)
  t.match(await back(), { status: 'success', treeSha256: first.treeSha256 }, '"a" proves to be in place')
  t.strictSame([read('a'), read('b')], ['one', 'two'])

  await stage.store.write(tx => updateDeployment(tx, first.id, { treeSha256: 'f'.repeat(64) }))
  t.match(await back(), { status: 'failed', errorMessage: /"a"/ }, 'everything is read')
  writeFileSync(archive, whole)
  t.match(await back(), { status: 'success', treeSha256: first.treeSha256 })
  await stage.store.write(tx => updateDeployment(tx, first.id, { treeSha256: first.treeSha256 }))
  editSecretly(join(shop.deployPath, 'a'), 'ONE')
  t.match(await back(), { status: 'success' })
  t.equal(read('a'), 'one', 'what was touched is put right')
})
