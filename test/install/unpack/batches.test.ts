import t from 'tap'
import type { ArchiveEntry } from '../../../lib/archive/read.js'
import { batchesOf } from '../../../lib/install/unpack/batches.js'

function entry(kind: ArchiveEntry['kind'], size: number): ArchiveEntry {
  return { kind, size, compressedSize: size, path: 'f', method: 0, crc32: 0, mode: null, mtimeMs: null } as ArchiveEntry
}

const indexes = (entries: ArchiveEntry[]): number[][] =>
  [...batchesOf(entries)].map(batch => batch.map(({ index }) => index))

t.test('groups small files, yields large ones alone, and skips other entries', async t => {
  const sizes = [1, 600_000, 1, 1]
  const entries = [entry('directory', 0), ...sizes.map(size => entry('file', size)), entry('symlink', 1)]
  t.strictSame(indexes(entries), [[2], [1, 3, 4]])
})

t.test('a batch has at most 64 files, and ends after 2 MiB', async t => {
  const counts = (count: number, size: number) => indexes(Array(count).fill(entry('file', size))).map(b => b.length)
  t.strictSame(counts(150, 1), [64, 64, 22])
  t.strictSame(counts(10, 400_000), [3, 3, 3, 1])
})
