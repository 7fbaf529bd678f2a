import t from 'tap'
import { join } from 'node:path'
import { readFileSync, writeFileSync } from 'node:fs'
import {
  isUnusableTree,
  readOwnedHead,
  readOwnedTree,
  createFoldThreads,
  doFoldTask,
  type FoldTask
} from '../../../lib/core/install/owned-tree.js'
import { manifestText } from './manifest-text.js'

t.test('a manifest of an earlier version is sorted first', async t => {
  const directory = t.testdir({ m: manifestText(['b', 'a'], { mtimeMs: undefined, ino: undefined }) })
  const path = join(directory, 'p.tree')
  const head = { deployId: 'dep_1', sequence: 1, target: '/srv' }
  const manifests = [{ path: join(directory, 'm'), deployId: 'dep_1', fileCount: 2 }]
  t.strictSame(await doFoldTask({ kind: 'fold', path, head, isAnew: true, manifests }), [])
  const owned: Array<[string, number | null]> = []
  for await (const entry of readOwnedTree(path)) owned.push([entry.path, entry.mtimeMs])
  t.strictSame(owned, [
    ['a', null],
    ['b', null]
  ])
})

t.test('a tree that is missing is unusable', async t => {
  const path = join(t.testdir(), 'none')
  const head = { deployId: 'dep_1', sequence: 1, target: '/srv' }
  for (const task of [
    { kind: 'check', path },
    { kind: 'fold', path, head, isAnew: false, manifests: [] }
  ] satisfies FoldTask[]) {
    t.ok(isUnusableTree(await doFoldTask(task).catch((error: unknown) => error)))
  }
})

const head = (sequence: number) => ({ deployId: `dep_${sequence}`, sequence, target: '/srv/site' })

for (const [where, threadBytes] of [
  ['in a thread', 0],
  ['without a thread', Infinity]
] as const) {
  t.test(`folds and checks ${where}`, async t => {
    const threads = createFoldThreads({ threadBytes })
    t.teardown(() => threads.close())
    const directory = t.testdir({
      first: manifestText(['a', 'b', 'c/d']),
      second: manifestText(['b', 'e']),
      torn: `${manifestText(['f'])}{"pa`
    })
    const path = join(directory, 'p.tree')
    const manifest = (name: string, fileCount: number) => ({ path: join(directory, name), deployId: name, fileCount })
    const first = { kind: 'fold', path, head: head(1), isAnew: true, manifests: [manifest('first', 3)] } as const
    t.strictSame(await threads.run({ ...first, manifests: [...first.manifests] }), [])
    const more = [manifest('second', 2), manifest('lost', 1), manifest('torn', 2)]
    const torn = await threads.run({ kind: 'fold', path, head: head(2), isAnew: false, manifests: more })
    t.match(torn, [{ deployId: 'torn', reason: 'is incomplete' }])
    t.strictSame(await readOwnedHead(path), head(2))
    const digestOf = (name: string) => threads.digest({ ...manifest(name, 2), treeSha256: null })
    t.match(await digestOf('first'), {
      files: { placed: 3, added: { count: 3 }, removed: { count: 0 } },
      dirHash: null
    })
    await t.rejects(digestOf('torn'), { code: 'torn_manifest' })
    const owned: string[] = []
    for await (const entry of readOwnedTree(path)) owned.push(`${entry.path} ${entry.since}`)
    t.strictSame(owned, ['a first', 'b second', 'c/d first', 'e second', 'f torn'])
    t.strictSame(await threads.run({ kind: 'check', path }), [])
    writeFileSync(path, readFileSync(path, 'utf8').replace('c/d', 'c/e'))
    const error: unknown = await threads.run({ kind: 'check', path }).catch((error: unknown) => error)
    t.ok(isUnusableTree(error))
  })
}
