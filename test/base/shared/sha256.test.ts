import { createHash } from 'node:crypto'
import t from 'tap'
import { createSha256 } from '../../../lib/base/shared/sha256.js'

const expected = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

t.test('digests every length around a block like node:crypto', async t => {
  for (let length = 0; length <= 200; length++) {
    const bytes = Uint8Array.from({ length }, (_, at) => (at * 151 + length) & 0xff)
    const digest = createSha256()
    digest.push(bytes)
    t.equal(digest.hex(), expected(bytes), `${length} bytes`)
  }
})

t.test('digests the same, however the bytes are cut', async t => {
  const bytes = Uint8Array.from({ length: 5000 }, (_, at) => (at * 2654435761) >>> 24)
  for (const size of [1, 3, 63, 64, 65, 1000]) {
    const digest = createSha256()
    for (let at = 0; at < bytes.length; at += size) digest.push(bytes.subarray(at, at + size))
    t.equal(digest.hex(), expected(bytes), `${size} bytes at a time`)
  }
})
