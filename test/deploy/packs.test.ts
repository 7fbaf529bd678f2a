import { writeFileSync, chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { sha256 } from '../../lib/base/digests.js'
import { writeTrailer } from '../../lib/core/archive/pack-index.js'
import { anyArchive, openKept, piecesOf } from '../../lib/core/archive/pack-set.js'
import { createFiles } from '../../lib/deploy/files.js'
import { shareArchive } from '../../lib/core/install/assemble.js'
import { Packs } from '../../lib/deploy/packs.js'
import { admin, never } from '../support/deploy-stage.js'
import { openDirectory } from '../support/open-directory.js'
import { maySwitchUser } from '../../lib/core/proc/identity.js'
import { stageChanges } from '../support/changes-stage.js'
import { createRandom } from '../support/random.js'
import { contentsOf, sharedArchives } from '../support/shared-archive.js'
import { repetitions } from '../support/thorough.js'
import { zipOf } from '../support/zips.js'

/** Files of a build, of which some change. */
function createBuild(count: number, bytes: number) {
  const random = createRandom(count)
  const text = (): string => {
    let made = ''
    while (made.length < bytes) made += `${random.below(2 ** 31).toString(36)} ${random.below(1000)} const\n`
    return made.slice(0, bytes)
  }
  const files: Record<string, string> = {}
  for (let n = 0; n < count; n++) files[`d${n % 20}/f${n}.js`] = text()
  const paths = Object.keys(files)
  return {
    files: (): Record<string, string> => ({ ...files }),
    change(changes: number): void {
      for (let n = 0; n < changes; n++) files[random.oneOf(paths)] = text()
    }
  }
}

function bytesIn(directory: string): number {
  return readdirSync(directory)
    .filter(name => /^dep_\w+\.(zip|index|pack)$/.test(name))
    .reduce((sum, name) => sum + statSync(join(directory, name)).size, 0)
}

t.test('ten releases that are 1 % apart cost at most 1.2 times one, and each can be rolled back to', async t => {
  const { stage, shop, send } = await stageChanges(t)
  const build = createBuild(800, 2000)
  const releases = [{ files: build.files(), row: await stage.deploy(shop, build.files()) }]
  const one = bytesIn(stage.home.deployments)
  for (let push = 1; push < 10; push++) {
    build.change(8)
    releases.push({ files: build.files(), row: await send(shop, build.files()) })
  }
  const all = bytesIn(stage.home.deployments)
  t.ok(all <= 1.2 * one, `ten: ${all} bytes, one: ${one} bytes, ${(all / one).toFixed(3)} times`)
  for (const { row, files } of releases) {
    const archive = await openKept(createFiles(stage.home).archive(row.id), anyArchive)
    const pieces: Buffer[] = []
    for await (const piece of piecesOf(archive.file)) pieces.push(Buffer.from(piece))
    archive.close()
    t.equal(sha256(Buffer.concat(pieces)).toString('hex'), row.archiveSha256, 'the record is true')
    t.equal(archive.fileSize, row.archiveBytes)
    const again = await (await stage.deployer.rollback(row.id, { actor: admin })).finished
    t.match(again, { status: 'success', treeSha256: row.treeSha256 })
    for (const [path, text] of Object.entries(files))
      if (readFileSync(join(shop.deployPath, path), 'utf8') !== text) t.fail(`${row.id} ${path}`)
  }
})

t.test('pruning moves nothing that others need, in whatever order releases go', async t => {
  for (const order of [
    [0, 1, 2, 3],
    [3, 2, 1, 0],
    [1, 3, 0, 2]
  ]) {
    const { stage, shop, send } = await stageChanges(t)
    stage.values.keep_undo = 0
    const build = createBuild(50, 500)
    const releases = [{ files: build.files(), row: await stage.deploy(shop, build.files()) }]
    for (let push = 1; push < 5; push++) {
      build.change(5)
      releases.push({ files: build.files(), row: await send(shop, build.files()) })
    }
    const files = createFiles(stage.home)
    for (const [at, gone] of order.entries()) {
      await stage.deployer.deleteArchive((releases[gone] as (typeof releases)[0]).row.id, { force: true, actor: admin })
      for (const [number, { row, files: wanted }] of releases.entries()) {
        if (order.slice(0, at + 1).includes(number)) t.notOk(files.packs.has(row.id))
        else
          t.same(sorted(await contentsOf(files.archive(row.id))), sorted(wanted), `${order}: ${number} after ${gone}`)
      }
    }
    const last = releases.at(-1)?.row.id as string
    await (await stage.deployer.rollback(last, { actor: admin })).finished
  }
})

const sorted = (files: Record<string, string>): Array<[string, string]> =>
  Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1))

