import { once } from 'node:events'
import { createServer as createSecureServer } from 'node:https'
import { createServer, type AddressInfo } from 'node:net'
import type { IncomingHttpHeaders } from 'node:http'
import t from 'tap'
import { createForwarder } from '../../../lib/http/outgoing/forward.js'
import { json, streamedBody, type Route } from '../../../lib/http/core/route.js'
import { webSocket } from '../../../lib/http/websocket/reply.js'
import { makeSigned } from '../../support/certificates.js'
import { createClient } from '../../support/client.js'
import { ownHub, readerOf, signerOf } from '../../support/hub-keys.js'
import { freePort } from '../../support/free-port.js'
import { startServer } from '../../support/http-server.js'
import { until } from '../../support/until.js'
import { openWebSocket } from '../../support/websocket.js'

const signing = { signer: signerOf('h2'), adminToken: () => 'the-admin-token', allowsHttp: false }
const route = (method: Route['method'], path: string, handle: Route['handle'], more: object = {}): Route => {
  return { method, path, auth: 'public', body: streamedBody, handle, ...more }
}

/** Starts a hub that passes everything on to `url`. */
async function startFollower(t: Test, url: string, limits: { connectMs?: number; silentMs?: number } = {}) {
  const reached: number[] = []
  const forwarder = createForwarder({
    ...signing,
    reached: async sequence => void reached.push(sequence),
    ...limits
  })
  const routes = ['GET', 'POST'].map(method => route(method as 'GET', '/*rest', () => json('here')))
  const hub = {
    clientOf: () => null,
    mark: () => {},
    divert: (exchange: Parameters<typeof forwarder.pass>[0]) => forwarder.pass(exchange, ownHub({ name: 'h1', url }))
  }
  return { ...(await startServer(t, routes, { hub })), forwarder, reached }
}

type Test = Parameters<typeof startServer>[0]

/** Starts a hub that reads what another one says about its clients, and stamps its answers. */
async function startLeader(t: Test, routes: Route[]) {
  const read = readerOf('h1', ['h2'])
  const hub = {
    clientOf: (request: { method?: string; url?: string; headers: IncomingHttpHeaders }) =>
      read({ method: request.method as string, target: request.url as string, headers: request.headers }),
    mark(exchange: { stamp: unknown; trailers: unknown }) {
      exchange.stamp = () => ({ 'svc-sequence': '41' })
      exchange.trailers = () => ({ 'svc-sequence': '42' })
    },
    divert: () => undefined
  }
  return startServer(t, routes, { hub: hub as never })
}

t.test('a request and its answer arrive unchanged, with the address of the client', async t => {
  const leader = await startLeader(t, [
    route('POST', '/echo', async request => {
      const chunks: Buffer[] = []
      for await (const chunk of request.body) chunks.push(chunk as Buffer)
      const { client, isSecure, headers, query } = request
      return json({ client, isSecure, bytes: Buffer.concat(chunks).length, host: headers.host, q: query.get('q') }, 201)
    })
  ])
  const follower = await startFollower(t, leader.url)
  const reply = await createClient(() => follower.url, 'secret').send('POST', '/echo?q=%C3%A4', {
    headers: { 'x-forwarded-for': '192.0.2.9', 'svc-forwarded': 'forged', 'x-forwarded-proto': 'https' },
    body: Buffer.alloc(3_000_000, 1)
  })
  t.equal(reply.status, 201)
  t.match(reply.body, { bytes: 3_000_000, q: 'ä', isSecure: false, client: { address: '127.0.0.1', viaProxy: false } })
  t.match(reply.body.client.hub, { name: 'h2', isOwn: false })
  t.equal(reply.body.host, new URL(follower.url).host)
  t.equal(reply.headers['svc-sequence'], undefined)
  t.ok(follower.reached.includes(41), 'a client reads what it wrote')
})

