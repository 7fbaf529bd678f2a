import t from 'tap'
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { spawnSync } from 'node:child_process'
import {
  areOverlapping,
  foldManifest,
  lineageOf,
  readOwnedHead,
  readOwnedTree,
  UnusableTree,
  writeOwnedTree
} from '../../../lib/core/install/owned-tree.js'
import type { ManifestFile, OwnedEntry } from '../../../lib/model/manifest.js'
import { compareTreePaths } from '../../../lib/base/shared/tree-text.js'
import { createRandom } from '../../support/random.js'

const head = { deployId: 'dep_a', sequence: 3, target: '/srv/a "site"\n' }
const sha256 = (n: number): string => n.toString(16).padStart(64, '0')

const entry = (path: string, fields: Partial<OwnedEntry> = {}): OwnedEntry => ({
  path,
  mode: 0o100644,
  size: 5,
  sha256: sha256(1),
  mtimeMs: 1700000000000.5,
  ino: 17,
  since: 'dep_a',
  ...fields
})

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}

function isUnusable(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => false,
    (error: unknown) => error instanceof UnusableTree
  )
}

async function* each<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items
}

t.test('a tree is read as it was written', async t => {
  const directory = t.testdir()
  const path = join(directory, 'p.tree')
  const entries = [
    entry('a b/\u2028"ü"'),
    entry('bin/run', { mode: 0o100755, mtimeMs: null, ino: null, size: 2 ** 40 }),
    entry('grouped', { gid: 2 ** 32 - 2 }),
    entry('link', { mode: 0o120777, mtimeMs: -1.25, ino: 2 ** 52 })
  ]
  await writeOwnedTree(path, head, each(entries))
  t.strictSame(await readOwnedHead(path), head)
  t.strictSame(await all(readOwnedTree(path)), entries)
  t.strictSame(readdirSync(directory), ['p.tree'])
  await writeOwnedTree(path, head, each([]))
  t.strictSame(await all(readOwnedTree(path)), [], 'a tree may be empty')
})

t.test('a torn, changed or missing tree is not used', async t => {
  const directory = t.testdir()
  const path = join(directory, 'p.tree')
  await writeOwnedTree(path, head, each([entry('a'), entry('b'), entry('c')]))
  const text = readFileSync(path, 'utf8')
  const bad = join(directory, 'bad.tree')
  for (let length = 0; length < text.length; length++) {
    writeFileSync(bad, text.slice(0, length))
    // Without its last newline, the tree is complete.
    if (length === text.length - 1) t.equal((await all(readOwnedTree(bad))).length, 3)
    else t.ok(await isUnusable(all(readOwnedTree(bad))), `cut after ${length} characters`)
  }
  for (const [from, to] of [
    [' 5 ', ' 6 '],
    [' a\n', ' \n'],
    ['svc-owned 2', 'svc-owned 3'],
    ['end 3', 'end 2'],
    [' b\n', ' d\n']
  ] as const) {
    writeFileSync(bad, text.replace(from, to))
    t.ok(await isUnusable(all(readOwnedTree(bad))), `${from.trim()} changed to ${to.trim()}`)
  }
  t.ok(await isUnusable(readOwnedHead(join(directory, 'none.tree'))), 'missing')
  for (const [more, what] of [
    ['x', 'a line after the end'],
    [`${text.split('\n')[1]}\n`, 'an entry after the end'],
    ['x'.repeat(200_000), 'a line without an end']
  ] as const) {
    writeFileSync(bad, text + more)
    t.ok(await isUnusable(all(readOwnedTree(bad))), what)
  }
})

t.test('a tree is read in pieces that end anywhere', async t => {
  const path = join(t.testdir(), 'p.tree')
  const names = Array.from({ length: 2000 }, (_, at) => `${String(at).padStart(5, '0')} ü ${'x'.repeat(at % 50)} `)
  await writeOwnedTree(path, head, each(names.map(name => entry(name))))
  t.ok(statSync(path).size > 2 * 64 * 1024)
  for (const from of [path, readFileSync(path)])
    t.strictSame(
      (await all(readOwnedTree(from))).map(found => found.path),
      names,
      'also with blanks at their ends'
    )
})

t.test('a file that stays keeps its group until a way back takes it away', async t => {
  const owned = entry('a', { gid: 7, ino: 1 })
  const groupAfter = async (line: Partial<ManifestFile>): Promise<number | undefined> => {
    const { since: _since, gid: _gid, ...file } = owned
    const placed = { ...file, mtimeMs: 1, ino: 1, before: null, ...line }
    return (await all(foldManifest(each([owned]), each([placed]), 'dep_2')))[0]?.gid
  }
  t.equal(await groupAfter({}), 7)
  t.equal(await groupAfter({ ino: 2 }), undefined, 'another file')
  t.equal(await groupAfter({ gid: null }), undefined)
  t.equal(await groupAfter({ gid: 8 }), 8)
})

