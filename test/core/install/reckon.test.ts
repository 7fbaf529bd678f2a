import t, { type Test } from 'tap'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openArchive } from '../../../lib/core/archive/read.js'
import { createEntryReader } from '../../../lib/core/archive/entry-data.js'
import { sha256 } from '../../../lib/base/digests.js'
import { beforeAt } from '../../../lib/core/install/before-images.js'
import { createDigester } from '../../../lib/core/install/found-entry.js'
import { disk } from '../../../lib/core/install/disk.js'
import { holdFolders, holdTarget } from '../../../lib/core/install/held.js'
import { canonicalOrder } from '../../../lib/core/install/manifest-writer.js'
import type { Ownership } from '../../../lib/core/install/ownership.js'
import { createRecords, type Item, type Outcome, planTarget, type Records } from '../../../lib/core/install/plan.js'
import { reckon, type Reckoned } from '../../../lib/core/install/reckon.js'
import { ownedTree } from '../../support/pruning.js'

/** The target, the tree of what svc owns in it, and what the archive wants. All by path; `/` ends a directory. */
interface Scene {
  found: Record<string, string>
  owned: Record<string, string>
  wanted: Record<string, string>
  asked?: Partial<Ownership>
}

interface Result extends Reckoned {
  outcome(path: string): Outcome
  keptAt(path: string): unknown
  beforeImages(): Promise<Record<string, string>>
}

const defaults: Omit<Ownership, 'tree'> = {
  edited: 'warn',
  removes: null,
  exact: null,
  archives: ['dep_1'],
  before: { maxBytes: 1000, isRequired: false }
}
const pruning = { kind: 'absent', protect: [], isForced: false } as const

/** Stages `wanted` over `found` as an extraction does, and reckons. */
async function reckonIn(t: Test, { found, owned, wanted, asked }: Scene): Promise<Result> {
  const top = t.testdir({ target: {}, staging: { files: {} }, home: {} })
  const target = join(top, 'target')
  for (const [path, contents] of Object.entries(found)) {
    const place = join(target, path)
    mkdirSync(path.endsWith('/') ? place : join(place, '..'), { recursive: true })
    if (!path.endsWith('/')) writeFileSync(place, contents)
  }
  const items = Object.entries(wanted).map(
    ([path, { length }]): Item => ({ path, kind: 'file', size: length, mode: 0o644, mtimeMs: 0 })
  )
  const root = holdTarget(disk, target)
  const folders = holdFolders(disk, root)
  t.teardown(() => {
    folders.close()
    root.close()
  })
  const plan = planTarget(disk, root, items)
  const records = createRecords(items.length)
  for (const [at, { path }] of items.entries()) {
    stageOne(records, at, { place: join(target, path), contents: wanted[path] as string })
    const staged = join(top, 'staging/files', path)
    mkdirSync(join(staged, '..'), { recursive: true })
    writeFileSync(staged, '')
  }
  const ownership = { ...defaults, tree: await ownedTree(owned), ...asked }
  const before = join(top, 'home/before.zip')
  const order = canonicalOrder(items)
  const needs = { disk, folders, items, order, records, plan, before: beforeAt(disk, before), check: () => {} }
  const reckoned = await reckon(ownership, { ...needs, staging: join(top, 'staging') })
  const indexOf = (path: string): number => items.findIndex(item => item.path === path)
  return {
    ...reckoned,
    outcome: path => records.outcome(indexOf(path)),
    keptAt: path => reckoned.keptOf(indexOf(path)),
    beforeImages: () => contentsOf(before)
  }
}

function stageOne(records: Records, at: number, { place, contents }: { place: string; contents: string }): void {
  const found = createDigester(disk).file(place)
  if (found !== null) {
    records.setExisting(at, 'file')
    records.setBefore(at, found, found.stats)
  }
  const wanted = sha256(Buffer.from(contents))
  const isSame = found !== null && Buffer.compare(found.sha256, wanted) === 0
  records.settle(at, isSame ? 'unchanged' : 'staged', { mode: 0o100644, gid: 0, sha256: wanted, mtimeMs: 0, ino: 1 })
}

async function contentsOf(path: string): Promise<Record<string, string>> {
  const archive = await openArchive(path, { maxEntries: 100, maxExtractedBytes: 1e9 })
  const reader = createEntryReader(archive)
  const found: Record<string, string> = {}
  for (const entry of archive.entries)
    await reader.read(entry, piece => (found[entry.path] = `${found[entry.path] ?? ''}${piece.toString()}`))
  archive.close()
  return found
}

t.test('finds the files that somebody edited or made and that would be replaced, and no others', async t => {
  const scene: Scene = {
    owned: { a: 'a', b: 'b', c: 'c', d: 'd', f: 'f' },
    found: { a: 'a', b: 'edited', c: 'new', f: 'edited', 'not-owned': 'mine' },
    wanted: { f: 'new', a: 'new', b: 'new', c: 'new', d: 'new', 'not-owned': 'new' }
  }
  const { replaced, keptAt, beforeFrom, beforeImages } = await reckonIn(t, scene)
  t.strictSame(replaced, {
    count: 3,
    files: [
      { path: 'b', since: 'dep_1' },
      { path: 'f', since: 'dep_1' },
      { path: 'not-owned', since: '' }
    ]
  })
  t.strictSame(['a', 'b', 'c', 'd', 'not-owned'].map(keptAt), [
    'archive:dep_1',
    'before',
    undefined,
    undefined,
    'before'
  ])
  t.strictSame(beforeFrom, ['dep_1', 'before'])
  t.strictSame(await beforeImages(), { b: 'edited', f: 'edited', 'not-owned': 'mine' })
  await t.rejects(reckonIn(t, { ...scene, asked: { edited: 'refuse' } }), {
    kind: 'conflict',
    code: 'target_drifted',
    message: /^Nothing was changed: "b", "f", "not-owned" were edited on the server, or put there by somebody else/
  })
})

