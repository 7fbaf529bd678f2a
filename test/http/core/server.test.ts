import t from 'tap'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { type IncomingMessage, request as httpRequest } from 'node:http'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '../../../lib/base/errors.js'
import { json, jsonBody, type Reply, type Route } from '../../../lib/http/core/route.js'
import { createPeers, HttpServer } from '../../../lib/http/core/server.js'
import { parseMultipart } from '../../../lib/http/form/multipart.js'
import { readRaw, sendRaw, startServer } from '../../support/http-server.js'
import { until } from '../../support/until.js'

const routes: Route[] = [
  {
    method: 'GET',
    path: '/api/things/:id',
    auth: 'public',
    handle: ({ params, query }) => json({ ...params, q: query.get('q') })
  },
  {
    method: 'POST',
    path: '/api/things',
    auth: 'public',
    body: jsonBody,
    handle: async request => json({ got: await request.json() })
  },
  { method: 'POST', path: '/api/secrets', auth: 'admin', handle: async request => json({ got: await request.json() }) },
  { method: 'GET', path: '/api/whoami', auth: 'public', handle: ({ client }) => json(client) },
  {
    method: 'GET',
    path: '/api/bug',
    auth: 'public',
    handle: () => {
      throw new Error('the inside')
    }
  },
  {
    method: 'GET',
    path: '/api/injection',
    auth: 'public',
    handle: () => json({}, 200, { 'x-name': 'a\r\nset-cookie: b' })
  },
  {
    method: 'GET',
    path: '/api/wait',
    auth: 'public',
    handle: () => {
      throw new Refusal('too_many', 'locked', 'Too many failures', { retryAfterSeconds: 12.3, field: 'token' })
    }
  },
  {
    method: 'GET',
    path: '/api/slow',
    auth: 'public',
    handle: async () => {
      await sleep(150)
      return json({ slow: true })
    }
  }
]

t.test('sends replies', async t => {
  const { url, events } = await startServer(t, routes)
  const reply = await fetch(`${url}/api/things/a%2Fb%20%C3%A9?q=1&ticket=secret`)
  t.same(await reply.json(), { id: 'a/b é', q: '1' })
  t.match(Object.fromEntries(reply.headers), {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff'
  })
  t.match(events[0], {
    kind: 'request',
    method: 'GET',
    path: '/api/things/a%2Fb%20%C3%A9',
    status: 200,
    address: '127.0.0.1'
  })
  t.notMatch(JSON.stringify(events), /ticket|secret/)

  const head = await fetch(`${url}/api/things/1`, { method: 'HEAD' })
  t.equal(head.headers.get('content-length'), '19')
  t.equal(await head.text(), '')

  const missing = await fetch(`${url}/api/nothing`)
  t.equal(missing.status, 404)
  const body = (await missing.json()) as Record<string, unknown>
  t.match(body, { success: false, code: 'not_found', error: /^Not found: / })
  t.equal(body['message'], body['error'])

  const method = await fetch(`${url}/api/things/1`, { method: 'DELETE' })
  t.equal(method.status, 405)
  t.equal(method.headers.get('allow'), 'GET, HEAD')

  const anonymous = await fetch(`${url}/api/secrets`, { method: 'POST', body: '{}' })
  t.equal(anonymous.status, 401)
  t.equal(anonymous.headers.get('www-authenticate'), 'Bearer')

  const locked = await fetch(`${url}/api/wait`)
  t.equal(locked.status, 429)
  t.equal(locked.headers.get('retry-after'), '13')
  t.match(await locked.json(), { code: 'locked', field: 'token' })
})

