import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { sha256 } from '../../lib/base/digests.js'
import { anyArchive, openKept, piecesOf } from '../../lib/core/archive/pack-set.js'
import { createFiles } from '../../lib/deploy/files.js'
import { createPacks } from '../../lib/deploy/packs.js'
import { admin } from '../support/deploy-stage.js'
import { stageChanges } from '../support/changes-stage.js'
import { createRandom } from '../support/random.js'
import { contentsOf, sharedArchives } from '../support/shared-archive.js'

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
  const packs = createPacks(join(top, 'deployments'))
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
