import t from 'tap'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { json, type Route } from '../../../lib/http/core/route.js'
import { readRaw, sendRaw, startServer } from '../../support/http-server.js'
import { createRandom } from '../../support/random.js'

const routes: Route[] = [
  {
    method: 'GET',
    path: '/api/slow',
    auth: 'public',
    handle: async () => {
      await sleep(50)
      return json({ slow: true })
    }
  },
  { method: 'GET', path: '/api/now', auth: 'public', handle: () => json({ now: true }) },
  { method: 'POST', path: '/api/things', auth: 'public', handle: async request => json({ got: await request.json() }) },
  { method: 'POST', path: '/api/secrets', auth: 'admin', handle: async request => json({ got: await request.json() }) },
  { method: 'POST', path: '/api/early', auth: 'public', handle: () => json({ early: true }) },
  {
    method: 'GET',
    path: '/api/stream',
    auth: 'public',
    handle: () => ({
      kind: 'stream',
      status: 200,
      headers: {},
      async run(sink) {
        for (const part of ['one ', 'two ', 'three']) {
          await sink.write(part)
          await sleep(20)
        }
      }
    })
  }
]

const post = (headers: string, body = ''): string =>
  `POST /api/things HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n${headers}\r\n\r\n${body}`
const get = (lines: string): string => `GET /api/now HTTP/1.1\r\nHost: a\r\n${lines}\r\n\r\n`

