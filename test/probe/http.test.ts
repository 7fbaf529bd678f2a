import { createServer, type RequestListener } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { createServer as createPlainServer, type AddressInfo, type Server } from 'node:net'
import { getEventListeners } from 'node:events'
import t, { type Test } from 'tap'
import { maxBodyBytes, probeHttp, type HttpProbe } from '../../lib/probe/http.js'
import { makeCertificate } from '../support/certificates.js'

async function listen(t: Test, server: Server): Promise<number> {
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

const never = new AbortController().signal
const probe = (url: string, patch: Partial<HttpProbe> = {}) =>
  probeHttp({ url, hosts: [], readsBody: true, timeoutMs: 2000, signal: never, ...patch })

async function serve(t: Test, listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  t.teardown(() => server.closeAllConnections())
  return `http://127.0.0.1:${await listen(t, server)}`
}

t.test('sends the request and returns status and body', async t => {
  const url = await serve(t, ({ headers, url, method }, response) =>
    response.writeHead(418).end(`${method} ${url} ${headers.host} ${headers['x-release']} ${headers.connection}`)
  )
  const answer = await probe(`${url}/up?a=b`, { header: { 'x-release': 'dep_a' } })
  t.strictSame(answer, { status: 418, body: `GET /up?a=b ${new URL(url).host} dep_a close` })
  t.strictSame(await probe(url, { readsBody: false }), { status: 418, body: '' })
})

t.test('follows no redirects', async t => {
  let requests = 0
  const url = await serve(t, (_, response) => {
    requests++
    response.writeHead(302, { location: '/elsewhere' }).end()
  })
  t.match(await probe(url), { status: 302 })
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
  const answer = await probe(url)
  t.ok('body' in answer && answer.body.length === maxBodyBytes)
  while (!isClosed) await new Promise(resolve => setTimeout(resolve, 5))
  t.ok(sent < 64 * 1024 * 1024, `${sent} bytes were sent`)
})

t.test('ends after its time limit, whatever hangs', async t => {
  const late = { error: 'no answer within 0.1 s' }
  const silent = createPlainServer(socket => void socket.resume())
  t.strictSame(await probe(`http://127.0.0.1:${await listen(t, silent)}`, { timeoutMs: 100 }), late, 'no head')
  const slow = await serve(t, (_, response) => void response.writeHead(200).write('begin'))
  t.strictSame(await probe(slow, { timeoutMs: 100 }), late, 'no end of the body')
  t.match(await probe(slow, { timeoutMs: 100, readsBody: false }), { status: 200 })
})

t.test('says why there is no answer', async t => {
  const closed = createPlainServer()
  const port = await listen(t, closed)
  closed.close()
  t.match(await probe(`http://127.0.0.1:${port}`), { error: /connection refused/ })
  const rude = createPlainServer(socket => socket.destroy())
  t.match(await probe(`http://127.0.0.1:${await listen(t, rude)}`), { error: /\w/ })
  const garbage = createPlainServer(socket => socket.end('not HTTP at all\r\n\r\n'))
  t.match(await probe(`http://127.0.0.1:${await listen(t, garbage)}`), { error: /\w/ })
  t.match(await probe('http://192.0.2.1/'), { error: /gate_hosts/ })
})

t.test('an abort rejects with its reason, and leaves nothing behind', async t => {
  const slow = await serve(t, () => {})
  const stop = new AbortController()
  const asked = probe(slow, { signal: stop.signal })
  setTimeout(() => stop.abort(new Error('cancelled')), 20)
  await t.rejects(asked, { message: 'cancelled' })
  t.equal(getEventListeners(stop.signal, 'abort').length, 0)
  await t.rejects(probe(slow, { signal: AbortSignal.abort(new Error('before')) }), { message: 'before' })
})

t.test('accepts any certificate on loopback', async t => {
  const { key, cert } = makeCertificate()
  const server = createSecureServer({ key, cert }, (_, response) => response.end('secure'))
  const port = await listen(t, server)
  t.strictSame(await probe(`https://127.0.0.1:${port}`), { status: 200, body: 'secure' })
})
