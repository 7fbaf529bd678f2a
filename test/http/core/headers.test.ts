import { isIP } from 'node:net'
import t from 'tap'
import {
  type Cidr,
  clientAddress,
  cookiesOf,
  isFixedName,
  isFromOtherOrigin,
  isLoopback,
  isMeasurable,
  isOriginOf,
  matchesCidr,
  networkOf,
  normaliseAddress,
  parseCidr,
  parseHeaderValue,
  parseHost,
  parseOrigin,
  setCookie
} from '../../../lib/http/core/headers.js'
import { json, type Route } from '../../../lib/http/core/route.js'
import { sendRaw, startServer } from '../../support/http-server.js'
import { createRandom, type Random } from '../../support/random.js'
import { repetitions } from '../../support/thorough.js'

const cases: Array<[text: string, value: string | undefined, parameters?: Record<string, string>]> = [
  ['form-data', 'form-data', {}],
  ['Form-Data ; Name=a', 'form-data', { name: 'a' }],
  ['form-data; name="a;b=c"; x=1', 'form-data', { name: 'a;b=c', x: '1' }],
  ['form-data; name="a\\"b\\\\c\\d"', 'form-data', { name: 'a"b\\c\\d' }],
  ['form-data; name=a; name=b', 'form-data', { name: 'a' }],
  ['form-data; name=""', 'form-data', { name: '' }],
  ['form-data;; name=a;', 'form-data', { name: 'a' }],
  ["form-data; f*=UTF-8''a%20%e2%82%ac", 'form-data', { 'f*': 'a €' }],
  ["form-data; f*=utf-8'de'x", 'form-data', { 'f*': 'x' }],
  ["form-data; f*=ISO-8859-1''%A3", 'form-data', { 'f*': '£' }],
  ["form-data; f*=UTF-8''%zz; g=1", 'form-data', { g: '1' }],
  ['form-data; f*=plain', 'form-data', {}],
  ['form-data; name="open', undefined],
  ['form-data; =a', undefined],
  ['form-data; name="a"b', undefined]
]

for (const [text, value, parameters] of cases) {
  t.test(text, async t => {
    const parsed = parseHeaderValue(text)
    t.equal(parsed?.value, value)
    if (parameters !== undefined) t.same(Object.fromEntries(parsed?.parameters ?? []), parameters)
  })
}

t.test('returns the values of the requested cookies in order', async t => {
  const cases: Array<[header: string | undefined, names: string[], values: string[]]> = [
    [undefined, ['a'], []],
    ['', ['a'], []],
    ['a=1', ['a'], ['1']],
    ['b=2; a=1;c=3', ['a'], ['1']],
    ['a=1; a=2', ['a'], ['1', '2']],
    ['aa=1; a', ['a'], []],
    ['a=b=c', ['a'], ['b=c']],
    ['a=1; b=2', ['b', 'a'], ['1', '2']],
    [`a=${'x'.repeat(20_000)}`, ['a'], []]
  ]
  for (const [header, names, values] of cases) t.same(cookiesOf(header, names), values, String(header).slice(0, 20))
})

t.test('creates a cookie for this server and its own pages only', async t => {
  const options = { name: 'a', value: 'b', path: '/x/', isSecure: false, maxAgeSeconds: null }
  t.equal(setCookie(options), 'a=b; Path=/x/; HttpOnly; SameSite=Strict')
  t.equal(
    setCookie({ ...options, isSecure: true, maxAgeSeconds: 60 }),
    'a=b; Path=/x/; Max-Age=60; HttpOnly; SameSite=Strict; Secure'
  )
  t.match(setCookie({ ...options, value: '', maxAgeSeconds: 0 }), 'a=; Path=/x/; Max-Age=0;')
})

const routes: Route[] = [{ method: 'GET', path: '/api/now', auth: 'public', handle: () => json({ now: true }) }]
const get = (lines: string): string => `GET /api/now HTTP/1.1\r\n${lines}\r\nConnection: close\r\n\r\n`

t.test('answers to its known names and to addresses', async t => {
  const { port } = await startServer(t, routes, { allowedHosts: () => ['deploy.example.org', 'svc'] })
  const cases: Array<[string, number]> = [
    ['deploy.example.org', 200],
    ['Deploy.Example.ORG:8443', 200],
    ['deploy.example.org.', 200],
    ['svc:5431', 200],
    ['localhost', 200],
    ['localhost:5431', 200],
    ['127.0.0.1:5431', 200],
    ['127.8.8.8', 200],
    ['[::1]:5431', 200],
    ['[::1]', 200],
    ['192.0.2.7', 200],
    ['evil.test', 421],
    ['evil.test:5431', 421],
    ['deploy.example.org.evil.test', 421],
    ['xdeploy.example.org', 421],
    ['localhost.evil.test', 421],
    ['127.0.0.1.evil.test', 421],
    ['127.1', 421],
    ['2130706433', 421]
  ]
  for (const [host, status] of cases) {
    const reply = await sendRaw(port, get(`Host: ${host}`))
    t.equal(reply.status, status, host)
    if (status === 421)
      t.match(JSON.parse(reply.body), { success: false, code: 'misdirected_host', error: /allowed_hosts/ })
  }
  t.equal((await sendRaw(port, 'GET /api/now HTTP/1.0\r\n\r\n')).status, 200, 'HTTP/1.0 without a name')
})

