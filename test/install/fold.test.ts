import t from 'tap'
import { join } from 'node:path'
import { doFoldTask, type FoldTask } from '../../lib/install/fold.js'
import { isUnusableTree, readOwnedTree } from '../../lib/install/owned-tree.js'
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