t.test('when the last index goes, so do its packs', async t => {
  const { top, add, pathOf } = await sharedArchives(t)
  const packs = new Packs(join(top, 'deployments'))
  const ids: string[] = []
  for (const a of ['one', 'two', 'three'].map(text => text.repeat(100)))
    ids.push((await add({ a, b: 'same'.repeat(500) })).id)
  let freed = 0
  for (const id of ids) freed += (await packs.remove(id)).freedBytes
  t.ok(freed > 0)
  t.same(readdirSync(join(top, 'deployments')), [])
  t.same(await packs.remove(ids[0] as string), { wasThere: false, freedBytes: 0 })
  t.notOk(existsSync(pathOf(ids[0] as string)))
})

t.test('an archive is made whole for nodes, with the bytes that its record names', async t => {
  const { stage, shop, send } = await stageChanges(t)
  const first = await stage.deploy(shop, { a: 'one', b: 'two'.repeat(300) })
  const second = await send(shop, { a: 'changed', b: 'two'.repeat(300) })
  const third = await send(shop, { a: 'again', b: 'two'.repeat(300) })
  const { packs, archive } = createFiles(stage.home)
  await packs.makeWhole(second.id)
  const bytes = readFileSync(archive(second.id))
  t.equal(sha256(bytes).toString('hex'), second.archiveSha256)
  t.equal(bytes.length, second.archiveBytes)
  for (const { id } of [first, second, third]) t.equal((await contentsOf(archive(id)))['b'], 'two'.repeat(300))
  await packs.makeWhole(first.id)
  t.match(await (await stage.deployer.rollback(second.id, { actor: admin })).finished, { status: 'success' })
})

t.test('an archive that is made whole while changes of it are assembled takes no pack from them', async t => {
  for (const isShared of [true, false]) {
    const { top, add, pathOf, idOf } = await sharedArchives(t)
    const [b, upload, kept] = ['same'.repeat(500), join(top, 'tmp/upload.zip'), idOf(9)]
    await add({ a: 'one', b })
    const { id } = await add({ a: 'two'.repeat(200), b })
    if (isShared) await add({ a: 'two'.repeat(200), b, c: 'three' })
    const archive = await openKept(pathOf(id), anyArchive)
    const entries = archive.entries.map(({ path }) => ({ path, mode: 0o100644, mtimeMs: 0, source: pathOf(id) }))
    await shareArchive(upload, entries, { archive, path: pathOf(id), deployId: id })
    archive.close()
    const packs = new Packs(join(top, 'deployments'))
    await packs.makeWhole(id)
    if (isShared) {
      await packs.keep(upload, kept)
      t.same(await contentsOf(pathOf(kept)), { a: 'two'.repeat(200), b }, 'another release needs the pack')
    } else {
      await t.rejects(packs.keep(upload, kept), { code: 'base_gone' })
      t.notOk(packs.has(kept))
    }
  }
})

t.test('changes of an archive that was made whole do not mean the pack that others still need of it', async t => {
  const { stage, shop, send, read } = await stageChanges(t)
  const b = 'two'.repeat(300)
  await stage.deploy(shop, { a: 'one', b })
  const second = await send(shop, { b, y: 'second', z: 'changed' })
  const third = await send(shop, { a: 'again', b, y: 'second' })
  await stage.deployer.makeWhole(second.id)
  const base = { deployId: second.id, treeSha256: second.treeSha256 as string }
  const fourth = await send(shop, { b, y: 'fourth', z: 'changed' }, base)
  t.match(fourth, { status: 'success', reusedFrom: second.id, errorMessage: null })
  t.same(['b', 'y', 'z'].map(read), [b, 'fourth', 'changed'])
  for (const { id } of [second, third, fourth]) {
    const { status, errorMessage } = await (await stage.deployer.rollback(id, { actor: admin })).finished
    t.equal(status, 'success', errorMessage ?? '')
  }
})

t.test(
  'a pack is made smaller when most of it is not needed any more, and keeps the numbers of the others',
  async t => {
    const { top, add, pathOf } = await sharedArchives(t)
    const packs = new Packs(join(top, 'deployments'))
    const build = createBuild(200, 16_000)
    const ids = [(await add(build.files())).id]
    const kept: Array<{ id: string; files: Record<string, string> }> = []
    for (let push = 0; push < 12; push++) {
      build.change(20)
      kept.push({ files: build.files(), id: (await add(build.files())).id })
    }
    let freed = 0
    const before = bytesIn(join(top, 'deployments'))
    for (const id of [...ids, ...kept.splice(0, 8).map(({ id }) => id)]) {
      const { freedBytes } = await packs.remove(id)
      packs.shrinkLater(
        bytes => (freed += bytes),
        (_, error) => t.fail(String(error))
      )
      await packs.idle()
      freed += freedBytes
      for (const { id, files } of kept) t.same(sorted(await contentsOf(pathOf(id))), sorted(files), id)
    }
    t.equal(before - bytesIn(join(top, 'deployments')), freed, 'and the bytes freed are told')
    const whole = (await openKept(pathOf(kept.at(-1)?.id as string), anyArchive)).fileSize
    t.ok(bytesIn(join(top, 'deployments')) < 1.7 * whole, `${bytesIn(join(top, 'deployments'))} bytes, one: ${whole}`)
  }
)

