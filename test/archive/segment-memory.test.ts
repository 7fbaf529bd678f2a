import { randomBytes } from 'node:crypto'
import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createEntryReader } from '../../lib/archive/entry-data.js'
import { openArchive } from '../../lib/archive/read.js'
import { packInMemory } from '../../lib/archive/segment-memory.js'
import type { ZipSource } from '../../lib/archive/source.js'

const text = Buffer.from('const deployed = server.value(function () { return release })\n'.repeat(5000))

function source(path: string, contents: Buffer | string, more: Partial<ZipSource> = {}): ZipSource {
  return {
    path,
    kind: 'file',
    source: contents,
    bytes: contents.length,
    mode: 0o640,
    mtimeMs: Date.UTC(2024, 1, 3),
    ...more
  }
}

t.test('packs a segment as a zip, each entry by the method that makes it smaller', async t => {
  const directory = t.testdir()
  // Sizes near those at which zlib's tables grow, and at which deflating begins.
  const sizes = [0, 1, 96, 97, 249, 250, 251, 3833, 3834, 7930, 7931, 20_000, 32_505, 32_506, 300_000]
  const contents = sizes.flatMap(bytes => [text.subarray(0, bytes), randomBytes(bytes)])
  const files = contents.map((bytes, i): ZipSource => {
    const path = join(directory, String(i))
    writeFileSync(path, bytes)
    return source(`ü/${i}`, path, { bytes: bytes.length })
  })
  const given = contents.map((bytes, i) => source(`given/${i}`, bytes))
  const others = [source('ö', 'ü/1', { kind: 'symlink', bytes: 0 }), source('empty', '', { kind: 'directory' })]
  const zip = packInMemory([...files, ...others, ...given], 6)
  const path = join(directory, 'x.zip')
  writeFileSync(path, zip)
  const archive = await openArchive(path, { maxEntries: 100, maxExtractedBytes: 1e9 })
  t.teardown(() => archive.close())
  const reader = createEntryReader(archive)
  const expected = [...contents, Buffer.from('ü/1'), Buffer.alloc(0), ...contents]
  t.equal(archive.entries.length, expected.length)
  for (const [i, entry] of archive.entries.entries()) t.ok(expected[i]?.equals(reader.readWhole(entry)), entry.path)
  const inZip = contents.reduce((sum, bytes, i) => sum + (i % 2 === 1 || bytes.length <= 96 ? bytes.length : 0), 0)
  t.ok(zip.length < 2 * inZip + 30_000, 'text is deflated')
  t.equal(packInMemory(given, 0).length > 2 * inZip, true, 'level 0 stores')
})

t.test('the segment can be transferred to another thread', async t => {
  const zip = packInMemory([source('a', text)], 6)
  t.equal(zip.length, structuredClone(zip, { transfer: [zip.buffer] }).length)
  t.equal(zip.length, 0)
})

t.test('refuses a changed file by its name', async t => {
  const directory = t.testdir({ a: 'x'.repeat(1000), d: {} })
  const file = (name: string, bytes: number): ZipSource => source(name, join(directory, name), { bytes })
  for (const bytes of [0, 999, 1001, 2000])
    t.throws(() => packInMemory([file('a', bytes)], 6), { code: 'file_changed', field: 'a' }, String(bytes))
  t.throws(() => packInMemory([file('d', 2)], 6), { code: 'file_changed', field: 'd' })
  t.throws(() => packInMemory([file('none', 2)], 6), { code: 'file_vanished', field: 'none' })
  appendFileSync(join(directory, 'a'), 'y')
  t.throws(() => packInMemory([source('b', Buffer.from('z')), file('a', 1000)], 6), {
    code: 'file_changed',
    field: 'a'
  })
  t.ok(packInMemory([{ ...file('a', 1000), isGrowing: true }], 6).length > 0)
})