t.test('answers a bug with a 500 that reveals nothing, and logs the bug', async t => {
  const { url, events } = await startServer(t, routes)
  const reply = await fetch(`${url}/api/bug`)
  t.equal(reply.status, 500)
  const body = (await reply.json()) as { code: string; error: string }
  t.equal(body.code, 'internal_error')
  t.notMatch(body.error, /inside/)
  const failure = events.find(event => event.kind === 'failure')
  t.match(failure, { error: new Error('the inside') })
  t.ok(failure?.kind === 'failure' && body.error.includes(failure.id))

  const injection = await fetch(`${url}/api/injection`)
  t.equal(injection.status, 500, 'a header with a line break is never sent')
  t.equal(injection.headers.get('set-cookie'), null)
})

t.test('reads JSON bodies', async t => {
  const { url } = await startServer(t, routes)
  const post = async (body: RequestInit['body'], type?: string): Promise<[number, unknown]> => {
    const headers: Record<string, string> = type === undefined ? {} : { 'content-type': type }
    const init = body === undefined ? { method: 'POST', headers } : { method: 'POST', headers, body, duplex: 'half' }
    const reply = await fetch(`${url}/api/things`, init as RequestInit)
    const content = (await reply.json()) as { code?: string; got?: unknown }
    return [reply.status, content.code ?? content.got]
  }
  const type = 'application/json'
  t.same(await post('{"a":"é"}', type), [200, { a: 'é' }])
  t.same(await post('[1]', 'Application/JSON; charset="UTF-8"'), [200, [1]])
  t.same(await post('null', 'application/problem+json'), [200, null])
  t.same(await post(undefined), [200, undefined], 'no body at all')
  t.same(await post('{"a":', type), [400, 'invalid_body'])
  t.same(await post('{"dryRun":true,"dryRun":false}', type), [400, 'invalid_body'], 'a key twice')
  t.same(await post('{"a":"\\ud83d"}', type), [400, 'invalid_body'], 'half of a character')
  t.same(await post('', type), [200, undefined])
  t.same(await post(Buffer.from([0x22, 0xff, 0x22]), type), [400, 'invalid_body'], 'invalid UTF-8')
  t.same(await post('{}', 'text/plain'), [415, 'unsupported_type'])
  t.same(await post('{}', 'application/json; charset=utf-16'), [415, 'unsupported_type'])
  const large = JSON.stringify('x'.repeat(1024 * 1024))
  t.same(await post(large, type), [413, 'too_large'], 'by Content-Length')
  const stream = new Blob([large]).stream()
  t.same(await post(stream, type), [413, 'too_large'], 'by count')
  const most = 'x'.repeat(1024 * 1024 - 2)
  t.equal((await post(JSON.stringify(most), type))[0], 200)
})

