import t, { type Test } from 'tap'
import { spawnSync } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { EventEmitter, once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { crowdLimits, descriptorLimit, dropRest, isOutOfDescriptors } from '../../../lib/http/core/connections.js'
import { json, type Route } from '../../../lib/http/core/route.js'
import { readRaw, sendRaw, startServer, type TestServer } from '../../support/http-server.js'
import { until } from '../../support/until.js'

const routes: Route[] = [
  { method: 'GET', path: '/api/health', auth: 'public', handle: () => json({ well: true }) },
  { method: 'POST', path: '/api/login', auth: 'public', handle: async request => json({ got: await request.json() }) },
  {
    method: 'GET',
    path: '/api/later',
    auth: 'public',
    handle: async () => {
      await sleep(5)
      return json({ later: true })
    }
  },
  {
    method: 'GET',
    path: '/api/held',
    auth: 'admin',
    handle: async () => {
      await sleep(300)
      return json({ held: true })
    }
  }
]
const crowd = { maxConnections: 40, maxAnonymous: 20, maxAnonymousPerAddress: 8 }
const dribbled =
  'POST /api/login HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 8000\r\n\r\n['

function startCrowded(t: Test, trusted: string[] = []): Promise<TestServer> {
  return startServer(t, routes, { limits: { crowd }, trustedProxies: () => trusted })
}

async function open(t: Test, { port }: TestServer, localAddress: string, bytes = ''): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  socket.on('error', () => {}).resume()
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  socket.write(bytes)
  return socket
}

async function openMany(
  t: Test,
  server: TestServer,
  count: number,
  ...[address, bytes]: [string, string?]
): Promise<Socket[]> {
  const sockets: Socket[] = []
  for (let i = 0; i < count; i++) sockets.push(await open(t, server, address, bytes))
  return sockets
}

async function ask(t: Test, server: TestServer, localAddress: string, head: string): Promise<number> {
  const socket = connect({ port: server.port, host: '127.0.0.1', localAddress }, () =>
    socket.write(`${head}\r\nHost: a\r\nConnection: close\r\n\r\n`)
  )
  t.teardown(() => socket.destroy())
  return (await readRaw(socket)).status
}

async function isLeft(sockets: Socket[], count: number): Promise<void> {
  await until(() => sockets.filter(({ closed, destroyed }) => !closed && !destroyed).length === count)
}

t.test('closes the oldest anonymous connection of an address above its limit, and serves the newest', async t => {
  const server = await startCrowded(t)
  const sockets = await openMany(t, server, 12, '127.0.0.2', dribbled)
  await isLeft(sockets, 8)
  t.ok(
    sockets.slice(0, 4).every(({ destroyed }) => destroyed),
    'the oldest'
  )
  t.equal(await ask(t, server, '127.0.0.2', 'GET /api/health HTTP/1.1'), 200, 'also from that address')
  t.equal(await ask(t, server, '127.0.0.3', 'GET /api/health HTTP/1.1'), 200)
})

t.test('closes a connection of the address with the most of them', async t => {
  const server = await startCrowded(t)
  const few = await openMany(t, server, 2, '127.0.1.1')
  const attackers = (
    await Promise.all(Array.from({ length: 6 }, (_, i) => openMany(t, server, 6, `127.0.0.${10 + i}`)))
  ).flat()
  await isLeft(attackers, 18)
  t.notOk(
    few.some(({ destroyed }) => destroyed),
    'connections of other addresses stay'
  )
  t.equal(await ask(t, server, '127.0.1.2', 'GET /api/health HTTP/1.1'), 200)
})

t.test('never closes a known client in favour of an anonymous one', async t => {
  const server = await startCrowded(t)
  const held = ask(t, server, '127.0.0.2', 'GET /api/held HTTP/1.1\r\nAuthorization: Bearer secret')
  const idle = await open(
    t,
    server,
    '127.0.0.2',
    'GET /api/held HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\n\r\n'
  )
  await once(idle, 'data')
  const again = ask(t, server, '127.0.0.2', 'GET /api/held HTTP/1.1\r\nAuthorization: Bearer secret')
  const attackers = await openMany(t, server, 60, '127.0.0.2')
  await isLeft(attackers, 8)
  t.same(await Promise.all([held, again]), [200, 200])
  t.notOk(idle.destroyed)
  idle.write('GET /api/health HTTP/1.1\r\nHost: a\r\n\r\n')
  await once(idle, 'data')
  await openMany(t, server, 9, '127.0.0.2')
  await isLeft([idle], 0)
  t.pass('the last request of a connection says what its client is')
})

