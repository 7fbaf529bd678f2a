import t from 'tap'
import {
  type Cidr,
  clientAddress,
  isLoopback,
  matchesCidr,
  networkOf,
  normaliseAddress,
  parseCidr
} from '../../../lib/http/core/client-address.js'
import { createRandom, type Random } from '../../support/random.js'
import { repetitions } from '../../support/thorough.js'

const nets = (...texts: string[]): Cidr[] => texts.map(text => parseCidr(text) as Cidr)
const loopback = nets('127.0.0.0/8', '::1')

t.test('has one spelling for every address', async t => {
  const cases: Array<[text: string, address: string | undefined]> = [
    ['1.2.3.4', '1.2.3.4'],
    [' 1.2.3.4 ', '1.2.3.4'],
    ['1.2.3.4:8080', '1.2.3.4'],
    ['::ffff:1.2.3.4', '1.2.3.4'],
    ['::FFFF:102:304', '1.2.3.4'],
    ['[::ffff:1.2.3.4]:80', '1.2.3.4'],
    ['2001:DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['2001:db8::0001', '2001:db8::1'],
    ['[2001:db8::1]:443', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['fe80::1%eth0', 'fe80::1'],
    ['::', '::'],
    ['0:0:0:0:0:0:0:1', '::1'],
    ['1:0:0:2:0:0:0:3', '1:0:0:2::3'],
    ['1:0:2:3:4:5:6:7', '1:0:2:3:4:5:6:7'],
    ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
    ['', undefined],
    ['unknown', undefined],
    ['_hidden', undefined],
    ['1.2.3', undefined],
    ['1.2.3.256', undefined],
    ['01.2.3.4', undefined],
    ['1.2.3.4:port', undefined],
    [':::', undefined],
    ['localhost', undefined]
  ]
  for (const [text, address] of cases) t.equal(normaliseAddress(text), address, text)
})

t.test('parses networks', async t => {
  const cases: Array<[network: string, address: string, matches: boolean]> = [
    ['10.0.0.0/8', '10.255.0.1', true],
    ['10.0.0.0/8', '11.0.0.1', false],
    ['10.1.2.3/8', '10.9.9.9', true],
    ['192.168.1.128/25', '192.168.1.200', true],
    ['192.168.1.128/25', '192.168.1.100', false],
    ['1.2.3.4', '1.2.3.4', true],
    ['1.2.3.4/32', '1.2.3.5', false],
    ['0.0.0.0/0', '8.8.8.8', true],
    ['0.0.0.0/0', '::1', false],
    ['::/0', '2001:db8::1', true],
    ['::/0', '8.8.8.8', false],
    ['2001:db8::/33', '2001:db8:7fff::1', true],
    ['2001:db8::/33', '2001:db8:8000::1', false],
    ['::ffff:10.0.0.0/104', '10.1.1.1', true],
    ['10.0.0.0/8', '::ffff:10.1.1.1', true],
    ['10.0.0.0/8', 'garbage', false]
  ]
  for (const [network, address, matches] of cases)
    t.equal(matchesCidr(address, nets(network)), matches, `${address} in ${network}`)
  for (const text of [
    '',
    'a',
    '1.2.3.4/33',
    '::/129',
    '1.2.3.4/-1',
    '1.2.3.4/',
    '1.2.3.4/08',
    '1.2.3.4/8/8',
    '1.2.3/8',
    '[::1]',
    '1.2.3.4:80',
    '::ffff:1.2.3.4/95',
    'fe80::%eth0/64'
  ]) {
    t.equal(parseCidr(text), undefined, text)
  }
  t.equal(matchesCidr('1.2.3.4', []), false)
})

t.test('finds out who sent a request', async t => {
  const from = (remote: string, headers: Record<string, string>, trusted = loopback) => {
    const { address, witnessed, viaProxy } = clientAddress({ remote, headers, trusted })
    return [address, witnessed, viaProxy]
  }
  const list = (text: string) => ({ 'x-forwarded-for': text })
  t.same(from('5.5.5.5', {}), ['5.5.5.5', '5.5.5.5', false])
  t.same(from('5.5.5.5', list('1.1.1.1')), ['5.5.5.5', '5.5.5.5', false], 'headers of an untrusted peer are ignored')
  t.same(from('::ffff:127.0.0.1', list('1.1.1.1')), ['1.1.1.1', '1.1.1.1', true])
  t.same(
    from('127.0.0.1', list('6.6.6.6, 1.1.1.1')),
    ['6.6.6.6', '1.1.1.1', true],
    'the first address may be forged, the last may not'
  )
  t.same(from('127.0.0.1', list('6.6.6.6, 1.1.1.1, 10.0.0.1'), nets('127.0.0.1', '10.0.0.0/8')), [
    '6.6.6.6',
    '1.1.1.1',
    true
  ])
  t.same(from('127.0.0.1', list('10.0.0.2, 10.0.0.1'), nets('127.0.0.1', '10.0.0.0/8')), ['10.0.0.2', '10.0.0.2', true])
  t.same(from('127.0.0.1', { 'x-real-ip': '1.1.1.1' }), ['1.1.1.1', '1.1.1.1', true])
  t.same(from('127.0.0.1', { ...list('2.2.2.2'), 'x-real-ip': '1.1.1.1' }), ['2.2.2.2', '2.2.2.2', true])
  t.same(from('127.0.0.1', list('unknown, 1.1.1.1:99, _x')), ['1.1.1.1', '1.1.1.1', true], 'garbage is ignored')
  t.same(from('127.0.0.1', list('garbage')), ['127.0.0.1', '127.0.0.1', true])
  t.same(from('127.0.0.1', {}), ['127.0.0.1', '127.0.0.1', true])
  t.same(from('', {}), ['', '', false])
})

t.test('returns the network of one client', async t => {
  const cases = [
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8::/64'],
    ['::1', '::/64'],
    ['', ''],
    ['local', 'local']
  ] as const
  for (const [address, network] of cases) t.equal(networkOf(address), network, address)
})

t.test('recognizes loopback addresses', async t => {
  for (const address of ['127.0.0.1', '127.1.2.3', '::1', '::ffff:127.0.0.1']) t.ok(isLoopback(address), address)
  for (const address of ['128.0.0.1', '10.0.0.1', '::2', '', 'localhost']) t.notOk(isLoopback(address), address)
})

/** Returns one of the spellings of an address of 4 or 16 bytes. */
function spell(bytes: readonly number[], random: Random): string {
  if (bytes.length === 4) {
    const plain = bytes.join('.')
    return random.oneOf([plain, `::ffff:${plain}`, `${plain}:80`, `[::FFFF:${plain}]:443`, ` ${plain} `])
  }
  const words = Array.from({ length: 8 }, (_, i) => ((bytes[2 * i] as number) << 8) | (bytes[2 * i + 1] as number))
  const inHex = words.map(word =>
    random.oneOf([word.toString(16), word.toString(16).toUpperCase(), word.toString(16).padStart(4, '0')])
  )
  const [from, to] = [random.below(8), random.below(8)]
  const isZero = words.slice(from, to + 1).every(word => word === 0) && to > from
  const text = isZero ? `${inHex.slice(0, from).join(':')}::${inHex.slice(to + 1).join(':')}` : inHex.join(':')
  return random.oneOf([text, `[${text}]`, `[${text}]:8080`])
}

t.test('matches any spelling of an address with any network as arithmetic does', async t => {
  const numberOf = (bytes: readonly number[]): bigint => bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n)
  const count = repetitions(500, 5000)
  let inside = 0
  for (let seed = 1; seed <= count; seed++) {
    const random = createRandom(seed)
    const length = random.oneOf([4, 16])
    // The first byte is 0x20, because IPv4-mapped addresses are a separate case.
    const bytes = Array.from({ length }, (_, i) =>
      i === 0 ? 0x20 : random.oneOf([0, 0, 0, 1, 128, 255, random.below(256)])
    )
    const other = bytes.map(byte => (random.below(length) === 0 ? byte ^ (1 << random.below(8)) : byte))
    const spelt = spell(bytes, random)
    const plain = normaliseAddress(spelt)
    if (plain === undefined || normaliseAddress(plain) !== plain) t.fail(`seed ${seed}: "${spelt}" is "${plain}"`)
    if (normaliseAddress(spell(bytes, random)) !== plain) t.fail(`seed ${seed}: two spellings of ${plain}`)
    const bits = random.below(length * 8 + 1)
    const rest = BigInt(length * 8 - bits)
    const expected = numberOf(bytes) >> rest === numberOf(other) >> rest
    if (expected) inside++
    if (matchesCidr(spell(other, random), nets(`${plain}/${bits}`)) !== expected)
      t.fail(`seed ${seed}: ${other.join('.')} in ${plain}/${bits}`)
    if (matchesCidr(spell(other.slice(0, 20 - length), random), nets('::/0', '0.0.0.0/0')) !== true)
      t.fail(`seed ${seed}: in every network`)
  }
  t.ok(inside > count / 5 && inside < count * 0.98, `${inside} of ${count} are inside`)
})
