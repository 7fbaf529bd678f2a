import t, { type Test } from 'tap'
import { readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { ZipSource } from '../../../lib/core/archive/source.js'
import { sha256 } from '../../../lib/base/digests.js'
import { treeOf } from '../../../lib/core/archive/tree.js'
import { emptyIndex, indexPath, readIndex, writeIndex } from '../../../lib/cli/pack/push-index.js'
import { sourcesOf } from '../../support/planned.js'

/** An index of files that were written long before it. */
async function stageIndex(t: Test, files: Parameters<Test['testdir']>[0], walkedMs = Date.now() + 60_000) {
  const site = t.testdir(files)
  const path = join(t.testdirName, '../', `${Math.random()}.idx`)
  const tree = { ...(await treeOf(await sourcesOf(site))), walkedMs }
  await writeIndex(path, tree)
  /** The paths that the index does not know any more. */
  async function unknown(): Promise<string[]> {
    const index = await readIndex(path)
    return (await sourcesOf(site)).filter(source => index.known(source) === undefined).map(source => source.path)
  }
  return { site, path, tree, unknown, place: (name: string) => join(site, name) }
}

t.test('files that are as they were need not be read', async t => {
  const { path, tree, unknown } = await stageIndex(t, {
    a: 'one',
    'b c ü': 'two',
    dir: { x: 'three' },
    'dir.x': 'four'
  })
  t.strictSame(await unknown(), [])
  const index = await readIndex(path)
  t.equal(index.treeSha256, tree.treeSha256)
  t.ok(index.isOf(tree), 'it need not be written again')
  t.notOk(index.isOf({ treeSha256: 'other' }))
  t.strictSame(
    [...index.entries.values()].map(({ path, sha256 }) => [path, sha256]),
    tree.entries.map(({ path, sha256 }) => [path, sha256])
  )
  t.equal(statSync(path).mode & 0o777, 0o600)
})

t.test('any other size, time or inode is read again', async t => {
  const { unknown, place, path, site, tree } = await stageIndex(t, {
    size: '1',
    time: '2',
    copied: '3',
    back: '4',
    same: '5'
  })
  writeFileSync(place('size'), '11')
  utimesSync(place('time'), 1, 1)
  writeFileSync(place('other'), '3')
  const { atime, mtime } = statSync(place('copied'))
  utimesSync(place('other'), atime, mtime)
  renameSync(place('other'), place('copied'))
  const before = statSync(place('back'))
  writeFileSync(place('back'), 'x')
  utimesSync(place('back'), before.atime, before.mtime)
  t.strictSame(await unknown(), ['back', 'copied', 'size', 'time'], 'also if the time of writing was set back')
  const [index, sources] = [await readIndex(path), await sourcesOf(site)]
  const known = (all: ZipSource[]) => all.filter(source => index.known(source) !== undefined).map(each => each.path)
  t.strictSame(known(sources), ['same'])
  t.strictSame(known(sources.reverse()), ['same'], 'in any order')
  t.notOk(index.isOf(tree), 'files had to be read')
})

t.test('files that were written in the moment of the walk, or in its future, are read again', async t => {
  const { unknown, path, tree, place } = await stageIndex(t, { a: 'one', b: 'two' }, Date.now() + 500)
  t.strictSame(await unknown(), ['a', 'b'])
  await writeIndex(path, { ...tree, walkedMs: statSync(place('a')).ctimeMs - 3_600_000 })
  t.strictSame(await unknown(), ['a', 'b'], 'the clock was set back')
})

t.test('a damaged index, one of another machine and a missing one know nothing', async t => {
  const { path, tree } = await stageIndex(t, { a: 'one' })
  const text = readFileSync(path, 'utf8')
  const spoilt = {
    cut: text.slice(0, -20),
    flipped: text.replace(/[0-9a-f]{64} a\n/, found => `${found.startsWith('0') ? '1' : '0'}${found.slice(1)}`),
    'another machine': sealed(text.replace(hostname(), `not-${hostname()}`)),
    'another format': sealed(text.replace('svc-index 1', 'svc-index 2')),
    empty: '',
    binary: '\0\xff\n\n'
  }
  for (const [name, contents] of Object.entries(spoilt)) {
    writeFileSync(path, contents)
    t.ok(await knowsNothing(path), name)
  }
  t.ok(await knowsNothing(`${path}.missing`))

  async function knowsNothing(place: string): Promise<boolean> {
    const { treeSha256, entries, known } = await readIndex(place)
    return (
      treeSha256 === null &&
      [...entries.values()].length === 0 &&
      tree.sources.every(source => known(source) === undefined)
    )
  }
  t.equal(emptyIndex.known({} as never), undefined)
})

const many = Object.fromEntries(Array.from({ length: 120 }, (_, at) => [`${at}`, `contents of ${at}`]))

t.test('many files that had to be read are remembered, and the tree of the server stays', async t => {
  const { site, path, tree, unknown, place } = await stageIndex(t, { ...many, gone: '1', other: '2' }, Date.now())
  rmSync(place('gone'))
  writeFileSync(place('other'), '3')
  writeFileSync(place('new'), '4')
  async function refresh(): Promise<void> {
    const index = await readIndex(path)
    const sources = await sourcesOf(site)
    await index.refresh({ ...(await treeOf(sources, index)), sources, walkedMs: Date.now() + 60_000 })
  }
  t.equal((await unknown()).length, 122, 'all were written in the moment of the walk')
  await refresh()
  t.strictSame(await unknown(), ['new', 'other'], 'those that the server does not have are read again')
  const { treeSha256, entries } = await readIndex(path)
  t.equal(treeSha256, tree.treeSha256)
  t.strictSame(
    [...entries.values()].map(({ path, sha256 }) => [path, sha256]),
    tree.entries.map(({ path, sha256 }) => [path, sha256])
  )
  const { ino } = statSync(path)
  await refresh()
  t.equal(statSync(path).ino, ino, 'a few files are no reason to write it')
})

t.test('files are remembered before the first push, without a tree of the server', async t => {
  const { site, path, unknown } = await stageIndex(t, many)
  rmSync(path)
  const index = await readIndex(path)
  const sources = await sourcesOf(site)
  await index.refresh({ ...(await treeOf(sources, index)), sources, walkedMs: Date.now() + 60_000 })
  t.strictSame(await unknown(), [])
  t.equal((await readIndex(path)).treeSha256, null)
})

/** Gives a text the digest that it ends with. */
function sealed(text: string): string {
  const above = text.slice(0, text.lastIndexOf('end '))
  return `${above}end ${sha256(Buffer.from(above)).toString('hex')}\n`
}

t.test('an index that cannot be written is no error', async t => {
  const { tree } = await stageIndex(t, { a: 'one' })
  const file = join(t.testdirName, 'a')
  await t.resolves(writeIndex(join(file, 'below', 'x.idx'), tree))
})

t.test('each project on each server has an index of its own, beside the configuration', t => {
  const context = { env: { SVC_HOME: '/home/ana/.svc' }, cwd: '/' }
  const one = indexPath(context, { projectId: 'proj_1', address: 'https://a.test' })
  t.match(one, /^\/home\/ana\/\.svc\/index\/[0-9a-f]{32}\.idx$/)
  t.not(one, indexPath(context, { projectId: 'proj_2', address: 'https://a.test' }))
  t.not(one, indexPath(context, { projectId: 'proj_1', address: 'https://b.test' }))
  t.end()
})