t.test('a tree that cannot be written stays as it was', async t => {
  const directory = t.testdir()
  const path = join(directory, 'p.tree')
  await writeOwnedTree(path, head, each([entry('a')]))
  async function* failing(): AsyncGenerator<OwnedEntry> {
    yield entry('b')
    throw new Error('no more')
  }
  await t.rejects(writeOwnedTree(path, { ...head, sequence: 4 }, failing()), { message: 'no more' })
  t.strictSame(await readOwnedHead(path), head)
  t.strictSame(readdirSync(directory), ['p.tree'])
})

t.test('folding manifests equals a model, whatever the history', async t => {
  const random = createRandom(20261123)
  const names = ['a', 'a/b', 'a-b', 'é', '\uffee', '👩', 'z', 'assets/1.js', 'assets/10.js', 'assets/2.js']
  for (let history = 0; history < 200; history++) {
    const model = new Map<string, OwnedEntry>()
    let owned: OwnedEntry[] = []
    for (let number = 1; number <= 5; number++) {
      const since = `dep_${number}`
      const files = names
        .filter(() => random.below(2) === 0)
        .sort(compareTreePaths)
        .map((path): ManifestFile => {
          const times = random.below(5) > 0 ? { mtimeMs: number * 1000, ino: number } : {}
          return { path, size: number, mode: 0o100644, sha256: sha256(number), before: null, ...times }
        })
      for (const { before: _before, gid: _gid, ...file } of files) {
        model.set(file.path, { mtimeMs: null, ino: null, ...file, since })
      }
      owned = await all(foldManifest(each(owned), each(files), since))
    }
    const expected = [...model.values()].sort((a, b) => compareTreePaths(a.path, b.path))
    if (JSON.stringify(owned.map(inOrder)) !== JSON.stringify(expected.map(inOrder))) {
      t.strictSame(owned, expected, `history ${history}`)
    }
  }
  t.pass('200 histories')
})

function inOrder({ path, mode, size, sha256, mtimeMs, ino, since }: OwnedEntry): unknown[] {
  return [path, mode, size, sha256, mtimeMs, ino, since]
}

const cases: Array<[one: string, other: string, isOne: boolean, what: string]> = [
  ['a', 'a', true, 'one path'],
  ['a', 'b', false, 'two directories'],
  ['a', 'a-old', false, 'a name that only begins alike'],
  ['a', 'a/in', true, 'one within the other'],
  ['a/in', 'a', true, 'one above the other'],
  ['to-a', 'a', true, 'a link to the other'],
  ['to-a/in', 'a', true, 'through a link into the other'],
  ['a', 'to-a-in/new/one', true, 'not there yet, but it would lie in the other'],
  ['to-a/new', 'a/new', true, 'neither is there yet, and they would be one'],
  ['a/in', 'a/other', false, 'side by side']
]

t.test('finds directories that overlap', async t => {
  const top = t.testdir()
  mkdirSync(join(top, 'a/in'), { recursive: true })
  symlinkSync('a', join(top, 'to-a'))
  symlinkSync('a/in', join(top, 'to-a-in'))
  for (const [one, other, isOne, what] of cases) {
    t.equal(areOverlapping(await lineageOf(join(top, one)), await lineageOf(join(top, other))), isOne, what)
  }
})

t.test('rejects a loop of links', async t => {
  const top = t.testdir()
  symlinkSync('round', join(top, 'round'))
  await t.rejects(lineageOf(join(top, 'round')), { code: 'ELOOP' })
})

t.test('recognizes a directory that is mounted at a second place', async t => {
  const top = t.testdir()
  for (const name of ['a/in', 'mounted']) mkdirSync(join(top, name), { recursive: true })
  const mount = spawnSync('mount', ['--bind', join(top, 'a'), join(top, 'mounted')])
  if (mount.status !== 0) return t.comment('skipped: this user has no permission to mount')
  try {
    t.ok(areOverlapping(await lineageOf(join(top, 'a/in')), await lineageOf(join(top, 'mounted'))))
    t.ok(areOverlapping(await lineageOf(join(top, 'mounted/in')), await lineageOf(join(top, 'a'))))
  } finally {
    // Before the directory of the test is removed.
    spawnSync('umount', [join(top, 'mounted')])
  }
})
