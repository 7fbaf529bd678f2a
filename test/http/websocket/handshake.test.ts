import t from 'tap'
import { once } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import { connect } from 'node:net'
import { json, type Route, streamedBody } from '../../../lib/http/core/route.js'
import { shakeHands } from '../../../lib/http/websocket/handshake.js'
import { webSocket } from '../../../lib/http/websocket/socket.js'
import { readRaw, sendRaw, startServer } from '../../support/http-server.js'
import { openWebSocket } from '../../support/websocket.js'

const routes: Route[] = [
  {
    method: 'GET',
    path: '/ws',
    auth: 'public',
    handle: () => webSocket({ protocols: ['two', 'three'], run: async () => {} })
  },
  { method: 'GET', path: '/private', auth: 'admin', handle: () => webSocket({ run: async () => {} }) },
  { method: 'GET', path: '/plain', auth: 'public', handle: () => json({ plain: true }) },
  {
    method: 'GET',
    path: '/large',
    auth: 'public',
    handle: () => ({
      kind: 'stream',
      status: 200,
      headers: {},
      run: async sink => {
        for (let i = 0; i < 64; i++) await sink.write(Buffer.alloc(256 * 1024, 0x61))
      }
    })
  },
  {
    method: 'GET',
    path: '/bug',
    auth: 'public',
    handle: () => {
      throw new Error('the inside')
    }
  }
]

const without = (name: string): Record<string, string> => ({ [name]: '' })

/** Headers that differ from those of a valid request, and the expected answer: RFC 6455 §4.1, §4.2. */
const table: Array<[what: string, headers: Record<string, string>, status: number, code?: string]> = [
  ['a request as browsers send it', { origin: 'OWN' }, 101],
  ['Connection with several words', { connection: 'keep-alive, Upgrade' }, 101],
  ['words in any case', { upgrade: 'WebSocket', connection: 'uPGRADE' }, 101],
  ['extensions are not accepted', { 'sec-websocket-extensions': 'permessage-deflate; client_max_window_bits' }, 101],
  ['no Upgrade', without('upgrade'), 426, 'upgrade_required'],
  ['another Upgrade', { upgrade: 'h2c' }, 426, 'upgrade_required'],
  ['no Connection', without('connection'), 426, 'upgrade_required'],
  ['no version', without('sec-websocket-version'), 426, 'upgrade_required'],
  ['an older version', { 'sec-websocket-version': '8' }, 426, 'upgrade_required'],
  ['several versions', { 'sec-websocket-version': '8, 13' }, 426, 'upgrade_required'],
  ['no key', without('sec-websocket-key'), 400, 'invalid_handshake'],
  ['a key of 15 bytes', { 'sec-websocket-key': Buffer.alloc(15).toString('base64') }, 400, 'invalid_handshake'],
  ['a key of 17 bytes', { 'sec-websocket-key': Buffer.alloc(17).toString('base64') }, 400, 'invalid_handshake'],
  ['a key that is not base64', { 'sec-websocket-key': '!!!!!!!!!!!!!!!!!!!!!!==' }, 400, 'invalid_handshake'],
  ['a page of another origin', { origin: 'https://evil.test' }, 403, 'foreign_origin'],
  ['a page whose origin has our host as its user name', { origin: 'WITH USER' }, 403, 'foreign_origin'],
  ['a page of our host at another port', { origin: 'http://127.0.0.1:1' }, 403, 'foreign_origin'],
  ['a page with an opaque origin', { origin: 'null' }, 403, 'foreign_origin'],
  ['an origin that is not an HTTP URL', { origin: 'chrome-extension://abcdef' }, 403, 'foreign_origin']
]

t.test('answers the opening handshake', async t => {
  const { url } = await startServer(t, routes)
  for (const [what, headers, status, code] of table) {
    t.test(what, async t => {
      const named: Record<string, string> = { OWN: url, 'WITH USER': url.replace('://', '://evil@') }
      const given = { ...headers, ...(headers['origin'] && { origin: named[headers['origin']] ?? headers['origin'] }) }
      const opened = await openWebSocket(`${url}/ws`, { headers: given })
      t.equal(opened.status, status)
      if (status === 101) {
        t.match(opened.headers, { upgrade: 'websocket', connection: 'Upgrade' })
        t.equal(opened.headers['sec-websocket-extensions'], undefined)
        opened.close()
        return
      }
      t.match(JSON.parse(await opened.body()), { success: false, code })
      if (status === 426) t.match(opened.headers, { upgrade: 'websocket', 'sec-websocket-version': '13' })
    })
  }
})