t.test('distinguishes clients behind a trusted proxy by their requests', async t => {
  const server = await startCrowded(t, ['127.0.0.0/8'])
  const user = await open(
    t,
    server,
    '127.0.0.1',
    `${dribbled.replace('Host: a', 'Host: a\r\nX-Forwarded-For: 203.0.113.7')}`
  )
  const attackers = await openMany(
    t,
    server,
    30,
    '127.0.0.1',
    dribbled.replace('Host: a', 'Host: a\r\nX-Forwarded-For: 203.0.113.9')
  )
  await isLeft(attackers, 19)
  t.notOk(user.destroyed, 'though it is the oldest')
  t.equal(await ask(t, server, '127.0.0.1', 'GET /api/health HTTP/1.1\r\nX-Forwarded-For: 203.0.113.8'), 200)
})

t.test('closes an idle connection if known clients use all of them', async t => {
  let begun = 0
  let release = (): void => {}
  const released = new Promise<void>(resolve => {
    release = resolve
  })
  const server = await startServer(
    t,
    [
      ...routes,
      { method: 'GET', path: '/api/quick', auth: 'admin', handle: () => json({}) },
      {
        method: 'GET',
        path: '/api/until',
        auth: 'admin',
        handle: async () => {
          begun++
          await released
          return json({})
        }
      }
    ],
    { limits: { crowd: { maxConnections: 4, maxAnonymous: 2, maxAnonymousPerAddress: 1 } } }
  )
  const request = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\n\r\n`
  const known: Socket[] = []
  for (let i = 0; i < 4; i++) {
    const socket = await open(t, server, '127.0.0.2', request('/api/quick'))
    await once(socket, 'data')
    known.push(socket)
  }
  for (const socket of known) socket.write(request('/api/until'))
  await until(() => begun >= 4)
  t.equal(await ask(t, server, '127.0.0.3', 'GET /api/health HTTP/1.1'), 0, 'all are busy, so the newest is closed')
  release()
  await Promise.all(known.map(socket => once(socket, 'data')))
  t.equal(await ask(t, server, '127.0.0.3', 'GET /api/quick HTTP/1.1\r\nAuthorization: Bearer secret'), 200)
  await isLeft(known, 3)
})

t.test('answers a limited number of requests of a client that does not read the answers', async t => {
  const server = await startServer(t, routes, { limits: { maxPipelined: 5 } })
  const requests = 'GET /api/later HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(300)
  const { head, body, error } = await sendRaw(server.port, requests)
  const statuses = `${head}\r\n\r\n${body}`.match(/HTTP\/1\.1 \d+/g) as string[]
  t.equal(error, undefined)
  t.equal(statuses.at(-1), 'HTTP/1.1 429')
  t.same(
    statuses.slice(0, -1),
    Array.from({ length: 6 }, () => 'HTTP/1.1 200'),
    'the first one, and five sent without waiting'
  )
  t.match(body, /"code":"too_many_requests"}$/)
})

t.test('creates no request objects beyond that limit', async t => {
  const server = await startServer(t, routes, { limits: { maxPipelined: 5 } })
  let made = 0
  const count = (message: unknown): void => {
    if ((message as { request: IncomingMessage }).request.socket.localPort === server.port) made++
  }
  subscribe('http.server.request.start', count)
  t.teardown(() => unsubscribe('http.server.request.start', count))
  const { body } = await sendRaw(server.port, 'GET /api/later HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(300))
  t.match(body, /"code":"too_many_requests"}$/)
  t.equal(made, 7, 'six answered requests and the refused one')
})

t.test('limits the size and the time of a public body', async t => {
  const server = await startServer(t, [
    {
      method: 'POST',
      path: '/api/login',
      auth: 'public',
      handle: async request => json({ got: await request.json() })
    },
    {
      method: 'POST',
      path: '/api/short',
      auth: 'public',
      body: { maxBytes: 100, totalMs: 200 },
      handle: async request => json({ got: await request.json() })
    }
  ])
  const large = JSON.stringify('x'.repeat(9000))
  const announced = await sendRaw(
    server.port,
    `POST /api/login HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${large.length}\r\n\r\n${large}`
  )
  t.match(announced, { status: 413, body: /the maximum for JSON is 8192 bytes/ })
  const chunked = await sendRaw(
    server.port,
    `POST /api/login HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${large.length.toString(16)}\r\n${large}\r\n0\r\n\r\n`
  )
  t.match(chunked, { status: 413, body: /the maximum for JSON is 8192 bytes/ })
  const socket = await open(
    t,
    server,
    '127.0.0.1',
    'POST /api/short HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n['
  )
  const reading = readRaw(socket)
  const dribble = setInterval(() => void (socket.writable && socket.write(' ')), 20)
  t.match(await reading, { status: 408, body: /body_timeout.*|did not arrive within/ }, 'although it was never silent')
  clearInterval(dribble)
})

t.test('joins a body that arrives byte by byte', async t => {
  const server = await startServer(t, routes)
  const body = JSON.stringify({ text: 'é'.repeat(300) })
  const socket = await open(
    t,
    server,
    '127.0.0.1',
    `POST /api/login HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`
  )
  const reading = readRaw(socket)
  for (const byte of Buffer.from(body)) {
    socket.write(Buffer.of(byte))
    await new Promise(setImmediate)
  }
  t.match(await reading, { status: 200 })
  t.same(JSON.parse(Buffer.from((await reading).body, 'latin1').toString()), { got: JSON.parse(body) })
})

t.test('keeps half of the descriptors free for work, whatever their number', t => {
  for (const descriptors of [64, 256, 1024, 20_000, 1_048_576]) {
    const { maxConnections, maxAnonymous, maxAnonymousPerAddress } = crowdLimits(descriptors)
    t.ok(maxConnections <= descriptors / 2 && maxConnections >= 32, `${descriptors}: ${maxConnections} connections`)
    t.ok(
      maxAnonymous <= maxConnections / 2 && maxAnonymousPerAddress <= maxAnonymous / 2,
      `${maxAnonymous}, ${maxAnonymousPerAddress}`
    )
  }
  t.end()
})

t.test('uses the limit of the process', { skip: process.platform !== 'linux' && 'only Linux says it in /proc' }, t => {
  const module = new URL('../../../lib/http/core/connections.js', import.meta.url).href
  const program = `import('${module}').then(({ descriptorLimit }) => console.log(descriptorLimit()))`
  const { stdout } = spawnSync('sh', ['-c', `ulimit -n 500 && exec "${process.execPath}" -e "${program}"`], {
    encoding: 'utf8'
  })
  t.equal(stdout, '500\n')
  t.ok(descriptorLimit() > 0)
  t.end()
})

t.test('recognizes a lack of descriptors', t => {
  t.ok(isOutOfDescriptors(Object.assign(new Error(), { code: 'EMFILE' })))
  t.ok(isOutOfDescriptors(Object.assign(new Error(), { code: 'ENFILE' })))
  for (const other of [new Error(), Object.assign(new Error(), { code: 'ENOENT' }), null, 'EMFILE'])
    t.notOk(isOutOfDescriptors(other))
  t.end()
})

const limits = { maxBytes: 10, totalMs: 60_000, idleMs: 60_000 }
const body = (): Readable & IncomingMessage => new Readable({ read() {} }) as Readable & IncomingMessage

t.test('reads the rest of a body to its end', async t => {
  const request = body()
  const dropped = dropRest(request, limits)
  request.push('rest')
  request.push(null)
  t.equal(await dropped, 'read')
  t.equal(await dropRest(request, limits), 'read', 'nothing more arrives')
})

t.test('stops if the client goes away', async t => {
  const request = body()
  const dropped = dropRest(request, limits)
  request.destroy(new Error('reset'))
  t.equal(await dropped, 'gone')
  t.equal(await dropRest(request, limits), 'gone')
})

for (const which of ['totalMs', 'idleMs'] as const) {
  t.test(`stops at ${which}, and leaves no listener`, async t => {
    const request = body()
    request.push('x')
    t.equal(await dropRest(request, { ...limits, [which]: 20 }), 'limit')
    t.equal(EventEmitter.listenerCount(request, 'data'), 0)
    request.destroy()
    await once(request, 'close')
  })
}

t.test('reads nothing more after the limit of bytes', async t => {
  const request = body()
  const dropped = dropRest(request, { ...limits, totalMs: 50 })
  request.push('more than ten bytes')
  await new Promise(resolve => setImmediate(resolve))
  t.ok(request.isPaused())
  t.equal(await dropped, 'limit')
})