t.test('a process that is killed while it prunes leaves every other release readable', async t => {
  const random = createRandom(Date.now() % 1e6)
  const program = fileURLToPath(new URL('./packs-killed.js', import.meta.url))
  for (let round = 0; round < repetitions(2, 8); round++) {
    const { top, add, pathOf } = await sharedArchives(t)
    const build = createBuild(100, 3000)
    const releases = [{ id: (await add(build.files())).id, files: build.files() }]
    for (let push = 0; push < 7; push++) {
      build.change(15)
      releases.push({ id: (await add(build.files())).id, files: build.files() })
    }
    const going = releases.splice(0, 5)
    const child = spawn(process.execPath, [program, join(top, 'deployments'), ...going.map(({ id }) => id)])
    const closed = once(child, 'close')
    await once(child.stdout, 'data')
    await sleep(random.below(round === 0 ? 1 : 60))
    child.kill('SIGKILL')
    await closed
    const packs = new Packs(join(top, 'deployments'))
    for (const { id, files } of releases) t.same(sorted(await contentsOf(pathOf(id))), sorted(files), `round ${round}`)
    for (const { id } of going) await packs.remove(id)
    await packs.removeLeft()
    for (const { id, files } of releases) t.same(sorted(await contentsOf(pathOf(id))), sorted(files), `round ${round}`)
    for (const { id } of releases) await packs.remove(id)
    t.same(
      readdirSync(join(top, 'deployments')).filter(name => !name.endsWith('.tmp')),
      []
    )
  }
})

t.test(
  'the user of a project gets the packs as open files',
  maySwitchUser() ? {} : { skip: 'only root on Linux can switch to another user' },
  async t => {
    const { stage, send } = await stageChanges(t)
    const deployPath = join(openDirectory(t), 'site')
    mkdirSync(deployPath)
    chmodSync(deployPath, 0o777)
    const project = await stage.addProject({ deployPath, runAs: 'nobody' })
    const same = 'same'.repeat(300)
    await stage.deploy(project, { a: 'one', b: same })
    const second = await send(project, { a: 'two', b: same })
    t.match(second, { status: 'success' })
    const third = await send(project, { a: 'three', b: same, c: 'new' })
    t.match(third, { status: 'success' })
    t.match(await (await stage.deployer.rollback(second.id, { actor: admin })).finished, { status: 'success' })
    t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), 'two')
    const undone = await (await stage.deployer.undo(project.id, { actor: admin })).finished
    t.match(undone, { status: 'success' }, await stage.output(undone.id))
    t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), 'three')
    t.equal(statSync(join(deployPath, 'a')).uid, 65534)
  }
)

t.test('an undo and a repair find contents in archives that share them', async t => {
  const { stage, shop, send, read } = await stageChanges(t)
  const same = 'same'.repeat(300)
  await stage.deploy(shop, { a: 'one', b: same })
  await send(shop, { a: 'two', b: same })
  await send(shop, { a: 'three', b: same, c: 'new' })
  t.match(stage.deployer.exactWindow(shop.id), { exactBackTo: { steps: 3 } })
  const ended = async (run: Promise<{ finished: Promise<{ id: string; status: string }> }>): Promise<void> => {
    const row = await (await run).finished
    t.equal(row.status, 'success', await stage.output(row.id))
  }
  await ended(stage.deployer.undo(shop.id, { actor: admin }))
  t.equal(read('a'), 'two')
  await ended(stage.deployer.undo(shop.id, { actor: admin }))
  t.equal(read('a'), 'three', 'an undo is undone')
  for (const path of ['a', 'b', 'c']) writeFileSync(join(shop.deployPath, path), 'edited')
  await ended(stage.deployer.repair(shop.id, { actor: admin, signal: never }))
  t.strictSame(['a', 'b', 'c'].map(read), ['three', same, 'new'])
})

t.test('nothing is shared with an upload whose comment looks like the end of a pack', async t => {
  const { stage, shop, send, read } = await stageChanges(t)
  const files = { 'a.txt': 'one'.repeat(300), 'b.txt': 'two'.repeat(300) }
  // Its runs would give the entries other numbers.
  const comment = writeTrailer([7, 8])
  const zip = await zipOf(files)
  zip.writeUInt16LE(comment.length, zip.length - 2)
  const bytes = Buffer.concat([zip, comment])
  const received = await stage.deployer.receive(Readable.from([bytes]), { limitBytes: 1e9, signal: never })
  const run = await stage.deployer.deploy(received, { projectId: shop.id, env: {}, actor: admin })
  const first = await run.finished
  t.match(first, { status: 'success' })
  const second = await send(shop, { ...files, 'a.txt': 'new' })
  t.match(second, { status: 'success', reusedFrom: first.id })
  const third = await send(shop, { ...files, 'b.txt': 'newer' })
  t.match(third, { status: 'success', reusedFrom: second.id })
  await stage.deployer.deleteArchive(first.id, { force: true, actor: admin })
  t.match(await (await stage.deployer.rollback(second.id, { actor: admin })).finished, { status: 'success' })
  t.same([read('a.txt'), read('b.txt')], ['new', files['b.txt']])
})