/** Requests that llhttp refuses, each in a different way (its error codes are HPE_*). */
const malformed: Record<string, string> = {
  'an invalid method': 'G@T /api/now HTTP/1.1\r\nHost: a\r\n\r\n',
  'a method in lower case': 'get /api/now HTTP/1.1\r\nHost: a\r\n\r\n',
  'an unknown method': 'BREW /api/now HTTP/1.1\r\nHost: a\r\n\r\n',
  'a method with a valid beginning': 'GETT /api/now HTTP/1.1\r\nHost: a\r\n\r\n',
  'the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  CONNECT: 'CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n',
  'CONNECT without a port': 'CONNECT /api/now HTTP/1.1\r\nHost: a\r\n\r\n',
  'a method of RTSP': 'DESCRIBE rtsp://a/ RTSP/1.0\r\n\r\n',
  'an invalid version': 'GET /api/now HTTP/1.x\r\nHost: a\r\n\r\n',
  'HTTP/9.9': 'GET /api/now HTTP/9.9\r\nHost: a\r\n\r\n',
  'HTTP/3.0': 'GET /api/now HTTP/3.0\r\nHost: a\r\n\r\n',
  'another protocol': 'GET /api/now ICE/1.0\r\nHost: a\r\n\r\n',
  'HTTP/0.9': 'GET /api/now\r\n\r\n',
  'no target': 'GET  HTTP/1.1\r\nHost: a\r\n\r\n',
  'a target with a blank': 'GET /api/now now HTTP/1.1\r\nHost: a\r\n\r\n',
  'a target with a NUL': 'GET /api/\0now HTTP/1.1\r\nHost: a\r\n\r\n',
  'a target with a control character': 'GET /api/\x01now HTTP/1.1\r\nHost: a\r\n\r\n',
  'a target that is not a path': 'GET api/now HTTP/1.1\r\nHost: a\r\n\r\n',
  'a target with an unknown scheme': 'GET gopher://a/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
  'a target with a bare CR': 'GET /api/\rnow HTTP/1.1\r\nHost: a\r\n\r\n',
  'a target that is too long': `GET /${'a'.repeat(40_000)} HTTP/1.1\r\nHost: a\r\n\r\n`,
  'a header name with a blank': get('X Name: 1'),
  'a header name with a NUL': get('X\0Name: 1'),
  'a header name with a byte above 127': get('X\xe9: 1'),
  'a blank before the colon': get('X-Name : 1'),
  'no header name': get(': 1'),
  'a header without a colon': get('X-Name'),
  'a header value with a NUL': get('X-Name: a\0b'),
  'a header value with a CR': get('X-Name: a\rb'),
  'a header value with a control character': get('X-Name: a\x01b'),
  'a first header that is folded': 'GET /api/now HTTP/1.1\r\n folded\r\nHost: a\r\n\r\n',
  'headers that are too long': get(`X-Name: ${'a'.repeat(40_000)}`),
  'too many headers': get(Array.from({ length: 4000 }, (_, i) => `X-${i}: ${i}`).join('\r\n')),
  'a header line that ends in CR only': 'GET /api/now HTTP/1.1\rHost: a\r\r',
  'a length that is not a number': post('Content-Length: two', '{}'),
  'a negative length': post('Content-Length: -2', '{}'),
  'a length with a plus': post('Content-Length: +2', '{}'),
  'an empty length': post('Content-Length: ', '{}'),
  'a length with a fraction': post('Content-Length: 2.0', '{}'),
  'a length in hexadecimal': post('Content-Length: 0x2', '{}'),
  'a length that overflows': post('Content-Length: 99999999999999999999999', '{}'),
  'a list of lengths': post('Content-Length: 2, 2', '{}'),
  'two lengths': post('Content-Length: 2\r\nContent-Length: 2', '{}'),
  'two lengths that differ': post('Content-Length: 2\r\nContent-Length: 3', '{}'),
  'two framings': post('Content-Length: 2\r\nTransfer-Encoding: chunked', '{}'),
  'two framings in the other order': post('Transfer-Encoding: chunked\r\nContent-Length: 2', '{}'),
  'a coding that does not end in chunked': post('Transfer-Encoding: gzip', '{}'),
  'chunked, and then another coding': post('Transfer-Encoding: chunked, gzip', '{}'),
  'an invalid chunk size': post('Transfer-Encoding: chunked', 'zz\r\n{}\r\n0\r\n\r\n'),
  'a chunk size that overflows': post('Transfer-Encoding: chunked', 'fffffffffffffffffff\r\n{}\r\n0\r\n\r\n'),
  'a negative chunk size': post('Transfer-Encoding: chunked', '-2\r\n{}\r\n0\r\n\r\n'),
  'an empty chunk size': post('Transfer-Encoding: chunked', '\r\n{}\r\n0\r\n\r\n'),
  'a chunk that is longer than its size': post('Transfer-Encoding: chunked', '1\r\n{}\r\n0\r\n\r\n'),
  'a chunk without its line end': post('Transfer-Encoding: chunked', '2\r\n{}XX0\r\n\r\n'),
  'a chunk extension with a NUL': post('Transfer-Encoding: chunked', '2;a\0\r\n{}\r\n0\r\n\r\n'),
  'chunk extensions that are too long': post(
    'Transfer-Encoding: chunked',
    `2;a=${'a'.repeat(40_000)}\r\n{}\r\n0\r\n\r\n`
  ),
  'a trailer with a NUL': post('Transfer-Encoding: chunked', '2\r\n{}\r\n0\r\nX\0: 1\r\n\r\n'),
  'a trailer that is too long': post('Transfer-Encoding: chunked', `2\r\n{}\r\n0\r\nX: ${'a'.repeat(40_000)}\r\n\r\n`),
  'bytes of TLS': '\x16\x03\x01\x02\x00\x01\x00',
  zeros: '\0\0\0\0\0\0\0\0',
  'a request for HTTP/2, and garbage':
    'GET /api/now HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n\0\0'
}

t.test('gives every invalid request one complete answer and ends the connection', async t => {
  const { port, url } = await startServer(t, routes)
  for (const [what, bytes] of Object.entries(malformed)) {
    const reply = await sendRaw(port, Buffer.from(bytes, 'latin1'))
    const last = lastOf(reply)
    t.ok(last.status >= 400 && last.status < 500 && last.isWhole, `${what}: ${JSON.stringify(last)}`)
    t.equal(reply.error, undefined, `${what}: no reset`)
  }
  t.equal((await fetch(`${url}/api/now`)).status, 200)
})

