import t from 'tap'
import { createHash } from 'node:crypto'
import { chmodSync, createWriteStream, mkdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { createEntryReader } from '../../../lib/core/archive/entry-data.js'
import { openArchive } from '../../../lib/core/archive/read.js'
import type { ZipSource } from '../../../lib/core/archive/source.js'
import { treeOf, type TimedEntry } from '../../../lib/core/archive/tree.js'
import { walkTree } from '../../../lib/core/archive/walk.js'
import { writeZip } from '../../../lib/core/archive/write.js'
import { createTreeDigest } from '../../../lib/model/manifest.js'
import { compareTreePaths, defaultFileMode, linkMode } from '../../../lib/base/shared/tree-text.js'

async function walk(root: string): Promise<ZipSource[]> {
  const sources: ZipSource[] = []
  const options = { root, ignore: null, globs: null, except: () => false, warn: () => {} }
  await walkTree('', options, source => void sources.push(source))
  return sources
}

/** The entries of the zip that `push` would write. */
async function entriesOfZip(sources: ZipSource[], path: string): Promise<TimedEntry[]> {
  const out = createWriteStream(path)
  await writeZip(sources, out)
  await finished(out.end())
  const archive = await openArchive(path, { maxExtractedBytes: 1e9, maxEntries: 200_000 })
  const reader = createEntryReader(archive)
  const files = archive.entries.filter(({ kind }) => kind !== 'directory')
  const entries = files.map(entry => ({
    path: entry.path,
    mode: entry.kind === 'symlink' ? linkMode : entry.mode === null ? defaultFileMode : 0o100000 | entry.mode,
    size: entry.size,
    sha256: createHash('sha256').update(reader.readWhole(entry)).digest('hex'),
    mtimeMs: entry.mtimeMs as number
  }))
  archive.close()
  return entries.sort((a, b) => compareTreePaths(a.path, b.path))
}

for (const { count, aloneMs } of [
  { count: 3, aloneMs: 60_000 },
  { count: 1500, aloneMs: 60_000 },
  { count: 1500, aloneMs: 0 }
]) {
  t.test(`the tree of ${count} files, alone for ${aloneMs} ms, is that of the zip`, async t => {
    const directory = t.testdir({ site: { empty: {}, 'ünï\u{1f600}': 'x', '\uff5e': 'y' } })
    const root = join(directory, 'site')
    for (let i = 0; i < count; i++) {
      mkdirSync(join(root, `d${i % 7}`), { recursive: true })
      const path = join(root, `d${i % 7}/f${i}`)
      writeFileSync(path, `contents ${i}`)
      chmodSync(path, [0o644, 0o755, 0o600, 0o4755][i % 4] as number)
      utimesSync(path, 1_000_000_000 + i + 0.9, 1_000_000_000 + i + 0.9)
    }
    symlinkSync('d0/f0', join(root, 'link'))
    const sources = await walk(root)
    const progress: number[] = []
    const tree = await treeOf(sources, { onProgress: bytes => void progress.push(bytes), aloneMs })
    t.strictSame(tree.entries, await entriesOfZip(sources, join(directory, 'a.zip')))
    const digest = createTreeDigest()
    for (const entry of tree.entries) digest.add(entry)
    t.equal(tree.treeSha256, digest.end())
    t.equal(
      tree.bytes,
      sources.reduce((sum, { bytes }) => sum + bytes, 0)
    )
    t.equal(progress.at(-1), tree.bytes)
  })
}

t.test('refuses a file that changed, in a thread too, and a name that no zip can have', async t => {
  const root = t.testdir(Object.fromEntries(Array.from({ length: 600 }, (_, i) => [`f${i}`, 'x'])))
  const sources = await walk(root)
  writeFileSync(join(root, 'f7'), 'longer')
  await t.rejects(treeOf(sources), { code: 'file_changed', field: 'f7' })
  await t.rejects(treeOf(sources, { aloneMs: 0 }), { code: 'file_changed', field: 'f7' })
  await t.rejects(treeOf(sources.slice(-1).map(source => ({ ...source, path: 'a\\b' }))), { code: 'name_not_packable' })
})

t.test('an abort ends it with its reason', async t => {
  const root = t.testdir(Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`f${i}`, 'x'])))
  const ending = new AbortController()
  const reason = new Error('enough')
  const work = treeOf(await walk(root), { signal: ending.signal, onProgress: () => ending.abort(reason) })
  await t.rejects(work, reason)
})
