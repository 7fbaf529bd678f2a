import { join } from 'node:path'
import t from 'tap'
import { packingOf, packSegment } from '../../lib/archive/segment.js'
import type { ZipSource } from '../../lib/archive/source.js'

const source = (path: string, more: Partial<ZipSource> = {}): ZipSource =>
  ({ path, kind: 'file', source: Buffer.from('x'.repeat(100)), bytes: 100, mode: 0o755, mtimeMs: 0, ...more })

t.test('what yazl is told of a source', async t => {
  t.match(packingOf(source('a.js'), 9), { mode: 0o100755, mtime: new Date(0), compressionLevel: 9 })
  t.equal(packingOf(source('a.png'), 9).compressionLevel, 0)
  t.equal(packingOf(source('l', { kind: 'symlink' }), 9).mode, 0o120777)
})

t.test('a segment is a zip, in memory that can be handed on', async t => {
  const zip = await packSegment([source('a.js'), source('d', { kind: 'directory' })], 6)
  t.equal(Buffer.from(zip).readUInt32LE(0), 0x04034b50)
  t.equal(zip.byteLength, zip.buffer.byteLength)
  t.equal(zip.byteLength, structuredClone(zip, { transfer: [zip.buffer] }).byteLength)
})

t.test('a file that is not what it was is refused by name', async t => {
  const directory = t.testdir({ a: 'x' })
  const file = (name: string, bytes: number): ZipSource => source(name, { source: join(directory, name), bytes })
  await t.rejects(packSegment([file('a', 2)], 6), { code: 'file_changed', field: 'a' })
  await t.rejects(packSegment([file('b', 2)], 6), { code: 'file_vanished', field: 'b' })
})
