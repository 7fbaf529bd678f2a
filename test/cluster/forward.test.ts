import t from 'tap'
import { once } from 'node:events'
import { type IncomingHttpHeaders, request } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { connect, createServer } from 'node:net'
import { json, type Route, streamedBody } from '../../lib/http/core/route.js'
import { Forwarder, readLeaderHead, readLeaderUpgrade } from '../../lib/cluster/forward.js'
import { acceptOf } from '../../lib/http/websocket/handshake.js'
import { webSocket } from '../../lib/http/websocket/socket.js'
import { makeSigned } from '../support/certificates.js'
import { createClient } from '../support/client.js'
import { readDocument } from '../support/described.js'
import { freePort } from '../support/free-port.js'
import { startServer } from '../support/http-server.js'
import { ownHub, readerOf, signerOf } from '../support/hub-keys.js'
import { until } from '../support/until.js'
import { openWebSocket } from '../support/websocket.js'
import { listen, urlOf } from '../support/on-loopback.js'

const signing = { signer: signerOf('h2'), adminToken: () => 'the-admin-token', allowsHttp: false }
const route = (method: Route['method'], path: string, handle: Route['handle'], more: object = {}): Route => {
  return { method, path, auth: 'public', body: streamedBody, handle, ...more }
}

/** Starts a hub that passes everything on to `url`. */
async function startFollower(t: Test, url: string, limits: { connectMs?: number; silentMs?: number } = {}) {
  const reached: number[] = []
  const forwarder = new Forwarder({
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
  const url = await urlOf(t, silent)
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
  const forwarder = new Forwarder({ ...signing, reached: async () => {} })
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
  })
  const follower = await startFollower(t, `https://localhost:${await listen(t, impostor)}`)
  for (const method of ['GET', 'POST']) {
    const answer = await fetch(`${follower.url}/x`, { method, headers: { authorization: 'Bearer secret' } })
    t.equal(answer.status, 503)
    t.match(await answer.json(), { code: 'no_leader' })
  }
  t.strictSame(asked, [])
})

/* A leader whose machine was taken over, on real sockets: it writes any bytes as its answer. */

const key = 'dGhlIHNhbXBsZSBub25jZQ=='

/** Starts a hub that passes requests on to a leader which answers each of them with `answer()`. */
async function startBetween(t: Test, answer: () => string) {
  const leader = createServer(socket => {
    socket.on('error', () => {})
    socket.once('data', () => socket.end(Buffer.from(answer(), 'latin1')))
  })
  const url = await urlOf(t, leader)
  const signing = { signer: signerOf('h2'), adminToken: () => 'x', allowsHttp: false }
  const forwarder = new Forwarder({ ...signing, reached: async () => {} })
  const hub = {
    clientOf: () => null,
    mark: () => {},
    divert: (exchange: Parameters<typeof forwarder.pass>[0]) => forwarder.pass(exchange, ownHub({ name: 'h1', url }))
  }
  const handle = () => json('here')
  const routes = (['GET', 'POST'] as const).map(method => {
    return { method, path: '/*rest', auth: 'public' as const, body: streamedBody, handle }
  })
  return startServer(t, routes, { hub })
}

/** Sends a request and returns the answer as a client sees it. */
async function ask(
  url: string,
  { method = 'GET', headers = {} }: { method?: string; headers?: Record<string, string> } = {}
) {
  const sent = request(`${url}/api/x`, { method, headers, agent: false }).end()
  const [answer] = await once(sent, 'response')
  let body = ''
  for await (const chunk of answer.setEncoding('utf8')) body += chunk
  return { status: answer.statusCode as number, headers: answer.headers as Record<string, string | string[]>, body }
}

const head = (status: string, ...lines: string[]): string => [`HTTP/1.1 ${status}`, ...lines, '', ''].join('\r\n')
const jsonType = 'Content-Type: application/json'

