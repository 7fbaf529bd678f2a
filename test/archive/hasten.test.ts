import { randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'
import t from 'tap'
import zlib, { inflateRawSync } from 'node:zlib'
import { hastenCrc, hastenDeflate } from '../../lib/archive/hasten.js'
import { packSegment } from '../../lib/archive/segment.js'
import type { ZipSource } from '../../lib/archive/source.js'

const texts = [0, 1, 17, 249, 250, 251, 3833, 3834, 7930, 7931, 20_000, 32_505, 32_506, 300_000].flatMap(bytes => [
  Buffer.from('const deployed = server.value(function () { return release })\n'.repeat(5000)).subarray(0, bytes), randomBytes(bytes)
])
const sources = texts.map((source, i): ZipSource => ({ path: `f${i}`, kind: 'file', source, bytes: source.length, mode: 0o644, mtimeMs: 0 }))

t.test('yazl writes a zip of the same length, and what it deflated inflates again', async t => {
  const before = await packSegment(sources, 6)
  hastenCrc()
  const own = createRequire(createRequire(import.meta.url).resolve('yazl'))('buffer-crc32') as { unsigned(bytes: Uint8Array): number }
  t.equal(own.unsigned(Buffer.from('123456789')), 0xcbf43926)
  t.ok(Buffer.from(await packSegment(sources, 6)).equals(before), 'the same bytes with another CRC-32')

  const slow = zlib.deflateRaw
  t.teardown(() => Object.assign(zlib, { deflateRaw: slow }))
  hastenDeflate()
  for (const text of texts) {
    let packed: Buffer | null = null
    zlib.deflateRaw(text, { level: 6 }, (_, bytes) => { packed = bytes })
    t.ok(packed !== null && inflateRawSync(packed).equals(text), `${text.length} bytes, at once`)
  }
  t.equal((await packSegment(sources, 6)).length, before.length)
})
