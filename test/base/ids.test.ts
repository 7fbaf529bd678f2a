import t from 'tap'
import { randomIds } from '../../lib/base/ids.js'

t.test('randomIds.id returns the prefix and 16 lowercase characters, always different', async t => {
  const ids = new Set(Array.from({ length: 1000 }, () => randomIds.id('proj_')))
  t.equal(ids.size, 1000)
  for (const id of ids) t.match(id, /^proj_[a-z0-9]{16}$/)
})

t.test('randomIds.token returns 32 bytes in base64url', async t => {
  t.equal(Buffer.from(randomIds.token(), 'base64url').length, 32)
  t.match(randomIds.token(), /^[\w-]{43}$/)
})
