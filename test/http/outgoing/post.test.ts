import t from 'tap'
import { spawn } from 'node:child_process'
import type { LookupAddress, LookupOptions } from 'node:dns'
import { once } from 'node:events'
import { createServer as createTlsServer } from 'node:https'
import { connect } from 'node:net'
import { join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { reasonOf } from '../../../lib/base/errors.js'
import { createLookup, type LookupSources, post, type Posted } from '../../../lib/http/outgoing/post.js'
import { makeCertificate, makeSigned } from '../../support/certificates.js'
import { startNameServer } from '../../support/name-server.js'
import { type Behaviour, startReceiver } from '../../support/receiver.js'
import { until } from '../../support/until.js'
import { listen } from '../../support/on-loopback.js'

const never = new AbortController().signal

/** Only cases that reach the time limit have a short one: on a busy machine an answer may take long. */
const cases: Array<{ behaviour: Behaviour; expected: Posted; what: string; limitMs?: number }> = [
  { behaviour: 200, expected: { outcome: 'answered', status: 200, text: 'answered' }, what: 'an answer' },
  { behaviour: 500, expected: { outcome: 'answered', status: 500, text: 'answered' }, what: 'an error status' },
  { behaviour: 'redirect', expected: { outcome: 'answered', status: 302, text: '' }, what: 'a redirect is an answer' },
  { behaviour: 'hang', expected: { outcome: 'timeout' }, what: 'no answer', limitMs: 300 },
  { behaviour: 'reset', expected: { outcome: 'network', code: 'ECONNRESET' }, what: 'a reset connection' },
  { behaviour: 'endless', expected: { outcome: 'answered', status: 200, text: null }, what: 'an endless body' },
  {
    behaviour: 'silent-body',
    expected: { outcome: 'answered', status: 200, text: null },
    what: 'a body that stops arriving',
    limitMs: 2_000
  }
]

for (const { behaviour, expected, what, limitMs = 30_000 } of cases) {
  t.test(`post: ${what}`, async t => {
    const receiver = await startReceiver(t)
    receiver.behave(behaviour)
    const url = new URL(`${receiver.url}/hook?key=1`)
    t.same(await post(url, { headers: { 'x-a': 'b' }, body: '{"a":"é"}', limitMs, signal: never }), expected)
    t.match(receiver.requests, [
      {
        method: 'POST',
        path: '/hook?key=1',
        text: '{"a":"é"}',
        headers: { 'content-type': 'application/json', 'content-length': '10', 'x-a': 'b' }
      }
    ])
    t.equal(receiver.requests.length, 1)
  })
}

t.test('post: no server', async t => {
  const receiver = await startReceiver(t)
  const probe = connect(receiver.port, '127.0.0.1')
  await new Promise(resolve => probe.once('connect', resolve))
  const port = probe.localPort
  probe.destroy()
  const posted = await post(new URL(`http://127.0.0.1:${port}/`), {
    headers: {},
    body: '',
    limitMs: 2_000,
    signal: never
  })
  t.same(posted, { outcome: 'network', code: 'ECONNREFUSED' })
})

t.test('post: cancelled', async t => {
  const receiver = await startReceiver(t)
  receiver.behave('hang')
  const giveUp = new AbortController()
  const url = new URL(receiver.url)
  const posted = post(url, { headers: {}, body: '{}', limitMs: 5_000, signal: giveUp.signal })
  await receiver.received(1)
  giveUp.abort(new Error('enough'))
  await t.rejects(posted, { message: 'enough' })
  await t.rejects(post(url, { headers: {}, body: '{}', limitMs: 5_000, signal: giveUp.signal }), { message: 'enough' })
  t.equal(receiver.requests.length, 1, 'cancelled before the start: nothing is sent')
})

t.test('post: sends user and password of the URL as a header', async t => {
  const receiver = await startReceiver(t)
  const url = new URL(receiver.url.replace('//', '//me:p%40ss@'))
  await post(url, { headers: {}, body: '{}', limitMs: 5_000, signal: never })
  t.equal(receiver.requests[0]?.headers.authorization, `Basic ${Buffer.from('me:p@ss').toString('base64')}`)
})

t.test('trusts the authorities of a context', async t => {
  const { authority, server: signed } = makeSigned()
  const server = createTlsServer(signed, (_, response) => void response.end('ok'))
  const url = new URL(`https://localhost:${await listen(t, server)}/`)
  const secureContext = createSecureContext({ ca: authority.cert })
  const options = { headers: {}, body: '{}', limitMs: 30_000, signal: never, secureContext }
  t.match(await post(url, options), { outcome: 'answered', status: 200 })
})

t.test('a certificate that is not trusted is named with its cure', async t => {
  const { server: signed } = makeSigned()
  const cases = [
    [makeCertificate({ names: ['localhost'] }), 'signed by an unknown authority (start svc with NODE_EXTRA_CA_CERTS='],
    [signed, 'signed by an unknown authority (start svc with NODE_EXTRA_CA_CERTS=']
  ] as const
  for (const [{ key, cert }, words] of cases) {
    const server = createTlsServer({ key, cert }, (_, response) => void response.end())
    const port = await listen(t, server)
    const options = { headers: {}, body: '{}', limitMs: 30_000, signal: never }
    const posted = await post(new URL(`https://localhost:${port}/`), options)
    t.match(posted, { outcome: 'network' })
    t.ok(reasonOf(posted).includes(words), reasonOf(posted))
  }
})

function find(
  name: string,
  sources: LookupSources,
  options: LookupOptions = { all: true }
): Promise<string | LookupAddress[]> {
  const { lookup, cancel } = createLookup(sources)
  return new Promise<string | LookupAddress[]>((resolve, reject) => {
    lookup(name, options, (error, found) => (error === null ? resolve(found) : reject(error)))
  }).finally(cancel)
}

const v6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]