t.test('does the same if the bytes arrive one by one', async t => {
  const { port } = await startServer(t, routes)
  const short = Object.entries(malformed).filter(([, bytes]) => bytes.length < 300)
  await Promise.all(
    short.map(async ([what, bytes]) => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true })
      const reading = readRaw(socket)
      for (const byte of Buffer.from(bytes, 'latin1')) {
        if (socket.destroyed || socket.writableEnded) break
        socket.write(Buffer.of(byte))
        await new Promise(setImmediate)
      }
      const last = lastOf(await reading)
      t.ok(last.status >= 400 && last.status < 500 && last.isWhole, `${what}: ${JSON.stringify(last)}`)
    })
  )
})

t.test('gives one complete answer to random bytes in a request', async t => {
  // An incomplete request is answered when its time limit has passed.
  const { port, url } = await startServer(t, routes, {
    limits: { headersMs: 1000, bodyIdleMs: 1000, keepAliveMs: 1000 }
  })
  const random = createRandom(20261122)
  const whole = [
    get('X-Name: 1\r\nConnection: close'),
    post('Content-Length: 2\r\nConnection: close', '{}'),
    post('Transfer-Encoding: chunked\r\nConnection: close', '2\r\n{}\r\n0\r\n\r\n'),
    'GET /api/now HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n'
  ]
  await Promise.all(
    Array.from({ length: 1000 }, async (_, i) => {
      const bytes = Buffer.from(whole[i % whole.length] as string, 'latin1')
      for (let change = 0; change <= i % 3; change++) bytes[random.below(bytes.length)] = random.below(256)
      const last = lastOf(await sendRaw(port, bytes))
      t.ok(
        last.status >= 200 && last.status < 500 && last.isWhole,
        `${JSON.stringify(bytes.toString('latin1'))}: ${JSON.stringify(last)}`
      )
    })
  )
  t.equal((await fetch(`${url}/api/now`)).status, 200)
})

t.test('does not damage an answer in progress because of later bytes', async t => {
  const { port, events } = await startServer(t, routes)
  for (const path of ['/api/slow', '/api/stream']) {
    const reply = await sendRaw(port, `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\nGARBAGE\r\n\r\n`)
    const [first, second] = repliesIn(`${reply.head}\r\n\r\n${reply.body}`)
    t.match(first, { status: 200, isWhole: true, text: path === '/api/slow' ? '{"slow":true}' : 'one two three' })
    t.match(second, { status: 400, isWhole: true })
    t.equal(reply.error, undefined)
  }
  t.same(
    events.filter(event => event.kind === 'failure'),
    []
  )
})

t.test('finishes several answers in progress first, in order', async t => {
  const { port } = await startServer(t, routes)
  const slow = 'GET /api/slow HTTP/1.1\r\nHost: a\r\n\r\n'
  const reply = await sendRaw(port, `${slow}${slow}${get('X-Name: 1')}GARBAGE\r\n\r\n`)
  t.same(
    repliesIn(`${reply.head}\r\n\r\n${reply.body}`).map(({ status, isWhole }) => [status, isWhole]),
    [
      [200, true],
      [200, true],
      [200, true],
      [400, true]
    ]
  )
})

t.test('sends an early answer completely, without a reset, if the body becomes invalid later', async t => {
  const { port } = await startServer(t, routes)
  const bodies = Object.values(malformed).filter(bytes => bytes.startsWith('POST /api/things'))
  for (const [path, status] of [
    ['/api/early', 200],
    ['/api/nothing', 404],
    ['/api/secrets', 401],
    ['/api/now', 405]
  ] as const) {
    for (const bytes of bodies) {
      const reply = await sendRaw(port, Buffer.from(bytes.replace('/api/things', path), 'latin1'))
      const [first, ...others] = repliesIn(`${reply.head}\r\n\r\n${reply.body}`)
      t.ok(
        (first?.status === status || first?.status === 400) && first.isWhole,
        `${path}: ${JSON.stringify(bytes.slice(0, 200))}: ${JSON.stringify(first)}`
      )
      t.ok(
        others.every(({ status, isWhole }) => status === 400 && isWhole),
        JSON.stringify(others)
      )
      t.equal(reply.error, undefined)
    }
  }
})

