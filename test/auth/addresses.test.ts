import t from 'tap'
import { addressesOf } from '../../lib/auth/addresses.js'
import { localClient } from '../../lib/http/core/headers.js'

t.test('returns the addresses of an actor', async t => {
  const of = (witnessed: string, address: string) => addressesOf({ witnessed, address, viaProxy: true, local: false })
  t.strictSame(of('203.0.113.9', '203.0.113.9'), { ip: '203.0.113.9', claimedIp: null })
  t.strictSame(of('203.0.113.9', '10.0.0.1'), { ip: '203.0.113.9', claimedIp: '10.0.0.1' })
  t.strictSame(addressesOf(localClient), { ip: null, claimedIp: null })
})
