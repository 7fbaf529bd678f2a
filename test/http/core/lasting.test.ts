import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { json, type Reply, type Request, type Route } from '../../../lib/http/core/route.js'
import { webSocket } from '../../../lib/http/websocket/socket.js'
import { startServer } from '../../support/http-server.js'
import { until } from '../../support/until.js'

/** A reply that has begun, and goes on until its client is gone. */
const endless: Reply = {
  kind: 'stream',
  status: 200,
  headers: {},
  run: async sink => {
    sink.sendHead()
    await once(sink.signal, 'abort')
  }
}

/** A server on which nothing but `state` says whether callers are accepted. */
async function start(t: Parameters<typeof startServer>[0]) {
  const state = { version: '1', refuses: false, asked: [] as boolean[], begun: 0, mayAnswer: false }
  const later = async (request: Request): Promise<Reply> => {
    state.begun++
    await until(() => state.mayAnswer)
    return json({ got: request.method })
  }
  const change = async (): Promise<Reply> => {
    state.version += '1'
    state.refuses = true
    return json({})
  }
  const get = (path: string, handle: Route['handle']): Route => ({ method: 'GET', path, auth: 'admin', handle })
  const post = (path: string, handle: Route['handle']): Route => ({ method: 'POST', path, auth: 'admin', handle })
  const routes: Route[] = [
    get('/stream', () => endless),
    get('/stream-later', async () => endless),
    get('/file', () => ({ kind: 'file', open: async () => endless })),
    get('/socket', () => webSocket({ run: async connection => void (await connection.closed) })),
    post('/stream', async () => endless),
    get('/later', later),
    post('/later', later),
    post('/body', async request => json({ got: await request.json() })),
    post('/change', change)
  ]
  const standing = {
    version: () => state.version,
    check(_: unknown, finishes: boolean) {
      state.asked.push(finishes)
      if (state.refuses) throw new Refusal('unauthorized', 'token_revoked', 'Revoked')
    }
  }
  const { port, url } = await startServer(t, routes, { standing })
  const open = (head: string) => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.write(`${head}\r\nHost: a\r\nAuthorization: Bearer secret\r\n`)
    return socket
  }
  return { state, url, open }
}

const upgrade =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'

t.test('replies of every kind that last end with the right of their caller, with the change that took it', async t => {
  const { state, open } = await start(t)
  const heads = ['GET /stream', 'GET /stream-later', 'GET /file', 'GET /socket', 'POST /stream']
  const sockets = heads.map(head => open(`${head} HTTP/1.1`))
  sockets.forEach((socket, i) => void socket.write(heads[i] === 'GET /socket' ? `${upgrade}\r\n` : '\r\n'))
  await Promise.all(sockets.map(socket => once(socket, 'data')))
  const closed = sockets.map(socket => once(socket, 'close'))
  open('POST /change HTTP/1.1').write('Connection: close\r\n\r\n')
  await Promise.all(closed)
  t.ok(state.asked.includes(true), 'a change may finish what it began')
  t.ok(state.asked.includes(false), 'a read may not')
})

t.test('they end within a second after a change from elsewhere', async t => {
  const { state, open } = await start(t)
  const socket = open('GET /stream HTTP/1.1')
  socket.write('\r\n')
  await once(socket, 'data')
  state.refuses = true
  state.version = '2'
  await once(socket, 'close')
  t.ok(state.asked.length > 0)
})

t.test('a body that arrives when its caller has lost the right is refused', async t => {
  const { state, url } = await start(t)
  const headers = { authorization: 'Bearer secret', 'content-type': 'application/json', expect: '100-continue' }
  const post = request(`${url}/body`, { method: 'POST', headers })
  await once(post.flushHeaders() ?? post, 'continue')
  state.refuses = true
  post.end('{}')
  const [reply] = await once(post, 'response')
  t.equal(reply.statusCode, 401)
})

t.test('a read that took long is refused, and a change that began is answered', async t => {
  const { state, url } = await start(t)
  const ask = (method: string, path: string) =>
    fetch(url + path, { method, headers: { authorization: 'Bearer secret' } }).then(({ status }) => status)
  const late = ['GET', 'POST'].map(method => ask(method, '/later'))
  await until(() => state.begun === 2)
  t.equal(await ask('POST', '/change'), 200)
  state.mayAnswer = true
  t.same(await Promise.all(late), [401, 200])
  state.refuses = false
  t.equal(await ask('GET', '/later'), 200, 'who has the right again')
})
