import { randomBytes } from 'node:crypto'
import t from 'tap'
import { inflateRawSync } from 'node:zlib'
import { createLargePacking, endLarge, packPiece, type PieceTask } from '../../lib/archive/large.js'
import type { SegmentThreads } from '../../lib/archive/segment-threads.js'
import type { ZipSource } from '../../lib/archive/source.js'
import { crc32 } from '../../lib/base/digests.js'

const text = Buffer.from('const deployed = server.value(function () { return release })\n')

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
    ['a piece and a byte', Buffer.alloc(1024 * 1024 + 1, text), 'a.js'],
    ['whole pieces', Buffer.alloc(2 * 1024 * 1024, text), 'a.js'],
    ['noise', randomBytes(1_300_000), 'a.js'],
    ['stored', Buffer.alloc(1_300_000, text), 'a.png']
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
