import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { type Route, json, streamedBody } from '../../../lib/http/core/route.js'
import { webSocket } from '../../../lib/http/websocket/reply.js'
import { readRaw, sendRaw, startServer } from '../../support/http-server.js'

const routes: Route[] = [
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
  const { port, events } = await startServer(t, routes)
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
    const { port } = await startServer(t, routes)
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
  const { port, url } = await startServer(t, routes)
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
  const { port, url, server } = await startServer(t, routes)
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
