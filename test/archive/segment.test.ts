import { join } from 'node:path'
import t from 'tap'
import { packSegment } from '../../lib/archive/segment.js'
import type { ZipSource } from '../../lib/archive/source.js'

const source = (path: string, more: Partial<ZipSource> = {}): ZipSource => ({
  path,
  kind: 'file',
  source: Buffer.from('x'.repeat(100)),
  bytes: 100,
  mode: 0o755,
  mtimeMs: 0,
  ...more
})

t.test('packs a segment as a zip', async t => {
  const zip = await packSegment([source('a.js'), source('d', { kind: 'directory' })], 6)
  t.equal(zip.readUInt32LE(0), 0x04034b50)
})

t.test('refuses a changed file by its name', async t => {
  const directory = t.testdir({ a: 'x' })
  const file = (name: string, bytes: number): ZipSource => source(name, { source: join(directory, name), bytes })
  await t.rejects(packSegment([file('a', 2)], 6), { code: 'file_changed', field: 'a' })
  await t.rejects(packSegment([file('b', 2)], 6), { code: 'file_vanished', field: 'b' })
})