t.test('asks the hosts file, then DNS, then the system', async t => {
  const { address, asked } = await startNameServer(t, {
    'both.test': { v4: '192.0.2.1', v6 },
    'four.test': { v4: '192.0.2.4' },
    'half.test': { v4: '192.0.2.5', v6: null }
  })
  const hosts =
    '# 192.0.2.8 comment.test\n192.0.2.9\tnamed.test Alias.test # both.test\r\nnonsense four.test\n::1 named.test\n'
  const sources = { servers: [address], hostsFile: join(t.testdir({ hosts }), 'hosts') }
  const cases: Array<[name: string, expected: unknown, options?: LookupOptions]> = [
    [
      'named.test',
      [
        { address: '192.0.2.9', family: 4 },
        { address: '::1', family: 6 }
      ]
    ],
    ['NAMED.test', '192.0.2.9', {}],
    ['alias.test', '192.0.2.9', { family: 4 }],
    ['named.test', '::1', { family: 'IPv6' }],
    ['four.test', [{ address: '192.0.2.4', family: 4 }]],
    ['both.test', '2001:db8::7', { family: 6 }],
    ['half.test', [{ address: '192.0.2.5', family: 4 }]]
  ]
  for (const [name, expected, options] of cases) t.strictSame(await find(name, sources, options), expected, name)
  const both = (await find('both.test', sources)) as LookupAddress[]
  t.same(both.map(({ address }) => address).sort(), ['192.0.2.1', '2001:db8::7'])
  t.notOk(asked.includes('named.test'), 'names in the hosts file are not sent to DNS')
  await t.rejects(find('alias.test', sources, { family: 6 }), { code: 'ENOTFOUND' })
  const local = await find('localhost', { servers: [address], hostsFile: null }, { family: 4 })
  t.equal(local, '127.0.0.1', 'the system knows a name that DNS does not')
})

t.test('can be cancelled while a DNS server is silent, and then keeps no process running', async t => {
  const { address, asked } = await startNameServer(t, { 'silent.test': null })
  const program = fileURLToPath(new URL('../../support/looking-up.js', import.meta.url))
  const child = spawn(process.execPath, [program, 'silent.test', address], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
  const ended = once(child, 'close')
  await until(() => asked.includes('silent.test'))
  child.kill('SIGTERM')
  t.same(await ended, [0, null], 'the process ended by itself')
  t.equal(said, 'asking\nECANCELLED\n')
})