t.test('requires a forwarded name to be a name of the server too', async t => {
  const trusted = await startServer(t, routes, {
    allowedHosts: () => ['deploy.example.org'],
    trustedProxies: () => ['127.0.0.1']
  })
  for (const [names, status] of [
    ['deploy.example.org', 200],
    ['deploy.example.org, evil.test', 421],
    ['evil.test', 421]
  ] as const) {
    t.equal(
      (await sendRaw(trusted.port, get(`Host: 127.0.0.1:5431\r\nX-Forwarded-Host: ${names}`))).status,
      status,
      names
    )
  }
  const direct = await startServer(t, routes, { allowedHosts: () => ['deploy.example.org'] })
  t.equal(
    (await sendRaw(direct.port, get('Host: deploy.example.org\r\nX-Forwarded-Host: evil.test'))).status,
    200,
    'the header of an untrusted peer is ignored'
  )
})

t.test('answers to all names if it knows none', async t => {
  const { port } = await startServer(t, routes)
  t.equal((await sendRaw(port, get('Host: evil.test'))).status, 200)
})

t.test('reads the host of a request, and nothing that is more than a host', async t => {
  const cases: Array<[text: string, name: string | null, port?: number]> = [
    ['a.test', 'a.test'],
    ['A.Test.:8443', 'a.test', 8443],
    ['a_b.test:', 'a_b.test'],
    ['[::1]:5431', '::1', 5431],
    ['', ''],
    ['user@a.test', null],
    ['user:secret@a.test:80', null],
    ['a.test/path', null],
    ['a.test?x', null],
    ['a.test#x', null],
    ['a.test\\b.test', null],
    ['a.test, b.test', null],
    ['a.test:80:80', null],
    ['[::1', null],
    ['a test', null],
    ['a.test;id', null]
  ]
  for (const [text, name, port = null] of cases) t.same(parseHost(text), name === null ? null : { name, port }, text)
})

t.test('an origin is that of the server only if it is the whole origin', async t => {
  const cases: Array<[origin: string, host: string, isOwn: boolean | null]> = [
    ['https://a.test', 'a.test', true],
    ['https://a.test:443', 'a.test', true],
    ['http://A.TEST', 'a.test:80', true],
    ['http://[::1]:5431', '[::1]:5431', true],
    ['https://a.test', 'a.test:80', false],
    ['http://a.test:8080', 'a.test', false],
    ['https://a.test.evil.test', 'a.test', false],
    ['https://a.test@evil.test', 'a.test', null],
    ['https://evil.test@a.test', 'a.test', null],
    ['https://user:secret@a.test', 'a.test', null],
    ['https://a.test/', 'a.test', null],
    ['https://a.test\\@evil.test', 'a.test', null],
    ['https://', 'a.test', null],
    ['null', 'a.test', null],
    ['chrome-extension://a.test', 'a.test', null]
  ]
  for (const [text, given, expected] of cases) {
    const [origin, host] = [parseOrigin(text), parseHost(given)]
    t.equal(origin === null || host === null ? null : isOriginOf(origin, host), expected, `${text} at ${given}`)
  }
})

t.test('a name that is not looked up cannot be rebound', async t => {
  for (const name of ['localhost', '127.0.0.1', '::1']) t.equal(isFixedName(name), true, name)
  for (const name of ['127.1', '2130706433', 'localhost.evil.test', '']) t.equal(isFixedName(name), false, name)
})

t.test('detects which page caused a request', async t => {
  const cases: Array<[site: string | undefined, isOther: boolean]> = [
    [undefined, false],
    ['same-origin', false],
    ['none', false],
    ['same-site', true],
    ['cross-site', true],
    ['nonsense', true]
  ]
  for (const [site, isOther] of cases) {
    t.equal(isFromOtherOrigin(site === undefined ? {} : { 'sec-fetch-site': site }), isOther, String(site))
  }
})

t.test('treats answers to cookies as measurable unless the panel asked', async t => {
  t.equal(isMeasurable({}), false, 'no cookie')
  t.equal(isMeasurable({ cookie: 'a=b' }), true)
  t.equal(isMeasurable({ cookie: 'a=b', 'sec-fetch-site': 'same-origin' }), false)
  t.equal(isMeasurable({ cookie: 'a=b', 'x-svc-panel': '1' }), false)
  t.equal(isMeasurable({ cookie: 'a=b', authorization: 'Bearer x' }), false)
})

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

t.test('accepts the addresses that node:net accepts, and no others', async t => {
  const pieces = ['1', '0', '::', ':', ':', 'ffff', 'FE80', '12345', 'g', '1.2.3.4', '256.1.1.1', '1.2.3', '::ffff:']
  const random = createRandom(2373)
  let accepted = 0
  for (let round = 0; round < repetitions(20_000, 200_000); round++) {
    const text = Array.from(
      { length: 1 + random.below(14) },
      () => `${random.oneOf(pieces)}${random.oneOf(['', ':'])}`
    ).join('')
    if (isIP(text) !== 0) accepted++
    if ((parseCidr(text) !== undefined) !== (isIP(text) !== 0)) t.fail(`"${text}" is ${isIP(text)} for node:net`)
  }
  t.ok(accepted > 100, `${accepted} are addresses`)
})

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
