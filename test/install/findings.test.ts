import t from 'tap'
import { statSync } from 'node:fs'
import { disk } from '../../lib/install/disk.js'
import { createLists, createWrites } from '../../lib/install/findings.js'
import { holdFolders } from '../../lib/install/folders.js'
import type { Folder, Item } from '../../lib/install/plan.js'
import { holdTarget } from '../../lib/install/reach.js'

const item = (path: string, size: number): Item => ({ path, kind: 'file', size, mode: null, mtimeMs: null })

t.test('counts everything, and lists as much as asked for', t => {
  const lists = createLists(1)
  lists.path('added', 'a')
  t.equal(lists.paths.truncated, false)
  lists.path('added', 'b')
  lists.path('kept', 'c')
  lists.conflict({ path: 'd', code: 'file_in_the_way', message: 'in the way' })
  const drifted = { path: 'e', owned: 'x', found: null, mtime: null, size: null, since: 'dep_1', overwritten: true }
  lists.drift(drifted)
  t.match(lists.counts, { added: 2, kept: 1, conflicts: 1, drifted: 1, changed: 0 })
  t.match(lists.paths, { added: ['a'], kept: ['c'], drifted: [drifted], truncated: true })
  t.equal(lists.paths.added.length, 1)
  t.end()
})

t.test('collects the directories that would be written, new ones included', async t => {
  const root = holdTarget(disk, t.testdir({ a: { file: 'x' } }))
  const folders = holdFolders(disk, root)
  t.teardown(() => {
    folders.close()
    root.close()
  })
  const top: Folder = { path: '', parent: null, exists: true, item: null }
  const a: Folder = { path: 'a', parent: top, exists: true, item: null }
  const b: Folder = { path: 'a/b', parent: a, exists: false, item: null }
  const c: Folder = { path: 'a/b/c', parent: b, exists: false, item: null }
  const writes = createWrites({ disk, root, folders })
  const stats = statSync(`${root.path}/a/file`)
  writes.add(item('a/b/c/d', 5), c, null)
  writes.add(item('a/b/e', 6), b, null)
  writes.add(item('a/file', 7), a, { kind: 'file', mode: stats.mode, gid: stats.gid, size: 1, sha256: '', stats })
  const { written, sizes, entries, foreign } = writes.all()
  t.strictSame([...written].sort(), ['', 'a'])
  t.strictSame([...sizes], [5, 6, 7])
  t.equal(entries, 5, 'three files and two directories')
  t.equal(writes.bytes(), 18)
  t.strictSame(foreign, [])
})