t.test('sends an answer completely if its body becomes invalid before the end', async t => {
  const { port } = await startServer(t, routes)
  const reply = await sendRaw(port, 'POST /api/early HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n')
  const [only, ...others] = repliesIn(`${reply.head}\r\n\r\n${reply.body}`)
  t.ok(only !== undefined && (only.status === 200 || only.status === 400) && only.isWhole, JSON.stringify(only))
  t.same(others, [])
})

interface Seen {
  status: number
  isWhole: boolean
  text: string
}

function lastOf(reply: { head: string; body: string }): Seen {
  const all = repliesIn(reply.head === '' ? '' : `${reply.head}\r\n\r\n${reply.body}`)
  return all.at(-1) ?? { status: 0, isWhole: false, text: '' }
}

/** Returns the replies on a connection. Each must be complete by its framing, and a refusal of svc must be JSON. */
function repliesIn(text: string): Seen[] {
  const seen: Seen[] = []
  let rest = text
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n')
    const head = rest.slice(0, end === -1 ? rest.length : end)
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0)
    const body = end === -1 ? '' : rest.slice(end + 4)
    if (status === 100) {
      rest = body
      continue
    }
    const { content, after } = unframed(head, body)
    const isJson = status < 400 || isErrorBody(content)
    seen.push({ status, isWhole: end !== -1 && status !== 0 && content !== undefined && isJson, text: content ?? body })
    rest = after
  }
  return seen
}

function unframed(head: string, body: string): { content: string | undefined; after: string } {
  const length = /^content-length: (\d+)$/im.exec(head)?.[1]
  if (length !== undefined)
    return {
      content: body.length < Number(length) ? undefined : body.slice(0, Number(length)),
      after: body.slice(Number(length))
    }
  let content = ''
  let rest = body
  for (;;) {
    const size = /^([\da-f]+)\r\n/i.exec(rest)
    if (size === null) return { content: undefined, after: '' }
    const bytes = parseInt(size[1] as string, 16)
    content += rest.slice(size[0].length, size[0].length + bytes)
    rest = rest.slice(size[0].length + bytes + 2)
    if (bytes === 0) return { content, after: rest }
  }
}

function isErrorBody(text: string | undefined): boolean {
  try {
    const body = JSON.parse(text ?? '') as Record<string, unknown>
    return body['success'] === false && typeof body['code'] === 'string' && body['error'] === body['message']
  } catch {
    return false
  }
}

t.test('a request that arrived while the process did not run is answered', async t => {
  const { port } = await startServer(t, routes, { limits: { headersMs: 200 } })
  /** The process stands still when the server has accepted a connection on which the client writes `bytes` meanwhile. */
  const whileStill = async (bytes: string) => {
    const socket = connect(port, '127.0.0.1')
    const replied = readRaw(socket)
    await once(socket, 'connect')
    await sleep(20)
    socket.write(bytes)
    await new Promise<void>(resolve => {
      setImmediate(() => {
        const untilMs = performance.now() + 700
        while (performance.now() < untilMs);
        resolve()
      })
    })
    return replied
  }
  t.match(await whileStill(get('Connection: close')), { status: 200, body: '{"now":true}' })
  t.match(
    await whileStill('GET /api/now HTTP/1.1\r\nHost:'),
    { status: 408, body: /header_timeout/ },
    'a part of a head'
  )
  t.match(await sendRaw(port, ''), { status: 408 }, 'a client that sends nothing is still refused')
})