t.test('returns the accept value of the example in §1.3', async t => {
  const { url } = await startServer(t, routes)
  const opened = await openWebSocket(`${url}/ws`, { headers: { 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' } })
  t.equal(opened.headers['sec-websocket-accept'], 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=')
  opened.socket.destroy()
})

t.test('chooses the first supported subprotocol, or none', async t => {
  const { url } = await startServer(t, routes)
  for (const [offered, chosen] of [
    ['one, three, two', 'three'],
    ['two', 'two'],
    ['one', undefined],
    ['TWO', undefined]
  ] as const) {
    const opened = await openWebSocket(`${url}/ws`, { headers: { 'sec-websocket-protocol': offered } })
    t.equal(opened.headers['sec-websocket-protocol'], chosen, offered)
    opened.socket.destroy()
  }
})

t.test('treats everything but the handshake as for any request', async t => {
  const { url, events } = await startServer(t, routes)
  for (const [path, status, code] of [
    ['/private', 401, 'unauthorized'],
    ['/nothing', 404, 'not_found'],
    ['/bug', 500, 'internal_error']
  ] as const) {
    const opened = await openWebSocket(url + path)
    t.equal(opened.status, status)
    t.match(JSON.parse(await opened.body()), { code })
  }
  const authorised = await openWebSocket(`${url}/private`, { headers: { authorization: 'Bearer secret' } })
  t.equal(authorised.status, 101)
  authorised.close()
  await authorised.rest()

  const plain = await openWebSocket(`${url}/plain`)
  t.equal(plain.status, 200, 'another route ignores the upgrade')
  t.equal(await plain.body(), '{"plain":true}')
  const large = await openWebSocket(`${url}/large`)
  t.ok((await large.body()).length > 16 * 1024 * 1024, 'also if the client reads more slowly than the server writes')

  const ordinary = await fetch(`${url}/ws`)
  t.equal(ordinary.status, 426)
  t.match(Object.fromEntries(ordinary.headers), { upgrade: 'websocket', 'sec-websocket-version': '13' })
  t.equal((await fetch(`${url}/ws`, { method: 'HEAD' })).status, 426)
  t.equal((await fetch(`${url}/ws`, { method: 'POST' })).status, 405)
  t.match(
    events.filter(event => event.kind === 'request' && event.path === '/private'),
    [{ status: 401 }, { status: 101, aborted: false }]
  )
})

t.test('works under a base path', async t => {
  const { url, port } = await startServer(t, routes, { base: '/tools/svc' })
  const opened = await openWebSocket(`${url}/ws`, { headers: { origin: new URL(url).origin } })
  t.equal(opened.status, 101)
  opened.close()
  t.equal((await openWebSocket(`http://127.0.0.1:${port}/ws`)).status, 404)
})

t.test('compares the origin with the name that the client used', async t => {
  const asks = (headers: IncomingHttpHeaders, viaProxy = false): string => {
    const all = {
      upgrade: 'websocket',
      connection: 'upgrade',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
      ...headers
    }
    const client = { address: '10.0.0.1', witnessed: '10.0.0.1', viaProxy, local: false }
    return shakeHands({ method: 'GET', headers: all, client }, { httpVersion: '1.1', protocols: [] }).outcome
  }
  t.equal(asks({ host: 'a.test:8080', origin: 'http://a.test:8080' }), 'accepted')
  t.equal(asks({ host: 'A.test:80', origin: 'http://a.TEST' }), 'accepted', 'the default port is ignored')
  t.equal(asks({ host: 'a.test:443', origin: 'https://a.test' }), 'accepted')
  t.equal(asks({ host: 'a.test', origin: 'http://a.test:8080' }), 'refused')
  t.equal(asks({ host: 'a.test', origin: 'http://a.test.evil.test' }), 'refused')
  t.equal(asks({ host: '[::1]:5431', origin: 'http://[::1]:5431' }), 'accepted')
  t.equal(
    asks({ host: 'inside:5431', 'x-forwarded-host': 'a.test', origin: 'https://a.test' }),
    'refused',
    'headers of an untrusted client are ignored'
  )
  t.equal(asks({ host: 'inside:5431', 'x-forwarded-host': 'a.test', origin: 'https://a.test' }, true), 'accepted')
  t.equal(
    asks({ host: 'inside:5431', 'x-forwarded-host': 'a.test, b.test', origin: 'https://a.test' }, true),
    'accepted'
  )
  t.equal(asks({ host: 'a.test', 'x-forwarded-host': 'b.test', origin: 'https://a.test' }, true), 'refused')
  t.equal(asks({ host: 'a.test', origin: 'https://a.test' }, true), 'accepted', 'a proxy without the header')
  t.equal(asks({ host: 'a.test' }), 'accepted', 'a program has no origin')
})

const routesForUpgrade: Route[] = [
  {
    method: 'GET',
    path: '/hello',
    auth: 'public',
    handle: ({ headers }) => json({ upgrade: headers.upgrade ?? null })
  },
  {
    method: 'POST',
    path: '/length',
    auth: 'public',
    body: streamedBody,
    async handle({ body }) {
      let bytes = 0
      for await (const chunk of body) bytes += (chunk as Buffer).length
      return json({ bytes })
    }
  },
  { method: 'GET', path: '/ws', auth: 'public', handle: () => webSocket({ run: async () => {} }) }
]

const h2c = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQBAAAAAAIAAAAA\r\n'

t.test('ignores a request for another protocol (RFC 9110 §7.8)', async t => {
  const { port, events } = await startServer(t, routesForUpgrade)
  const get = await sendRaw(
    port,
    `GET /hello HTTP/1.1\r\nHost: a\r\n${h2c}\r\nGET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`
  )
  t.equal(get.body.match(/"upgrade":null/g)?.length, 2, 'and the next request of the connection is answered')
  t.match(events, [
    { kind: 'request', status: 200 },
    { kind: 'request', status: 200 }
  ])
})

for (const [what, head, piece] of [
  ['with a length', (bytes: number) => `Content-Length: ${bytes}\r\n`, (bytes: Buffer) => [bytes]],
  [
    'in chunks',
    () => 'Transfer-Encoding: chunked\r\n',
    (bytes: Buffer) => [Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]
  ]
] as const) {
  t.test(`accepts an upload ${what} by a client that asks for h2c`, async t => {
    const { port } = await startServer(t, routesForUpgrade)
    const chunk = Buffer.alloc(64 * 1024, 0x61)
    const count = 64
    const socket = connect(port, '127.0.0.1')
    const reply = readRaw(socket)
    socket.write(`POST /length HTTP/1.1\r\nHost: a\r\n${h2c}${head(count * chunk.length)}\r\n`)
    for (let i = 0; i < count; i++) {
      if (
        !piece(chunk)
          .map(bytes => socket.write(bytes))
          .at(-1)
      )
        await once(socket, 'drain')
    }
    if (what === 'in chunks') socket.write('0\r\n\r\n')
    socket.write('GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    const { body } = await reply
    t.match(body, `{"bytes":${count * chunk.length}}`)
    t.match(body, '{"upgrade":null}')
  })
}

t.test('treats a request with a body, or an invalid one, as an ordinary request', async t => {
  const { port, url } = await startServer(t, routesForUpgrade)
  const ask =
    'Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
  const withBody = await sendRaw(port, `POST /length HTTP/1.1\r\nHost: a\r\n${ask}Content-Length: 5\r\n\r\nHello`)
  t.equal(withBody.status, 200)
  t.match(withBody.body, '{"bytes":5}')
  const getWithBody = await sendRaw(port, `GET /ws HTTP/1.1\r\nHost: a\r\n${ask}Content-Length: 5\r\n\r\nHello`)
  t.equal(getWithBody.status, 426)
  const twoHosts = await sendRaw(port, `GET /ws HTTP/1.1\r\nHost: a\r\nHost: b\r\n${ask}\r\n`)
  t.equal(twoHosts.status, 400)
  const older = await sendRaw(port, `GET /ws HTTP/1.0\r\nHost: a\r\n${ask}\r\n`)
  t.equal(older.status, 426)
  t.equal((await fetch(`${url}/hello`)).status, 200)
})

t.test('survives a client that goes away at any moment', async t => {
  const { port, url, server } = await startServer(t, routesForUpgrade)
  const whole = `GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`
  for (const text of [
    whole.slice(0, 40),
    whole,
    `${whole}\x81`,
    whole.replace('13', '12'),
    whole.replace('/ws', '/nothing')
  ]) {
    for (const end of ['destroy', 'resetAndDestroy', 'end'] as const) {
      const socket = connect(port, '127.0.0.1')
      await once(socket, 'connect')
      socket.on('error', () => {})
      socket.write(text)
      socket[end]()
      if (!socket.closed) await once(socket.resume(), 'close')
    }
  }
  t.equal((await fetch(`${url}/hello`)).status, 200)
  await server.close({ graceMs: 60_000 })
  t.pass('and holds no stop up')
})