t.test('an answer of the API passes, with headers that this hub writes', async t => {
  let answer = ''
  const { url } = await startBetween(t, () => answer)
  answer = `${head('200 OK', jsonType, 'Content-Length: 2', 'Content-Security-Policy: default-src *', 'Link: </x>; rel=preload', 'Access-Control-Allow-Origin: *', 'Refresh: 0; url=https://evil.test', 'Clear-Site-Data: "*"', 'Svc-Sequence: 1', 'ETag: "a"')}{}`
  const passed = await ask(url)
  t.match(passed, { status: 200, body: '{}' })
  const { date, connection, ...headers } = passed.headers
  t.ok(date && connection)
  t.strictSame(headers, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': '2',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'same-origin',
    'content-security-policy': "default-src 'none'; sandbox",
    etag: '"a"'
  })
  answer = `${head('200 OK', 'Content-Type: text/html', 'Content-Length: 8')}<script>`
  t.match((await ask(url)).headers, {
    'content-type': 'application/octet-stream',
    'content-disposition': 'attachment; filename="x"'
  })
})

t.test('the only cookie that passes is the one of a session, alone and for this hub', async t => {
  let answer = ''
  const { url } = await startBetween(t, () => answer)
  const good = 'svc_session_0123456789ab=secret-1; Path=/other/; Max-Age=60; HttpOnly; SameSite=Strict'
  const cookieOf = async (...cookies: string[]) => {
    answer = `${head('200 OK', jsonType, 'Content-Length: 2', ...cookies.map(cookie => `Set-Cookie: ${cookie}`))}{}`
    return (await ask(url, { method: 'POST' })).headers['set-cookie']
  }
  t.strictSame(await cookieOf(good), [good.replace('/other/', '/')])
  const secure = `__Secure-${good.replace('/other/', '/')}; Secure`
  t.strictSame(await cookieOf(secure), [secure])
  for (const cookies of [
    [good, 'a=b'],
    ['a=b'],
    [good.replace('; HttpOnly', '')],
    [good.replace('Strict', 'None')],
    [`${good}; Domain=example.org`],
    [`__Secure-${good}`],
    [`${good}; Secure`],
    [good.replace('secret-1', 'a, other=b')]
  ]) {
    t.equal(await cookieOf(...cookies), undefined, cookies.join(' + '))
  }
})

t.test('what is no answer of the API is 502, and says that a change may have been made', async t => {
  let answer = ''
  const { url } = await startBetween(t, () => answer)
  for (const [what, text] of [
    ['a redirection', head('302 Found', 'Location: https://evil.test/', 'Content-Length: 0')],
    ['another status', `${head('299 Odd', jsonType, 'Content-Length: 2')}{}`],
    ['a status that does not exist', `${head('999 Odd', jsonType, 'Content-Length: 2')}{}`],
    ['an error in HTML', `${head('404 Not Found', 'Content-Type: text/html', 'Content-Length: 2')}{}`],
    ['a part that nobody asked for', `${head('206 Partial Content', jsonType, 'Content-Length: 2')}{}`],
    ['an unchanged page that nobody has', head('304 Not Modified')],
    ['another protocol', head('101 Switching Protocols', 'Upgrade: x', 'Connection: Upgrade')],
    ['no HTTP', 'SSH-2.0-OpenSSH_9.9\r\n'],
    ['a malformed header', head('200 OK', 'Bad Header: x')],
    ['a header that never ends', head('200 OK', `X: ${'a'.repeat(100_000)}`)],
    ['two lengths', `${head('200 OK', jsonType, 'Content-Length: 2', 'Content-Length: 3')}{}`],
    ['a control character', head('200 OK', 'X: a\x00b')]
  ] as const) {
    answer = text
    const read = await ask(url)
    t.equal(read.status, 502, what)
    t.match(JSON.parse(read.body), { code: 'leader_answer', error: /"h1"/ }, what)
    t.notMatch(read.body, /may or may not/, what)
    const change = await ask(url, { method: 'POST' })
    t.equal(change.status, 502, what)
    t.match(JSON.parse(change.body), { code: 'leader_answer', error: /may or may not have been made/ }, what)
  }
})

