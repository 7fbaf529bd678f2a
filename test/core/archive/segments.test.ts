import t from 'tap'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { randomBytes } from 'node:crypto'
import { inflateRawSync } from 'node:zlib'
import { appendFileSync, writeFileSync } from 'node:fs'
import {
  createLargePacking,
  createSegmentThreads,
  endLarge,
  packInMemory,
  packPiece,
  type PieceTask,
  type SegmentThreads
} from '../../../lib/core/archive/segments.js'
import type { ZipSource } from '../../../lib/core/archive/source.js'
import { watchDescriptors } from '../../support/descriptors.js'
import { crc32 } from '../../../lib/base/digests.js'
import { createEntryReader } from '../../../lib/core/archive/entry-data.js'
import { openArchive } from '../../../lib/core/archive/read.js'

/** Counts the worker threads of this process. */
const seen = { started: 0, living: 0 }
process.on('worker', worker => {
  seen.started++
  seen.living++
  worker.once('exit', () => void seen.living--)
})

const text = (i: number): Buffer => Buffer.from(`${i} some text `.repeat(2000))
const segment = (i: number): ZipSource[] =>
  Array.from({ length: 20 }, (_, n) => ({
    path: `${i}/${n}`,
    kind: 'file',
    source: text(n),
    bytes: text(n).length,
    mode: 0o644,
    mtimeMs: 0
  }))

t.test('many segments share the threads, and each gets its own result', async t => {
  const threads = createSegmentThreads()
  const packed = await Promise.all(
    Array.from({ length: 12 }, (_, i) => threads.pack({ kind: 'segment', sources: segment(i), level: 6 }))
  )
  for (const [i, zip] of packed.entries()) t.ok(Buffer.from(zip).includes(`${i}/19`), `segment ${i}`)
  t.equal(seen.started, Math.min(threads.count, 2))
  t.ok(packInMemory(segment(0), 6).equals(packed[0] as Uint8Array), 'same result as in this thread')
  await threads.close()
  t.equal(seen.living, 0, 'close ends the threads')
})

t.test('passes on a refusal that names the file, and keeps the thread', async t => {
  const threads = createSegmentThreads()
  t.teardown(() => threads.close())
  const gone: ZipSource = { path: 'a', kind: 'file', source: join(t.testdir(), 'a'), bytes: 1, mode: 0o644, mtimeMs: 0 }
  for (let i = 0; i < 4; i++) {
    await t.rejects(threads.pack({ kind: 'segment', sources: [gone], level: 6 }), {
      kind: 'unavailable',
      code: 'file_vanished',
      field: 'a'
    })
  }
  t.ok((await threads.pack({ kind: 'segment', sources: segment(1), level: 6 })).length > 0)
})

t.test('ends when it is closed during its work', async t => {
  const threads = createSegmentThreads()
  const noise = Buffer.alloc(4_000_000, 'some text that is not quite the same each time ')
  void threads
    .pack({
      kind: 'segment',
      sources: [{ path: 'a', kind: 'file', source: noise, bytes: noise.length, mode: 0o644, mtimeMs: 0 }],
      level: 9
    })
    .catch(() => {})
  await threads.close()
  t.equal(seen.living, 0)
})

t.test(
  'leaves no file open when it is closed while its threads start',
  { skip: process.platform !== 'linux' && 'descriptors are listed in /proc' },
  async t => {
    const { difference, stop } = watchDescriptors()
    t.teardown(stop)
    for (let ms = 0; ms < 60; ms += 4) {
      const threads = createSegmentThreads()
      void threads.pack({ kind: 'segment', sources: segment(0), level: 1 }).catch(() => {})
      await sleep(ms)
      await threads.close()
    }
    t.same(await difference(), [])
  }
)

const largeText = Buffer.from('const deployed = server.value(function () { return release })\n')

/** Packs in this thread what another thread would pack, in reverse order: no piece depends on another. */
function createThreads(): SegmentThreads & { run(): void } {
  const waiting: Array<() => void> = []
  return {
    count: 1,
    pack: task =>
      new Promise(
        resolve => void waiting.push(() => resolve(task.kind === 'piece' ? packPiece(task) : new Uint8Array()))
      ),
    run: () => waiting.reverse().forEach(pack => pack()),
    async close() {}
  }
}

t.test('pieces that are packed separately form one deflation, or the unchanged contents', async t => {
  const table: Array<[what: string, contents: Buffer, path: string]> = [
    ['a piece and a byte', Buffer.alloc(1024 * 1024 + 1, largeText), 'a.js'],
    ['whole pieces', Buffer.alloc(2 * 1024 * 1024, largeText), 'a.js'],
    ['noise', randomBytes(1_300_000), 'a.js'],
    ['stored', Buffer.alloc(1_300_000, largeText), 'a.png']
  ]
  for (const [what, contents, path] of table) {
    const source: ZipSource = { path, kind: 'file', source: contents, bytes: contents.length, mode: 0o640, mtimeMs: 0 }
    const threads = createThreads()
    const parts = []
    for await (const part of createLargePacking({ level: 6, zip64FromBytes: 1e9, threads })(source)) parts.push(part)
    threads.run()
    const packed = Buffer.concat(await Promise.all(parts.map(({ ready }) => ready)))
    const entry = parts.at(-1)?.entry
    if (!entry) throw new Error('the last part has the entry')
    const bytes = packed.subarray(30 + path.length + 9)
    t.ok((path === 'a.js' ? inflateRawSync(bytes) : bytes).equals(contents), what)
    t.equal(
      parts.reduce((sum, part) => sum + part.bytes, 0),
      contents.length,
      'all is told'
    )
    const { descriptor, end } = endLarge(entry, packed.length, 1e9)
    t.strictSame(
      [4, 8, 12].map(at => descriptor.readUInt32LE(at)),
      [crc32(contents), bytes.length, contents.length]
    )
    t.equal(end.readUInt32LE(0), 0x02014b50)
  }
})

t.test('the bytes before a piece make it smaller', async t => {
  const noise = randomBytes(20_000)
  const task = (dictionary: Uint8Array): PieceTask => ({
    kind: 'piece',
    bytes: new Uint8Array(Buffer.concat([noise, Buffer.alloc(100)])).subarray(0, noise.length),
    dictionary,
    level: 6
  })
  t.ok(packPiece(task(new Uint8Array())).length > 20_000)
  t.ok(packPiece(task(noise)).length < 500)
})

const memoryText = Buffer.from('const deployed = server.value(function () { return release })\n'.repeat(5000))

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
  const contents = sizes.flatMap(bytes => [memoryText.subarray(0, bytes), randomBytes(bytes)])
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
  const zip = packInMemory([source('a', memoryText)], 6)
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
