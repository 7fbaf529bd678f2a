import t from 'tap'
import { createHash } from 'node:crypto'
import { sha256, sha256Base64 } from '../../lib/base/sha256.js'

t.test('digests bytes of any length', async t => {
  for (const size of [0, 1, 63, 64, 100_000]) {
    const bytes = Buffer.alloc(size, 'abc')
    t.equal(sha256Base64(bytes), sha256(bytes).toString('base64'))
    t.equal(sha256(bytes).toString('hex'), createHash('sha256').update(bytes).digest('hex'))
  }
})