t.test('a WebSocket opens only with the agreement that the client asked for', async t => {
  const headers = {
    upgrade: 'websocket',
    connection: 'Upgrade',
    'sec-websocket-version': '13',
    'sec-websocket-key': key
  }
  let answer = ''
  const { url } = await startBetween(t, () => answer)
  const open = async (): Promise<string> => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    const lines = Object.entries({ host: 'x', ...headers }).map(([name, value]) => `${name}: ${value}`)
    socket.write(`GET /api/x HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
    let text = ''
    for await (const chunk of socket.setEncoding('latin1')) text += chunk
    return text
  }
  const agreed = ['Upgrade: websocket', 'Connection: Upgrade']
  const accept = `Sec-WebSocket-Accept: ${acceptOf(key)}`
  answer = `${head('101 Anything <b>', ...agreed, accept, 'Set-Cookie: a=b', 'X-Other: 1')}\x81\x02hi`
  t.equal(
    await open(),
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n${accept}\r\n\r\n\x81\x02hi`
  )
  for (const lines of [
    [...agreed],
    [...agreed, 'Sec-WebSocket-Accept: eA=='],
    [...agreed, accept, 'Sec-WebSocket-Protocol: evil'],
    [...agreed, accept, 'Sec-WebSocket-Extensions: permessage-deflate']
  ]) {
    answer = head('101 Switching Protocols', ...lines)
    t.match(await open(), /^HTTP\/1\.1 502 [^]*"leader_answer"/, lines.join())
  }
})

t.test('heads are read by a list', async t => {
  const asked = { method: 'GET', headers: {}, rawPath: '/base/api/x', belowPath: '/api/x' }
  const read = (headers: Record<string, unknown>) =>
    readLeaderHead(
      { statusCode: 200, headers: { 'content-type': 'application/json', ...headers } as never },
      asked,
      'h1'
    ).headers
  t.match(read({ 'x-svc-deploy-url': 'https://svc.example/deployments/dep_1', 'x-svc-deploy-id': 'dep_1' }), {
    'x-svc-deploy-url': 'https://svc.example/deployments/dep_1',
    'x-svc-deploy-id': 'dep_1'
  })
  t.equal(read({ 'x-svc-deploy-url': 'javascript:alert(1)' })['x-svc-deploy-url'], undefined)
  t.equal(read({ 'content-encoding': 'br' })['content-encoding'], undefined)
  const metrics = 'text/plain; version=0.0.4; charset=utf-8'
  t.equal(read({ 'content-type': metrics })['content-type'], metrics)
  const cookie = 'svc_session_ab=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict'
  t.equal(read({ 'set-cookie': [cookie] })['set-cookie'], cookie.replace('Path=/;', 'Path=/base/;'))
  const socket = { ...asked, headers: { 'sec-websocket-key': key, 'sec-websocket-protocol': 'a, b' } }
  const accepted = { 'sec-websocket-accept': acceptOf(key), 'sec-websocket-protocol': 'b' }
  t.match(readLeaderUpgrade({ statusCode: 101, headers: accepted }, socket, 'h1'), /Sec-WebSocket-Protocol: b\r\n\r\n$/)
})

t.test('every header passes that an operation of the API answers with', t => {
  const values: Record<string, string> = {
    etag: '"a"',
    'svc-signature': `${'A+/'.repeat(28)}==`,
    'x-svc-deploy-url': 'https://svc.example/deployments/dep_1',
    'set-cookie': 'svc_session_1=x; Path=/; HttpOnly; SameSite=Strict',
    'x-svc-deploy-id': 'dep_1'
  }
  const asked = { headers: {}, rawPath: '/api/x', belowPath: '/api/x', method: 'GET' }
  const names = Object.values(readDocument().paths)
    .flatMap(each => Object.values(each).flatMap(({ responses }) => Object.values(responses)))
    .flatMap(({ headers = {} }) => Object.keys(headers))
  t.ok(names.length > 5)
  for (const name of new Set(names.map(name => name.toLowerCase()))) {
    const value = values[name] ?? '1'
    const headers = { 'content-type': 'application/json', [name]: name === 'set-cookie' ? [value] : value }
    const { headers: passed } = readLeaderHead({ statusCode: 200, headers }, asked, 'h1')
    t.equal(passed[name], value, name)
  }
  t.end()
})
