import { createHmac, sign } from 'node:crypto'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { type IncomingHttpHeaders, createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import t from 'tap'
import { Refusal } from '../../lib/base/errors.js'
import {
  forwardedHeader,
  signForHub,
  type PassedClient,
  createHubClient,
  openHubUrl
} from '../../lib/cluster/forwarded.js'
import type { BodySeal } from '../../lib/http/core/route.js'
import { changedText, createRandom } from '../support/random.js'
import { firstSeed } from '../support/thorough.js'
import { legacyKey, peer, readerOf, signerOf, ownHub } from '../support/hub-keys.js'
import { createServer as createSecureServer } from 'node:https'
import { makeSigned } from '../support/certificates.js'
import { freePort } from '../support/free-port.js'
import { listen, urlOf } from '../support/on-loopback.js'

/* The hostile peers are other hubs: a hub that was removed, one that claims too much, and who repeats or changes what it saw. */

const client: PassedClient = { address: '192.0.2.7', witnessed: '192.0.2.7', viaProxy: false, isSecure: true }
const request = { method: 'POST', target: '/api/projects?a=1', headers: { authorization: 'Bearer token' } }
type Asked = { method: string; target: string; headers: IncomingHttpHeaders }
const sent = (header: string, change: Partial<Asked> = {}): Asked => {
  const asked: Asked = { ...request, ...change }
  return { ...asked, headers: { ...asked.headers, [forwardedHeader]: header } }
}
const signed = (by = 'h2', more: { to?: string; atMs?: number } = {}) => {
  const { to = 'h1', atMs = Date.now() } = more
  return signForHub(signerOf(by, { now: () => atMs }), { to: peer(to), client }, request).header
}

t.test('a hub reads what another hub of its cluster has signed, once', async t => {
  const read = readerOf('h1', ['h2'])
  const header = signed()
  const { isSecure, ...addresses } = client
  t.strictSame(read(sent(header)), { ...addresses, local: false, hub: { name: 'h2', isOwn: false, isSecure } })
  t.match(read(sent(header)), { code: 'hub_refused', message: /sent before/ })
  t.match(read(sent(signed())), { hub: { name: 'h2' } }, 'the same request again, signed again')
})

t.test('nothing else is believed', async t => {
  const header = signed()
  const other = sent(header).headers
  const cases: Array<[what: string, Asked, reason: RegExp | null]> = [
    ['another method', sent(header, { method: 'DELETE' }), /has signed/],
    ['another target', sent(header, { target: '/api/projects?a=2' }), /has signed/],
    ['another token', sent(header, { headers: { authorization: 'Bearer other' } }), /has signed/],
    ['a cookie', sent(header, { headers: { ...request.headers, cookie: 'a=b' } }), /has signed/],
    ['a body that was added', sent(header, { headers: { ...request.headers, 'content-length': '2' } }), /body/],
    ['a hub that was removed, or never was one', sent(signed('h3')), /removed must join again/],
    ['meant for another hub', sent(signed('h2', { to: 'h4' })), /earlier start/],
    ['a clock that is late', sent(signed('h2', { atMs: Date.now() - 61_000 })), /differ by 61 s/],
    ['a clock that is early', sent(signed('h2', { atMs: Date.now() + 90_000 })), /clocks/],
    ['a malformed claim', sent('2.e30.AAAA'), /malformed/],
    ['a number instead of a claim', sent(`2.${Buffer.from('7').toString('base64url')}.AAAA`), /malformed/],
    ['no signature', sent(header.replace(/\.[^.]*$/, '.')), /has signed/],
    ['an older svc', sent(legacyHeader()), /older svc/],
    ['no header', request, null],
    ['an empty header', sent(''), null],
    ['a long header', sent(`2.${'a'.repeat(5000)}.a`), null],
    ['another key of a cluster', sent(legacyHeader(Buffer.alloc(32))), null]
  ]
  for (const [what, asked, reason] of cases) {
    const found = readerOf('h1', ['h2'])(asked)
    if (reason === null) t.equal(found, null, what)
    else t.match(found, { code: /^hub_(refused|out_of_step)$/, message: reason }, what)
  }
  t.match(readerOf('h1', ['h2'])({ ...request, headers: other }), { hub: { name: 'h2' } }, 'it was right before')
})

t.test('a hub may claim the address of a client, and nothing more', async t => {
  const read = readerOf('h1', ['h2'])
  const claim = (more: object, passed: object = {}) => {
    const fields = { hub: 'h2', to: peer('h1').boot, at: Date.now(), body: false, client: { ...client, ...passed } }
    const nonce = Buffer.from(Array.from({ length: 16 }, () => Math.floor(256 * Math.random()))).toString('base64url')
    const text = Buffer.from(JSON.stringify({ nonce, ...fields, ...more })).toString('base64url')
    const { method, target, headers } = request
    const covered = JSON.stringify(['svc hub request 2', text, method, target, headers.authorization, ''])
    return sent(`2.${text}.${sign(null, Buffer.from(covered), signerOf('h2').key).toString('base64url')}`)
  }
  const { isSecure, ...addresses } = client
  const plain = { ...addresses, local: false, hub: { name: 'h2', isOwn: false, isSecure } }
  const more = { local: true, role: 'admin', actor: 'admin', isOwn: true, seal: {} }
  t.strictSame(read(claim({})), plain)
  t.strictSame(read(claim(more, { ...more, hub: { isOwn: true } })), plain, 'the local operator, roles and names')
  for (const [what, given] of [
    ['the local socket', claim({}, { address: 'local', witnessed: 'local' })],
    ['an address that is none', claim({}, { witnessed: 'hub' })],
    ['two addresses', claim({}, { witnessed: '192.0.2.1, 192.0.2.2' })],
    ['another spelling', claim({}, { witnessed: '::ffff:192.0.2.1' })],
    ['no client where there is one', claim({ client: null })],
    ['a number that is too short to be used once', claim({ nonce: 'a' })]
  ] as const) {
    t.match(read(given), { code: 'hub_refused', message: /malformed/ }, what)
  }
})

t.test('a body is the one that was signed, wherever it is cut', async t => {
  const content = Buffer.from('a body of a client, longer than its signature, which has sixty-four bytes. '.repeat(3))
  const headers = { 'content-length': String(content.length) }
  const asked = { method: 'PUT', target: '/', headers }
  const head = signForHub(signerOf('h2'), { to: peer('h1'), client: null }, asked)
  const whole = await buffer(Readable.from([content.subarray(0, 10), content.subarray(10)]).pipe(head.seal()))
  t.equal(whole.length, content.length + head.tailBytes)

  function arrive(bytes: Buffer, size: number, header = head.header): { content: Buffer; isWhole: boolean } {
    const found = readerOf('h1', ['h2'])({ ...asked, headers: { ...headers, [forwardedHeader]: header } })
    if (found === null || found instanceof Refusal) throw new Error(`It was refused: ${found?.message}`)
    const seal = found.hub.seal as BodySeal
    const taken: Buffer[] = []
    for (let at = 0; at < bytes.length; at += size) taken.push(seal.take(bytes.subarray(at, at + size)))
    return { content: Buffer.concat(taken), isWhole: seal.isWhole() }
  }

  for (const size of [1, 7, 63, 64, 65, 1000]) t.strictSame(arrive(whole, size), { content, isWhole: true }, `${size}`)
  for (const at of [0, content.length - 1, content.length, whole.length - 1]) {
    const changed = Buffer.from(whole)
    changed[at] = (changed[at] as number) ^ 1
    t.equal(arrive(changed, 50).isWhole, false, `byte ${at} is another one`)
  }
  for (const end of [0, 63, 64, whole.length - 1]) t.equal(arrive(whole.subarray(0, end), 50).isWhole, false, `${end}`)
  const again = signForHub(signerOf('h2'), { to: peer('h1'), client: null }, asked)
  t.equal(arrive(whole, 50, again.header).isWhole, false, 'the body of another request')
})

function legacyHeader(key: Buffer = legacyKey): string {
  const claim = Buffer.from(JSON.stringify({ ...client, local: true })).toString('base64url')
  const covered = JSON.stringify([claim, request.method, request.target, request.headers.authorization, ''])
  return `${claim}.${createHmac('sha256', key).update(covered).digest('base64url')}`
}

t.test('nothing that was changed on its way is believed', t => {
  const random = createRandom(firstSeed)
  for (let n = 0; n < 500; n++) {
    const header = signed()
    const [, claim, signature] = header.split('.') as [string, string, string]
    const text = Buffer.from(claim, 'base64url').toString()
    const asked = random.oneOf([
      sent(changedText(random, header)),
      sent(header, { target: changedText(random, request.target) }),
      sent(header, { headers: { authorization: changedText(random, request.headers.authorization) } }),
      sent(`2.${Buffer.from(changedText(random, text)).toString('base64url')}.${signature}`)
    ])
    // Other texts of the same bytes are the same claim.
    const same = String(asked.headers[forwardedHeader]).split('.')
    if (same[1] === claim && bytesOf(same[2]) === bytesOf(signature) && asked.target === request.target) {
      if (asked.headers.authorization === request.headers.authorization && same.length === 3) continue
    }
    const found = readerOf('h1', ['h2'])(asked)
    const isRefused =
      found === null || (found instanceof Refusal && /^hub_(refused|out_of_step)$/.test(found.code ?? ''))
    if (!isRefused) t.fail(`seed ${firstSeed}, ${n}: ${JSON.stringify(asked)}: ${JSON.stringify(found)}`)
  }
  t.match(readerOf('h1', ['h2'])(sent(signed())), { hub: { name: 'h2' } })
  t.end()
})

const bytesOf = (text = ''): string => Buffer.from(text, 'base64url').toString('hex')

const read = readerOf('h1', ['h2'])
const to = (url: string) => ownHub({ name: 'h1', url })
const { signal } = new AbortController()

async function startHub(t: Test, answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const server = createServer(answer)
  return await urlOf(t, server)
}

interface Test {
  teardown(work: () => unknown): void
}

t.test('a request is signed as one of the hub itself, below the base path', async t => {
  const url = await startHub(t, (request, response) => {
    const target = (request.url as string).replace('/base', '')
    const found = read({ method: 'POST', target, headers: request.headers })
    const hub = found !== null && 'hub' in found ? found.hub : null
    response.end(JSON.stringify({ hub: { name: hub?.name, isOwn: hub?.isOwn }, url: request.url }))
  })
  const client = createHubClient({ signer: signerOf('h2'), allowsHttp: false })
  const answer = await client.json(to(`${url}/base`), {
    method: 'POST',
    target: '/api/hub/x?a=1',
    body: { a: 1 },
    signal
  })
  t.strictSame(answer, { hub: { name: 'h2', isOwn: true }, url: '/base/api/hub/x?a=1' })
})

t.test('a refusal keeps its code, and anything else names the hub', async t => {
  const client = createHubClient({ signer: signerOf('h2'), allowsHttp: false, silentMs: 200 })
  const refusing = await startHub(t, (_, response) => {
    response.writeHead(404).end('{"error":"Archive not found","code":"not_found"}')
  })
  const ask = (url: string) => client.ask(to(url), { method: 'GET', target: '/', signal })
  await t.rejects(ask(refusing), { code: 'not_found', message: 'Archive not found' })
  const foreign = await startHub(t, (_, response) => void response.writeHead(200 + 302).end('<html>'))
  await t.rejects(ask(foreign), { code: 'hub_unreachable', message: /answered 502/ })
  const silent = await startHub(t, () => {})
  await t.rejects(ask(silent), { code: 'hub_unreachable', message: /silent/ })
  await t.rejects(ask(`http://127.0.0.1:${await freePort()}`), { code: 'hub_unreachable', message: /refused/ })
})

t.test('only a hub with a certificate of the given authority gets a request', async t => {
  const { authority, server: own } = makeSigned()
  const asked: unknown[] = []
  const server = createSecureServer(own, (request, response) => {
    const found = read({ method: 'GET', target: '/', headers: request.headers })
    asked.push(found !== null && 'hub' in found && found.hub.name)
    response.end('{}')
  })
  const url = `https://localhost:${await listen(t, server)}`
  const ask = (ca?: string) =>
    createHubClient({ signer: signerOf('h2'), allowsHttp: false, ca }).json(to(url), {
      method: 'GET',
      target: '/',
      signal
    })
  await t.rejects(ask(), { code: 'hub_unreachable' }, 'an authority that this machine does not know')
  await t.rejects(ask(makeSigned().authority.cert), { code: 'hub_unreachable' }, 'another authority')
  t.strictSame(asked, [])
  await ask(authority.cert)
  t.strictSame(asked, ['h2'])
})

t.test('nothing is sent unencrypted to another machine', async t => {
  const cases: Array<[url: string, isSent: boolean]> = [
    ['https://h1.example.org', true],
    ['http://127.0.0.1:5431', true],
    ['http://127.8.9.10', true],
    ['http://[::1]:5431/base', true],
    ['http://localhost', true],
    ['http://192.0.2.9', false],
    ['http://h1', false],
    ['http://localhost.example.org', false],
    ['http://127.0.0.1.example.org', false],
    ['http://[::ffff:192.0.2.9]', false]
  ]
  for (const [url, isSent] of cases) {
    if (isSent) t.equal(openHubUrl(url, false).href, new URL(url).href)
    else t.throws(() => openHubUrl(url, false), { code: 'hub_not_encrypted' }, url)
    t.equal(openHubUrl(url, true).href, new URL(url).href, 'if it is allowed')
  }
})
