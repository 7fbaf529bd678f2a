import t from 'tap'
import { isAddressBlock, reach } from '../../lib/probe/reach.js'

const found = (...addresses: string[]) => ({
  lookup: async () => addresses.map(address => ({ address, family: address.includes(':') ? 6 : 4 }))
})

t.test('reaches this machine without a setting', async t => {
  t.strictSame(await reach('127.0.0.1', { hosts: [] }), { address: '127.0.0.1', family: 4, isLoopback: true })
  t.match(await reach('127.9.8.7', { hosts: [] }), { isLoopback: true })
  t.match(await reach('[::1]', { hosts: [] }), { address: '::1', family: 6, isLoopback: true })
  t.match(await reach('shop.internal', { hosts: [], ...found('127.0.0.1') }), { isLoopback: true })
})

t.test('reaches another host only if the setting names it or its address', async t => {
  const other = found('192.0.2.7')
  const why = /"db\.example" is neither this machine nor in the setting gate_hosts/
  await t.rejects(reach('db.example', { hosts: [], ...other }), { name: 'Unreachable', message: why })
  await t.rejects(reach('db.example', { hosts: ['other.example', '198.51.100.0/24'], ...other }), { message: why })
  for (const item of ['DB.example', '192.0.2.7', '192.0.2.0/24', '0.0.0.0/0']) {
    const options = { hosts: [item], ...other }
    t.strictSame(await reach('db.example', options), { address: '192.0.2.7', family: 4, isLoopback: false }, item)
  }
  await t.rejects(reach('169.254.169.254', { hosts: [] }), { name: 'Unreachable' })
  t.match(await reach('2001:db8::1', { hosts: ['2001:db8::/32'] }), { family: 6 })
})

t.test('chooses a permitted address among those of a name', async t => {
  const options = { hosts: [], ...found('192.0.2.7', '127.0.0.1') }
  t.match(await reach('both.example', options), { address: '127.0.0.1' })
})

t.test('says that a name is unknown', async t => {
  const lookup = async () => {
    throw new Error('ENOTFOUND')
  }
  await t.rejects(reach('gone.example', { hosts: [], lookup }), { message: /"gone.example" is not a known host/ })
})

t.test('recognizes addresses and blocks', async t => {
  for (const item of ['192.0.2.1', '192.0.2.0/24', '::1', '2001:db8::/128']) t.ok(isAddressBlock(item), item)
  for (const item of ['example.org', '192.0.2.0/33', '192.0.2.0/', '::/129', '1.2.3.4/1/2', '']) {
    t.notOk(isAddressBlock(item), item)
  }
})
