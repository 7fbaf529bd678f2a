import t from 'tap'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { ManifestFile, ManifestLine } from '../../../lib/model/manifest.js'
import { disk } from '../../../lib/core/install/disk.js'
import { manifestAt, readManifest, readManifestLines, summarizeManifest } from '../../../lib/core/install/manifest.js'
import { canonicalOrder, writeManifest } from '../../../lib/core/install/manifest-writer.js'
import { createRecords, type Item } from '../../../lib/core/install/plan.js'
import { sha256 } from '../../../lib/base/digests.js'
import { nothingReckoned } from './nothing-reckoned.js'

const item = (path: string, kind: Item['kind'] = 'file'): Item => ({ path, kind, size: 3, mode: null, mtimeMs: null })

async function all(path: string): Promise<ManifestFile[]> {
  const files: ManifestFile[] = []
  for await (const file of readManifest(path)) files.push(file)
  return files
}

t.test('writes files in order, reads them back, and lists the changed paths', async t => {
  const path = join(t.testdir(), 'x.manifest')
  const items = [item('b'), item('a b/\u2028"ü"'), item('a b', 'directory'), item('same'), item('mode'), item('kind')]
  const records = createRecords(items.length)
  const digest = sha256(Buffer.from('new'))
  const placed = { mode: 0o100644, gid: 0, sha256: digest, mtimeMs: 1700000000000.5, ino: 17 }
  items.forEach((_, index) => records.settle(index, 'staged', placed))
  for (const [index, mode, contents] of [
    [0, 0o100644, 'old'],
    [3, 0o100644, 'new'],
    [4, 0o100600, 'new'],
    [5, 0o120777, 'new']
  ] as const) {
    records.setExisting(index, 'file')
    records.setBefore(
      index,
      { size: 5e9, mode, gid: 0, sha256: sha256(Buffer.from(contents)) },
      { mtimeMs: 1600000000000, uid: 0, gid: 0 }
    )
  }
  const archiveModes = items.map(({ path }) => (path === 'mode' ? 0o755 : null))
  const order = canonicalOrder(items)
  const staged = { disk, items, order, records, archiveModes, plan: { folders: [] }, reckoned: nothingReckoned }
  const { fileCount, changedCount, changes, treeSha256 } = await writeManifest(manifestAt(disk, path), staged)
  t.equal(fileCount, 5)
  t.equal(changedCount, 3)
  t.equal(Buffer.concat(changes).toString(), 'a b/\u2028"ü"\nb\nkind\n')
  const files = await all(path)
  t.strictSame(
    files.map(file => file.path),
    ['a b/\u2028"ü"', 'b', 'kind', 'mode', 'same']
  )
  t.strictSame(files[0], {
    path: 'a b/\u2028"ü"',
    size: 3,
    mode: 0o100644,
    sha256: digest.toString('hex'),
    mtimeMs: 1700000000000.5,
    ino: 17,
    before: null
  })
  const old = sha256(Buffer.from('old')).toString('hex')
  t.strictSame(files[1]?.before, { size: 5e9, mode: 0o100644, sha256: old, mtimeMs: 1600000000000 })
  const modeOf = (path: string): string => (path === 'mode' ? '100755' : '100644')
  const lines = files.map(file => `${modeOf(file.path)} 3 ${digest.toString('hex')} ${file.path}\n`)
  const text = Buffer.from(`svc-tree 1\n${lines.join('')}`)
  t.equal(treeSha256, sha256(text).toString('hex'), 'the tree has the modes of the archive')
})

t.test('lists what was removed, made, and kept as it was', async t => {
  const path = join(t.testdir(), 'x.manifest')
  const items = [item('new/file'), item('z'), item('edited')]
  const records = createRecords(items.length)
  const placed = { mode: 0o100644, gid: 0, sha256: sha256(Buffer.from('new')), mtimeMs: 1000, ino: 17 }
  items.forEach((_, index) => records.settle(index, 'staged', placed))
  records.setExisting(1, 'file')
  records.setBefore(
    1,
    { size: 1, mode: 0o100600, gid: 0, sha256: sha256(Buffer.from('old')) },
    { mtimeMs: 500, uid: 0, gid: 0 }
  )
  records.keep(2)
  const folder = (path: string, exists: boolean) => ({ path, parent: null, exists, item: null })
  const plan = { folders: [folder('', true), folder('new', false)] }
  const before = { size: 3, mode: 0o100644, sha256: 'ab'.repeat(32), mtimeMs: 2, kept: 'archive:dep_1' } as const
  const reckoned = {
    ...nothingReckoned,
    removed: [
      { path: 'm', before, ino: 1 },
      { path: 'old/file', before, ino: 2 }
    ],
    directories: [{ path: 'old', mode: 0o040755, mtimeMs: 3 }],
    keptOf: () => 'before' as const
  }
  const order = canonicalOrder(items)
  const staged = { disk, items, order, records, archiveModes: [null, null, null], plan, reckoned }
  const written = await writeManifest(manifestAt(disk, path), staged)
  t.match(written, { fileCount: 2, changedCount: 2, removedCount: 2 })
  t.equal(Buffer.concat(written.changes).toString(), '- m\nnew/file\n- old/file\nz\n')
  const { changes, ...summary } = await summarizeManifest(path)
  t.match(summary, { fileCount: 2, changedCount: 2, removedCount: 2, beforeFrom: ['dep_1'], bytes: 6 })
  t.equal(Buffer.concat(changes).toString(), Buffer.concat(written.changes).toString())
  const lines: ManifestLine[] = []
  for await (const line of readManifestLines(path)) lines.push(line)
  t.match(lines, [
    { removed: 'm', before },
    { made: 'new' },
    { path: 'new/file', before: null },
    { removed: 'old', before: { mode: 0o040755, size: 0 } },
    { removed: 'old/file' },
    { path: 'z', before: { mode: 0o100600, kept: 'before' } }
  ])
  t.equal(lines.length, readFileSync(path, 'utf8').trim().split('\n').length)
})

t.test('syncs a manifest and its name', async t => {
  const path = join(t.testdir(), 'x.manifest')
  const calls: string[] = []
  const recording = new Proxy(disk, {
    get:
      (real, name: keyof typeof disk) =>
      (...args: unknown[]) => {
        calls.push(name === 'openSync' ? `open ${String(args[0])}` : name)
        return (real[name] as (...args: unknown[]) => unknown)(...args)
      }
  })
  const given = { items: [item('a')], order: [0], records: createRecords(1), archiveModes: [null] }
  const staged = { disk: recording, ...given, plan: { folders: [] }, reckoned: nothingReckoned }
  await writeManifest(manifestAt(recording, path), staged)
  t.strictSame(calls, [
    `open ${path}.tmp`,
    'writeSync',
    'fdatasync',
    'closeSync',
    'renameSync',
    `open ${dirname(path)}`,
    'fsync',
    'closeSync'
  ])
})
