import t from 'tap'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { ManifestFile } from '../../lib/model/manifest.js'
import { disk } from '../../lib/install/disk.js'
import { compareManifests, readManifest, manifestAt } from '../../lib/install/manifest.js'
import { canonicalOrder, writeManifest } from '../../lib/install/manifest-writer.js'
import type { Item } from '../../lib/install/plan.js'
import { createRecords } from '../../lib/install/record.js'
import { sha256 } from '../../lib/base/sha256.js'
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
  const placed = { mode: 0o100644, sha256: digest, mtimeMs: 1700000000000.5, ino: 17 }
  items.forEach((_, index) => records.settle(index, 'staged', placed))
  for (const [index, mode, contents] of [
    [0, 0o100644, 'old'],
    [3, 0o100644, 'new'],
    [4, 0o100600, 'new'],
    [5, 0o120777, 'new']
  ] as const) {
    records.setExisting(index, 'file')
    records.setBefore(index, { size: 5e9, mode, sha256: sha256(Buffer.from(contents)) }, 1600000000000)
  }
  const archiveModes = items.map(({ path }) => (path === 'mode' ? 0o755 : null))
  const order = canonicalOrder(items)
  const staged = { disk, items, order, records, archiveModes, plan: { folders: [] }, reckoned: nothingReckoned }
  const { fileCount, changedCount, changes, treeSha256 } = writeManifest(manifestAt(disk, path), staged)
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

t.test('compares two manifests', async t => {
  const directory = t.testdir()
  const write = (name: string, files: Record<string, string>): string => {
    const path = join(directory, name)
    writeFileSync(
      path,
      Object.entries(files)
        .map(([path, sha256]) => `${JSON.stringify({ path, size: 1, mode: 0o100644, sha256, before: null })}\n`)
        .join('')
    )
    return path
  }
  const then = write('then', { a: '1', b: '2', c: '3' })
  const now = write('now', { a: '1', b: '9', d: '4' })
  t.strictSame(await compareManifests(readManifest(then), readManifest(now)), {
    added: ['d'],
    changed: ['b'],
    removed: ['c']
  })
})

t.test('refuses a manifest that is torn anywhere, with its own code', async t => {
  const path = join(t.testdir(), 'x.manifest')
  const line = (path: string): string =>
    `${JSON.stringify({ path, size: 1, mode: 0o100644, sha256: 'ab', before: null })}\n`
  const whole = line('a') + line('b')
  const read = async (): Promise<number> => {
    let count = 0
    for await (const _ of readManifest(path, 2)) count++
    return count
  }
  for (let length = 0; length < whole.length - 1; length++) {
    writeFileSync(path, whole.slice(0, length))
    await t.rejects(read(), { kind: 'conflict', code: 'torn_manifest' }, `${length} bytes`)
  }
  for (const text of [
    '\0'.repeat(whole.length),
    line('a') + '\0'.repeat(line('b').length),
    'null\nnull\n',
    '{}\n[]\n',
    '"a"\n1\n'
  ]) {
    writeFileSync(path, text)
    await t.rejects(read(), { kind: 'conflict', code: 'torn_manifest' }, JSON.stringify(text))
  }
  writeFileSync(path, whole)
  t.equal(await read(), 2)
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
  writeManifest(manifestAt(recording, path), staged)
  t.strictSame(calls, [
    `open ${path}.tmp`,
    'writeSync',
    'fdatasyncSync',
    'closeSync',
    'renameSync',
    `open ${dirname(path)}`,
    'fsyncSync',
    'closeSync'
  ])
})
