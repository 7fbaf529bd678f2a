import t from 'tap'
import { fingerprintOf } from '../../lib/base/fingerprint.js'

t.test('is the same for equal JSON', async t => {
  t.match(fingerprintOf({ a: 1 }), /^[0-9a-f]{16}$/)
  t.equal(fingerprintOf({ a: 1 }), fingerprintOf({ a: 1 }))
  const values = [undefined, null, {}, { a: 1 }, { a: 2 }, 'undefined']
  t.equal(new Set(values.map(fingerprintOf)).size, values.length)
})