t.test('answers an invalid request with 400, and then the next request', async t => {
  const { port, url } = await startServer(t, routes)
  const cases: Array<[string, string, number, string]> = [
    ['no HTTP', 'GARBAGE\r\n\r\n', 400, 'invalid_request'],
    ['a TLS hello', '\x16\x03\x01\x02\x00\x01\x00', 400, 'invalid_request'],
    ['no host', 'GET /api/bug HTTP/1.1\r\nConnection: close\r\n\r\n', 400, 'invalid_request'],
    ['two hosts', 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n', 400, 'invalid_request'],
    ['an invalid host', 'GET / HTTP/1.1\r\nHost: a/b\r\nConnection: close\r\n\r\n', 400, 'invalid_request'],
    ['a host with a user', 'GET / HTTP/1.1\r\nHost: u@a\r\nConnection: close\r\n\r\n', 400, 'invalid_request'],
    ['a broken escape', 'GET /api/things/%zz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 400, 'invalid_path'],
    ['invalid UTF-8', 'GET /api/things/%ff HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 400, 'invalid_path'],
    ['a NUL', 'GET /api/things/%00 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 400, 'invalid_path'],
    ['dots', 'GET /api/../etc HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 400, 'invalid_path'],
    ['encoded dots', 'GET /api/%2e%2E/etc HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 400, 'invalid_path'],
    [
      'a broken query',
      'GET /api/things/1?q=%f HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
      400,
      'invalid_request'
    ],
    [
      'raw bytes in the path',
      'GET /api/\xc3\xa9 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
      400,
      'invalid_request'
    ],
    [
      'two framings',
      'POST /api/things HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}',
      400,
      'invalid_request'
    ],
    [
      'two lengths',
      'POST /api/things HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}',
      400,
      'invalid_request'
    ],
    [
      'a broken chunk',
      'POST /api/things HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
      400,
      'invalid_request'
    ],
    ['a header with a NUL', 'GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n', 400, 'invalid_request'],
    ['too many headers', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(17_000)}\r\n\r\n`, 431, 'header_too_large'],
    ['CONNECT', 'CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n', 400, 'invalid_request']
  ]
  for (const [what, bytes, status, code] of cases) {
    const reply = await sendRaw(port, Buffer.from(bytes, 'latin1'))
    t.equal(reply.status, status, what)
    t.equal((JSON.parse(reply.body) as { code: string }).code, code, what)
    t.match(reply.head, /connection: close/i, what)
    t.equal(reply.error, undefined)
  }
  const fine: Array<[string, string, number]> = [
    ['HTTP/1.0 without a host', 'GET /api/things/1 HTTP/1.0\r\n\r\n', 200],
    ['an absolute target', 'GET http://b/api/things/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 200],
    ['an IPv6 host', 'GET /api/things/1 HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n', 200],
    ['an asterisk', 'OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 400]
  ]
  for (const [what, bytes, status] of fine) t.equal((await sendRaw(port, bytes)).status, status, what)
  t.equal((await fetch(`${url}/api/things/1`)).status, 200)
})

interface Upload {
  bytes: number
  headers: Record<string, string>
  /** The beginning of the body. */
  head?: string
}

/** A client that continues to send whatever it is told. Returns how much it sent, and the answer. */
function upload(port: number, path: string, { bytes, headers, head = '' }: Upload) {
  return new Promise<{ status: number; body: string; continued: boolean }>((resolve, reject) => {
    let continued = false
    const request = httpRequest({
      port,
      path,
      method: 'POST',
      headers: { 'content-length': bytes, ...headers },
      agent: false
    })
    request.on('continue', () => (continued = true))
    request.on('error', reject)
    request.on('response', async (response: IncomingMessage) => {
      request.off('error', reject).on('error', () => {})
      let body = ''
      for await (const piece of response) body += String(piece)
      resolve({ status: response.statusCode ?? 0, body, continued })
      request.destroy()
    })
    if (headers['expect'] !== undefined) return request.flushHeaders()
    const chunk = Buffer.alloc(64 * 1024)
    let sent = Buffer.byteLength(head)
    request.write(head)
    const more = (): void => {
      while (sent + chunk.length <= bytes && !request.destroyed) {
        sent += chunk.length
        if (!request.write(chunk)) return void request.once('drain', more)
      }
    }
    more()
  })
}

t.test('tells a client why its upload is refused while it is sending', async t => {
  const linger = { maxBytes: 1024 * 1024, totalMs: 2000, idleMs: 500 }
  const { port, events } = await startServer(t, routes, { limits: { linger } })
  const gigabyte = 1024 ** 3
  const before = process.memoryUsage().rss
  for (let i = 0; i < 5; i++) {
    const { status, body } = await upload(port, '/api/secrets', { bytes: gigabyte, headers: {} })
    t.equal(status, 401)
    t.match(JSON.parse(body), { code: 'unauthorized' })
  }
  t.ok(process.memoryUsage().rss - before < 100 * 1024 * 1024, 'uses no memory')
  const headers = { authorization: 'Bearer secret', 'content-type': 'application/json' }
  t.equal((await upload(port, '/api/secrets', { bytes: gigabyte, headers })).status, 413)

  const asked = await upload(port, '/api/secrets', { bytes: gigabyte, headers: { expect: '100-continue' } })
  t.equal(asked.status, 401)
  t.notOk(asked.continued, 'a client that asks first is not told to continue')

  const rude = connect({ port, host: '127.0.0.1' })
  rude.write(`POST /api/secrets HTTP/1.1\r\nHost: a\r\nContent-Length: ${gigabyte}\r\n\r\n`)
  rude.write(Buffer.alloc(16 * 1024 * 1024))
  const reply = await readRaw(rude)
  t.equal(reply.status, 401, 'also a client that sends first and reads later')
  t.match(reply.head, /connection: close/)
  for (const event of events)
    if (event.kind === 'request') t.ok(event.ms < 1000 && !event.aborted, 'logged when it was answered')
})

t.test('refuses a form that exceeds its limit or is interrupted while it is read', async t => {
  const failures: unknown[] = []
  const target = join(t.testdir(), 'file')
  const { port, events } = await startServer(
    t,
    [
      {
        method: 'POST',
        path: '/form',
        auth: 'public',
        async handle({ body, headers }) {
          let bytes = 0
          await parseMultipart(body, headers['content-type'], {
            field() {},
            async file({ stream }) {
              const limit = new Transform({
                transform(chunk: Buffer, _encoding, done) {
                  bytes += chunk.length
                  if (bytes > 1024 * 1024) done(new Refusal('too_large', 'too_large', 'Too large'))
                  else done(null, chunk)
                }
              })
              await pipeline(stream, limit, createWriteStream(target)).catch((error: unknown) => {
                failures.push(error)
                throw error
              })
            }
          })
          return json({ bytes })
        }
      }
    ],
    { limits: { linger: { maxBytes: 1024 * 1024, totalMs: 2000, idleMs: 500 } } }
  )
  const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
  const type = { 'content-type': 'multipart/form-data; boundary=b' }

  const large = await upload(port, '/form', { bytes: 1024 ** 3, headers: type, head })
  t.equal(large.status, 413)
  t.match(JSON.parse(large.body), { code: 'too_large' })

  const form = Buffer.from(`${head}${'x'.repeat(300)}\r\n--b--\r\n`)
  const whole = await sendRaw(
    port,
    Buffer.concat([
      Buffer.from(
        `POST /form HTTP/1.1\r\nHost: a\r\nContent-Type: ${type['content-type']}\r\nConnection: close\r\nContent-Length: ${form.length}\r\n\r\n`
      ),
      form
    ])
  )
  t.match(whole, { status: 200, body: '{"bytes":300}' })
  // A client has its answer a moment before the server logs the request.
  await until(() => events.length >= 2)
  events.length = failures.length = 0
  const offsets = Array.from({ length: 40 }, (_, i) => Math.floor((i * form.length) / 40))
  for (const at of offsets) {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.write(
      `POST /form HTTP/1.1\r\nHost: a\r\nContent-Type: ${type['content-type']}\r\nContent-Length: ${form.length}\r\n\r\n`
    )
    socket.write(form.subarray(0, at))
    await sleep(2)
    if (at % 2 === 0) socket.destroy()
    else socket.resetAndDestroy()
  }
  await until(() => events.length >= offsets.length)
  for (const event of events) t.match(event, { kind: 'request', aborted: true })
  t.ok(failures.length > 20, 'the writing handlers were told')
  for (const failure of failures) t.match(failure, { code: 'aborted' })
})

t.test('keeps the connection if only a small rest of a refused body remains', async t => {
  const { port } = await startServer(t, routes)
  const reply = await sendRaw(
    port,
    'POST /api/secrets HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc' +
      'GET /api/things/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
  )
  t.equal(reply.status, 401)
  t.match(reply.body, /HTTP\/1\.1 200 OK/)
})

t.test('sends 100 Continue when the body is read', async t => {
  const { port } = await startServer(t, routes)
  const socket = connect({ port, host: '127.0.0.1' })
  socket.write(
    'POST /api/things HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n' +
      'Expect: 100-continue\r\nConnection: close\r\n\r\n'
  )
  const [first] = (await once(socket, 'data')) as [Buffer]
  t.equal(first.toString(), 'HTTP/1.1 100 Continue\r\n\r\n')
  const rest = readRaw(socket)
  socket.write('{}')
  t.match(await rest, { status: 200, body: '{"got":{}}' })
})

t.test('enforces time limits', async t => {
  const limits = { headersMs: 200, bodyIdleMs: 150, linger: { maxBytes: 1024, totalMs: 300, idleMs: 100 } }
  const short: Reply = { kind: 'stream', status: 200, headers: {}, run: async sink => void (await sink.write('a')) }
  const stream: Route = { method: 'GET', path: '/api/stream', auth: 'public', handle: () => short }
  const { port, events } = await startServer(t, [...routes, stream], { limits })
  const head = await sendRaw(port, 'GET / HTTP/1.1\r\nHost:')
  t.equal(head.status, 408)
  t.match(head.body, /header_timeout/)
  const body = await sendRaw(
    port,
    'POST /api/things HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 200000\r\n\r\n{'
  )
  t.equal(body.status, 408)
  t.match(body.body, /body_timeout/)
  t.match(body.head, /connection: close/)
  const small = await sendRaw(
    port,
    'POST /api/things HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{'
  )
  t.equal(small.status, 408)
  t.match(events.at(-1), { status: 408, aborted: false })
  const streamed = await sendRaw(port, 'GET /api/stream HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{')
  t.equal(streamed.status, 200, 'and closes the connection of a stream whose request stays incomplete')
})

t.test('aborts the handler if the client goes away', async t => {
  let reason: unknown
  let begin = (): void => {}
  const begun = new Promise<void>(resolve => {
    begin = resolve
  })
  const { port, events } = await startServer(t, [
    {
      method: 'GET',
      path: '/api/forever',
      auth: 'public',
      async handle({ signal }) {
        begin()
        await once(signal, 'abort')
        reason = signal.reason
        return json({})
      }
    }
  ])
  const socket = connect({ port, host: '127.0.0.1' })
  socket.write('GET /api/forever HTTP/1.1\r\nHost: a\r\n\r\n')
  await begun
  socket.destroy()
  await until(() => events.length > 0)
  t.match(reason, { code: 'aborted' })
  t.match(events[0], { kind: 'request', status: 0, aborted: true })
})

t.test(
  'serves the same at the local socket, and marks its requests as local',
  { skip: process.platform === 'win32' && 'no Unix sockets' },
  async t => {
    const { server } = await startServer(t, routes, { trustedProxies: () => ['127.0.0.1'] })
    // Not in t.testdir(), because the path of a socket has a limit of about 100 bytes.
    const directory = await mkdtemp(join(tmpdir(), 'svc-'))
    t.teardown(() => rm(directory, { recursive: true }))
    const socketPath = join(directory, 's')
    const other = createServer()
    other.listen(socketPath)
    await once(other, 'listening')
    t.teardown(() => other.close())
    server.serve(other)
    const socket = connect(socketPath)
    socket.write('GET /api/whoami HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.2.3.4\r\nConnection: close\r\n\r\n')
    t.match(JSON.parse((await readRaw(socket)).body), {
      address: 'local',
      witnessed: 'local',
      viaProxy: false,
      local: true
    })
  }
)

t.test('lets replies finish and accepts no requests when it stops', async t => {
  let begin = (): void => {}
  let release = (): void => {}
  const begun = new Promise<void>(resolve => {
    begin = resolve
  })
  const released = new Promise<void>(resolve => {
    release = resolve
  })
  const slow: Route = {
    method: 'GET',
    path: '/api/held',
    auth: 'public',
    handle: async () => {
      begin()
      await released
      return json({ slow: true })
    }
  }
  const { server, url, port } = await startServer(t, [...routes, slow])
  const idle = connect({ port, host: '127.0.0.1' })
  await once(idle, 'connect')
  const used = connect({ port, host: '127.0.0.1' })
  used.write('GET /api/things/1 HTTP/1.1\r\nHost: a\r\n\r\n')
  await once(used, 'data')
  const held = fetch(`${url}/api/held`)
  await begun
  const ended = Promise.all([readRaw(idle), readRaw(used)])
  const closed = server.close({ graceMs: 5000 })
  await ended
  await t.rejects(fetch(`${url}/api/things/1`), 'no new connections')
  release()
  const reply = await held
  t.equal(reply.headers.get('connection'), 'close')
  t.same(await reply.json(), { slow: true })
  await closed
})

t.test('stops after its grace period at the latest', async t => {
  let begin = (): void => {}
  const begun = new Promise<void>(resolve => {
    begin = resolve
  })
  const stuck: Route = {
    method: 'GET',
    path: '/stuck',
    auth: 'public',
    handle: () => {
      begin()
      return new Promise(() => {})
    }
  }
  const { server, port } = await startServer(t, [stuck], { limits: { handlerMs: 20 } })
  const reply = sendRaw(port, 'GET /stuck HTTP/1.1\r\nHost: a\r\n\r\n')
  await begun
  const first = server.close({ graceMs: 60_000 })
  await sleep(10)
  await server.close({ graceMs: 20 })
  await first
  t.equal((await reply).status, 0)
})

t.test('waits for a handler whose client is gone', async t => {
  let begin = (): void => {}
  const begun = new Promise<void>(resolve => (begin = resolve))
  let isUndone = false
  const undoing: Route = {
    method: 'GET',
    path: '/undoing',
    auth: 'public',
    async handle({ signal }) {
      begin()
      await once(signal, 'abort')
      for (let turn = 0; turn < 10; turn++) await sleep(1)
      isUndone = true
      return json({})
    }
  }
  const { server, port } = await startServer(t, [undoing])
  const socket = connect({ port, host: '127.0.0.1' })
  socket.write('GET /undoing HTTP/1.1\r\nHost: a\r\n\r\n')
  await begun
  socket.destroy()
  await server.close({ graceMs: 60_000 })
  t.ok(isUndone)
})

t.test('refuses an address that it cannot listen on', async t => {
  const { port } = await startServer(t, routes)
  const second = new HttpServer({
    routes: [],
    base: '',
    authorize: () => undefined,
    trustedProxies: () => [],
    log() {}
  })
  await t.rejects(second.listen({ host: '127.0.0.1', port }), { code: 'address_in_use' })
  await t.rejects(second.listen({ host: '192.0.2.1', port: 0 }), { code: 'invalid_address' })
})

const viaProxy = { 'x-forwarded-for': '198.51.100.7' }

t.test('caches the result for a peer until the list of proxies changes', async t => {
  let trusted = ['192.0.2.0/24']
  const peers = createPeers(() => trusted)
  const direct = peers('192.0.2.1', {})
  t.match(direct, { address: '192.0.2.1' })
  t.equal(peers('192.0.2.1', {}), direct)
  t.not(peers('192.0.2.2', {}), direct)
  t.match(peers('192.0.2.1', viaProxy), { address: '198.51.100.7', viaProxy: true })
  t.match(peers('192.0.2.1', { 'x-real-ip': '198.51.100.8' }), { viaProxy: true })
  t.equal(peers('192.0.2.1', {}), direct, 'proxy headers apply to one request only')
  trusted = []
  t.not(peers('192.0.2.1', {}), direct)
  t.match(peers('192.0.2.1', viaProxy), { address: '192.0.2.1', viaProxy: false })
  trusted = ['no network', '192.0.2.1']
  t.match(peers('192.0.2.1', viaProxy), { address: '198.51.100.7' })
})
