import t from 'tap'
import type { Test } from 'tap'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { createServer as createPlainServer, createServer as createTcpServer } from 'node:net'
import { getEventListeners } from 'node:events'
import {
  type HttpProbe,
  isAddressBlock,
  maxBodyBytes,
  probeHttp,
  probeTcp,
  reach
} from '../../../lib/http/outgoing/probe.js'
import { makeCertificate } from '../../support/certificates.js'
import { listen, urlOf } from '../../support/on-loopback.js'

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

const never = new AbortController().signal
const probed = (url: string, patch: Partial<HttpProbe> = {}) =>
  probeHttp({ url, hosts: [], readsBody: true, timeoutMs: 2000, signal: never, ...patch })

async function serve(t: Test, listener: RequestListener): Promise<string> {
  const server = createHttpServer(listener)
  return await urlOf(t, server)
}

t.test('sends the request and returns status and body', async t => {
  const url = await serve(t, ({ headers, url, method }, response) =>
    response.writeHead(418).end(`${method} ${url} ${headers.host} ${headers['x-release']} ${headers.connection}`)
  )
  const answer = await probed(`${url}/up?a=b`, { header: { 'x-release': 'dep_a' } })
  t.strictSame(answer, { status: 418, body: `GET /up?a=b ${new URL(url).host} dep_a close` })
  t.strictSame(await probed(url, { readsBody: false }), { status: 418, body: '' })
})

t.test('follows no redirects', async t => {
  let requests = 0
  const url = await serve(t, (_, response) => {
    requests++
    response.writeHead(302, { location: '/elsewhere' }).end()
  })
  t.match(await probed(url), { status: 302 })
  t.equal(requests, 1)
})

t.test('reads at most 64 KiB of a body that does not end', async t => {
  let sent = 0
  let isClosed = false
  const url = await serve(t, (_, response) => {
    const piece = Buffer.alloc(16 * 1024, 'x')
    const more = (): void => {
      while (!response.destroyed && (sent += piece.length) && response.write(piece));
      if (!response.destroyed) response.once('drain', more)
    }
    response.on('close', () => (isClosed = true))
    response.writeHead(200)
    more()
  })
  const answer = await probed(url)
  t.ok('body' in answer && answer.body.length === maxBodyBytes)
  while (!isClosed) await new Promise(resolve => setTimeout(resolve, 5))
  t.ok(sent < 64 * 1024 * 1024, `${sent} bytes were sent`)
})

t.test('needs no end after the last byte that it reads', async t => {
  const url = await serve(t, (_, response) => void response.writeHead(200).write('x'.repeat(maxBodyBytes)))
  t.match(await probed(url), { status: 200, body: /^x+$/ })
})

t.test('ends after its time limit, whatever hangs', async t => {
  const late = { error: 'no answer within 0.1 s' }
  const silent = createPlainServer(socket => void socket.resume())
  t.strictSame(await probed(await urlOf(t, silent), { timeoutMs: 100 }), late, 'no head')
  const slow = await serve(t, (_, response) => void response.writeHead(200).write('begin'))
  t.strictSame(await probed(slow, { timeoutMs: 100 }), late, 'no end of the body')
  t.match(await probed(slow, { timeoutMs: 100, readsBody: false }), { status: 200 })
  const lookup = () => new Promise<never>(() => {})
  t.strictSame(await probed('http://shop.internal/', { timeoutMs: 100, lookup }), late, 'a silent server of names')
  const tcp = {
    host: 'shop.internal',
    port: 1,
    hosts: [],
    timeoutMs: 100,
    signal: new AbortController().signal,
    lookup
  }
  t.equal(await probeTcp(tcp), 'no connection within 0.1 s')
})

t.test('says why there is no answer', async t => {
  const closed = createPlainServer()
  const port = await listen(t, closed)
  closed.close()
  t.match(await probed(`http://127.0.0.1:${port}`), { error: /connection refused/ })
  const rude = createPlainServer(socket => socket.destroy())
  t.match(await probed(await urlOf(t, rude)), { error: /\w/ })
  const garbage = createPlainServer(socket => socket.end('not HTTP at all\r\n\r\n'))
  t.match(await probed(await urlOf(t, garbage)), { error: /\w/ })
  t.match(await probed('http://192.0.2.1/'), { error: /gate_hosts/ })
})

t.test('an abort rejects with its reason, and leaves nothing behind', async t => {
  const slow = await serve(t, () => {})
  const stop = new AbortController()
  const asked = probed(slow, { signal: stop.signal })
  setTimeout(() => stop.abort(new Error('cancelled')), 20)
  await t.rejects(asked, { message: 'cancelled' })
  t.equal(getEventListeners(stop.signal, 'abort').length, 0)
  const leave = new AbortController()
  setTimeout(() => leave.abort(new Error('cancelled')), 20)
  const lookup = () => new Promise<never>(() => {})
  await t.rejects(probed('http://shop.internal/', { signal: leave.signal, lookup }), { message: 'cancelled' })
  await t.rejects(probed(slow, { signal: AbortSignal.abort(new Error('before')) }), { message: 'before' })
})

t.test('accepts any certificate on loopback', async t => {
  const { key, cert } = makeCertificate()
  const server = createSecureServer({ key, cert }, (_, response) => response.end('secure'))
  const port = await listen(t, server)
  t.strictSame(await probed(`https://127.0.0.1:${port}`), { status: 200, body: 'secure' })
})

const probe = (port: number, host = '127.0.0.1') => probeTcp({ host, port, hosts: [], timeoutMs: 2000, signal: never })

t.test('opens a connection and closes it without sending anything', async t => {
  const received: Buffer[] = []
  let resolveEnd = (): void => {}
  const ended = new Promise<void>(resolve => (resolveEnd = resolve))
  const server = createTcpServer(socket => {
    socket.on('data', data => received.push(data))
    socket.on('error', () => {})
    socket.on('close', resolveEnd)
    socket.resume()
  })
  const port = await listen(t, server)
  t.equal(await probe(port), null)
  await ended
  t.strictSame(received, [])
  await new Promise(resolve => server.close(resolve))
  t.match(await probe(port), /connection refused/)
})

t.test('refuses hosts that the setting does not name', async t => {
  t.match(await probe(5432, '192.0.2.1'), /gate_hosts/)
})

t.test('an abort rejects with its reason', async t => {
  const signal = AbortSignal.abort(new Error('cancelled'))
  await t.rejects(probeTcp({ host: '127.0.0.1', port: 1, hosts: [], timeoutMs: 100, signal }), { message: 'cancelled' })
})