t.test('lists twenty files, names three, and counts all', async t => {
  const paths = Array.from({ length: 25 }, (_, i) => `f${String(i).padStart(2, '0')}`)
  const each = (contents: string): Record<string, string> => Object.fromEntries(paths.map(path => [path, contents]))
  const scene = { owned: each('a'), found: each('edited'), wanted: each('new') }
  const { count, files } = (await reckonIn(t, scene)).replaced
  t.strictSame([count, files.length], [25, 20])
  await t.rejects(reckonIn(t, { ...scene, asked: { edited: 'refuse' } }), {
    message: '"f00", "f01", "f02", and 22 more were'
  })
})

t.test('reads no tree if nothing is replaced, and does without one that is damaged', async t => {
  const tree = Buffer.from('damaged')
  const unchanged = { owned: {}, found: { a: 'a' }, wanted: { a: 'a' } }
  t.match(await reckonIn(t, { ...unchanged, asked: { tree, edited: 'refuse' } }), { replaced: { count: 0 } })
  const changed = { ...unchanged, wanted: { a: 'b' } }
  const warned = await reckonIn(t, { ...changed, asked: { tree } })
  t.match([warned.replaced.count, warned.keptAt('a')], [0, 'before'])
  for (const asked of [{ edited: 'refuse' }, { edited: 'keep' }, { removes: pruning }] as const) {
    await t.rejects(reckonIn(t, { ...changed, asked: { tree, ...asked } }))
  }
})

t.test('prunes owned files that are as svc put them there', async t => {
  const { removed, directories, kept, keptAt } = await reckonIn(t, {
    owned: {
      'a/': '',
      'a/b/': '',
      'a/b/1': '1',
      'a/2': '2',
      edited: 'x',
      gone: 'x',
      'full/': '',
      'full/3': '3',
      'p/': '',
      'p/4': '4'
    },
    found: { 'a/b/1': '1', 'a/2': '2', edited: 'y', mine: 'm', 'full/3': '3', 'full/mine': 'm', 'p/4': '4' },
    wanted: { new: 'n' },
    asked: { removes: { ...pruning, protect: ['p/**'] }, archives: [] }
  })
  t.strictSame(
    removed.map(({ path, before }) => [path, before.kept]),
    [
      ['a/2', 'before'],
      ['a/b/1', 'before'],
      ['full/3', 'before']
    ]
  )
  t.strictSame(
    directories.map(({ path }) => path),
    ['a/b', 'a']
  )
  t.match(kept, { count: 1, files: [{ path: 'edited' }] })
  t.equal(keptAt('new'), undefined)
})

t.test('removes named files only, and named directories that become empty', async t => {
  const asked = {
    removes: { kind: 'listed', paths: Buffer.from('d/1\ne/2\n') } as const,
    exact: { wanted: Buffer.from(''), directories: Buffer.from('d\ne\n') }
  }
  const scene = {
    owned: { 'd/1': '1', 'e/2': '2', other: 'o' },
    found: { 'd/1': '1', 'e/2': 'edited', 'e/mine': 'm', other: 'o' },
    wanted: {}
  }
  const careful = await reckonIn(t, { ...scene, asked: { ...asked, edited: 'keep' } })
  t.strictSame(
    careful.removed.map(({ path }) => path),
    ['d/1']
  )
  t.strictSame(
    careful.directories.map(({ path }) => path),
    ['d']
  )
  t.match(careful.kept, { count: 1, files: [{ path: 'e/2' }] })
  const forced = await reckonIn(t, { ...scene, asked: { ...asked, edited: 'warn' } })
  t.strictSame(
    forced.removed.map(({ path, before }) => [path, before.kept]),
    [
      ['d/1', 'archive:dep_1'],
      ['e/2', 'before']
    ]
  )
  t.strictSame(await forced.beforeImages(), { 'e/2': 'edited' })
})

t.test('an exact change leaves edited files as they are', async t => {
  const { kept, outcome, beforeBytes } = await reckonIn(t, {
    owned: { a: 'a', b: 'b', gone: 'g' },
    found: { a: 'a', b: 'edited', foreign: 'f' },
    wanted: { a: 'old', b: 'old', gone: 'old', foreign: 'old', new: 'old' },
    asked: { edited: 'keep' }
  })
  t.strictSame(['a', 'b', 'gone', 'foreign', 'new'].map(outcome), ['staged', 'kept', 'kept', 'kept', 'staged'])
  t.strictSame(
    kept.files.map(({ path }) => path),
    ['b', 'foreign', 'gone']
  )
  t.equal(beforeBytes, 0)
})

t.test('keeps what fits into the limit, the smallest files first', async t => {
  const scene = {
    owned: {},
    found: { a: 'x'.repeat(600), b: 'x'.repeat(500), c: 'ccc' },
    wanted: { a: '1', b: '1', c: '1' }
  }
  const { keptAt, beforeImages, beforeBytes } = await reckonIn(t, scene)
  t.strictSame(['a', 'b', 'c'].map(keptAt), ['none', 'before', 'before'])
  t.strictSame(await beforeImages(), { b: 'x'.repeat(500), c: 'ccc' })
  t.ok(beforeBytes > 0)
  await t.rejects(reckonIn(t, { ...scene, asked: { before: { maxBytes: 1000, isRequired: true } } }), {
    kind: 'too_large',
    code: 'before_too_large',
    message: /1\.1 KB would be replaced/
  })
})