t.test('a stream arrives line by line, and ends for both sides', async t => {
  let isGone = false
  const leader = await startLeader(t, [
    route('POST', '/lines', () => ({
      kind: 'stream',
      status: 200,
      headers: { 'content-type': 'application/x-ndjson' },
      lasting: true,
      async run(sink) {
        sink.signal.addEventListener('abort', () => (isGone = true))
        await sink.write('{"n":1}\n')
        await new Promise<void>(resolve => sink.signal.addEventListener('abort', () => resolve()))
      }
    })),
    route('POST', '/short', () => ({
      kind: 'stream',
      status: 200,
      headers: { 'content-type': 'application/x-ndjson' },
      run: sink => sink.write('{"n":1}\n')
    }))
  ])
  const follower = await startFollower(t, leader.url)
  const client = createClient(() => follower.url, 'secret')
  const open = await client.open('POST', '/lines')
  const [first] = await once(open, 'data')
  t.equal(String(first), '{"n":1}\n')
  open.destroy()
  await until(() => isGone)
  t.equal((await client.post('/short')).text, '{"n":1}\n')
  t.ok(follower.reached.includes(42), 'the end of a stream says what it includes')
})

t.test('a WebSocket passes through', async t => {
  const leader = await startLeader(t, [
    route('GET', '/socket', () =>
      webSocket({
        async run(connection) {
          for await (const message of connection.messages()) await connection.send(`echo ${String(message)}`)
        }
      })
    )
  ])
  const follower = await startFollower(t, leader.url)
  const socket = await openWebSocket(`${follower.url}/socket`)
  t.equal(socket.status, 101)
  socket.say('hello')
  t.match(await socket.next(), 'echo hello')
  socket.close()
  t.match(await socket.next(), /close/)
})

t.test('a leader that cannot be reached is named, with the time to wait', async t => {
  const port = await freePort()
  const follower = await startFollower(t, `http://127.0.0.1:${port}`)
  const reply = await createClient(() => follower.url, 'secret').post('/api/x', {})
  t.equal(reply.status, 503)
  t.match(reply.body, { code: 'no_leader', error: /"h1", does not answer/ })
  t.equal(reply.headers['retry-after'], '2')
})

t.test('after a change was sent, nobody says that it was not made', async t => {
  const silent = createServer(socket => socket.on('error', () => {}).resume())
  silent.listen(0, '127.0.0.1')
  await once(silent, 'listening')
  t.teardown(() => silent.close())
  const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
  const follower = await startFollower(t, url, { silentMs: 300 })
  const client = createClient(() => follower.url, 'secret')
  t.match((await client.post('/api/x', {})).body, { code: 'leader_lost', error: /may or may not/ })
  t.match((await client.get('/api/x')).body, { code: 'no_leader' })
  const open = client.post('/api/x', {})
  await until(() => follower.events.length === 2)
  follower.forwarder.cut('h2')
  t.match((await open).body, { code: 'leader_lost' })
})

t.test('a body that is too large is refused on the way', async t => {
  const leader = await startLeader(t, [route('POST', '/x', () => new Promise(() => {}))])
  const routes = [route('POST', '/x', () => json('here'), { body: { maxBytes: 1000, totalMs: Infinity } })]
  const forwarder = createForwarder({ ...signing, reached: async () => {} })
  const hub = {
    clientOf: () => null,
    mark: () => {},
    divert: (exchange: Parameters<typeof forwarder.pass>[0]) =>
      forwarder.pass(exchange, ownHub({ name: 'h1', url: leader.url }))
  }
  const follower = await startServer(t, routes, { hub })
  const reply = await createClient(() => follower.url, 'secret').send('POST', '/x', { body: Buffer.alloc(5000) })
  t.equal(reply.status, 413)
})

t.test('a leader without a valid certificate gets nothing, and the change was surely not made', async t => {
  const asked: unknown[] = []
  const impostor = createSecureServer(makeSigned().server, (request, response) => {
    asked.push(request.headers.authorization)
    response.end('{}')
  }).listen(0, '127.0.0.1')
  await once(impostor, 'listening')
  t.teardown(() => impostor.close())
  const follower = await startFollower(t, `https://localhost:${(impostor.address() as AddressInfo).port}`)
  for (const method of ['GET', 'POST']) {
    const answer = await fetch(`${follower.url}/x`, { method, headers: { authorization: 'Bearer secret' } })
    t.equal(answer.status, 503)
    t.match(await answer.json(), { code: 'no_leader' })
  }
  t.strictSame(asked, [])
})
