import t from 'tap'
import { checkKeepsIn, createAllowList } from '../../lib/auth/allow-list.js'

const cases: Array<[allowed: string[], address: string, isAllowed: boolean]> = [
  [[], '203.0.113.9', true],
  [['203.0.113.9'], '203.0.113.9', true],
  [['203.0.113.9'], '203.0.113.90', false],
  [['203.0.113.0/24'], '203.0.113.90', true],
  [['203.0.113.0/24'], '203.0.114.1', false],
  [['2001:db8::/32'], '2001:db8:1::5', true],
  [['2001:db8::/32'], '2001:db9::5', false],
  [['203.0.113.9'], '::ffff:203.0.113.9', true],
  [['10.0.0.0/8', '::1'], '::1', true],
  [['10.0.0.0/8'], 'not an address', false]
]

t.test('allows the addresses of the list', async t => {
  for (const [allowed, address, isAllowed] of cases) {
    const check = () => createAllowList({ allowed: () => allowed }).check(address)
    if (isAllowed) t.doesNotThrow(check, `${address} in ${allowed}`)
    else t.throws(check, { kind: 'forbidden', code: 'address_not_allowed' }, `${address} in ${allowed}`)
  }
})

t.test('refuses a list without the address of the client that sets it', async t => {
  for (const [allowed, address, isAllowed] of cases) {
    const check = () => checkKeepsIn(allowed, address)
    if (isAllowed) t.doesNotThrow(check)
    else t.throws(check, { kind: 'invalid', code: 'shuts_out_yourself', field: 'allowed_ips' })
  }
})
