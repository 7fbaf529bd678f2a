import t from 'tap'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { get, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent, request, type RequestOptions } from 'node:https'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import { systemClock } from '../../../lib/base/clock.js'
import { openRenewal } from '../../../lib/http/tls/certificate.js'
import { webSocket } from '../../../lib/http/websocket/socket.js'
import { json, streamedBody, type Route } from '../../../lib/http/core/route.js'
import { createSecureServer } from '../../../lib/http/tls/secure-server.js'
import type { ServerOptions } from '../../../lib/http/core/server.js'
import { makeSigned } from '../../support/certificates.js'
import { readRaw, sendRaw, startServer } from '../../support/http-server.js'
import { until } from '../../support/until.js'
import { serverSays } from '../../support/sentences/server.js'

const { authority, server: identity } = makeSigned()

const routes: Route[] = [
  { method: 'GET', path: '/api/whoami', auth: 'public', handle: ({ client }) => json(client) },
  {
    method: 'POST',
    path: '/api/count',
    auth: 'public',
    body: streamedBody,
    handle: async ({ body }) => {
      let bytes = 0
      for await (const chunk of body) bytes += (chunk as Buffer).length
      return json({ bytes })
    }
  },
  {
    method: 'GET',
    path: '/api/ticks',
    auth: 'public',
    handle: () => ({
      kind: 'stream',
      status: 200,
      headers: { 'content-type': 'text/plain' },
      lasting: true,
      async run(sink) {
        await sink.write('tick\n')
        await new Promise(resolve => sink.signal.addEventListener('abort', resolve))
      }
    })
  },
  {
    method: 'GET',
    path: '/api/slow',
    auth: 'public',
    handle: async () => {
      await sleep(300)
      return json({ slow: true })
    }
  },
  {
    method: 'GET',
    path: '/api/echo',
    auth: 'public',
    handle: () =>
      webSocket({
        async run(connection) {
          for await (const message of connection.messages()) await connection.send(message as string)
        }
      })
  }
]

async function startSecure(t: Test, options: Partial<ServerOptions<string, unknown>> = {}) {
  const directory = t.testdir({ 'cert.pem': identity.cert + authority.cert, 'key.pem': identity.key })
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  const renewal = await openRenewal({ files, clock: systemClock, onRenewed() {}, onLook() {}, onBroken() {} })
  const secure: ServerOptions<string, unknown>['secure'] = options => createSecureServer(options, renewal)
  const started = await startServer(t, routes, { ...options, secure: secure as NonNullable<typeof secure> })
  return { ...started, files }
}

/** Sends a request as a client that trusts this authority. */
async function ask(
  port: number,
  path: string,
  options: RequestOptions = {},
  body?: Buffer
): Promise<{ status: number; body: any; reply: IncomingMessage }> {
  const sending = request({ host: '127.0.0.1', port, path, ca: authority.cert, agent: false, ...options })
  sending.end(body)
  const [reply] = (await once(sending, 'response')) as [IncomingMessage]
  return { status: reply.statusCode as number, body: JSON.parse(await text(reply)), reply }
}

async function shake(port: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const socket = connectTls({ host: '127.0.0.1', port, ca: authority.cert, ...options })
  await once(socket, 'secureConnect')
  return socket
}

t.test('serves requests and uploads, and knows the address of the client', async t => {
  const { port } = await startSecure(t)
  t.match(await ask(port, '/api/whoami', { localAddress: '127.0.0.7' }), {
    status: 200,
    body: { address: '127.0.0.7', local: false }
  })
  const bytes = 20 * 1024 * 1024
  t.match(await ask(port, '/api/count', { method: 'POST', headers: { expect: '100-continue' } }, Buffer.alloc(bytes)), {
    body: { bytes }
  })
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: authority.cert })
  t.teardown(() => agent.destroy())
  const first = await ask(port, '/api/whoami', { agent })
  const second = await ask(port, '/api/whoami', { agent })
  t.equal(first.reply.socket, second.reply.socket, 'the connection is reused')
})

t.test('accepts TLS 1.2 and 1.3 and HTTP/1.1, but nothing older', async t => {
  const { port } = await startSecure(t)
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const socket = await shake(port, { minVersion: version, maxVersion: version, ALPNProtocols: ['h2', 'http/1.1'] })
    t.equal(socket.getProtocol(), version)
    t.equal(socket.alpnProtocol, 'http/1.1')
    socket.destroy()
  }
  await t.rejects(shake(port, { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }), {
    code: /ERR_SSL/
  })
  t.equal((await ask(port, '/api/whoami')).status, 200, 'failed clients do not affect others')
})

t.test('tells a client of plain HTTP to use https', async t => {
  const { port } = await startSecure(t)
  const reply = await sendRaw(port, 'GET /api/whoami HTTP/1.1\r\nhost: localhost\r\n\r\n')
  t.equal(reply.status, 400)
  t.match(JSON.parse(reply.body), {
    success: false,
    code: 'invalid_request',
    error: new RegExp(serverSays.expectsTls)
  })
  const byByte = connect({ port, host: '127.0.0.1' })
  const answered = readRaw(byByte)
  for (const letter of 'POST / HTTP/1.1\r\n') {
    byByte.write(letter)
    await sleep(1)
  }
  t.equal((await answered).status, 400)
  const posting = httpRequest({ host: '127.0.0.1', port, method: 'POST', path: '/api/count' })
  posting.on('error', () => {})
  posting.end(Buffer.alloc(1024 * 1024))
  const [refused] = (await once(posting, 'response')) as [IncomingMessage]
  t.equal(refused.statusCode, 400, 'answered before a body that is not read')
  refused.resume()
  t.equal((await sendRaw(port, Buffer.from([0, 1, 2, 3, 4, 5]))).status, 0, 'anything else is disconnected')
  t.equal((await ask(port, '/api/whoami')).status, 200)
})

t.test('disconnects a client that sends nothing, or half a handshake', async t => {
  const { port } = await startSecure(t, { limits: { headersMs: 200 } })
  t.equal((await readRaw(connect({ port, host: '127.0.0.1' }))).head, '')
  t.equal((await sendRaw(port, Buffer.from([22, 3, 1, 2, 0, 1, 0]))).status, 0)
  const late = await shake(port)
  t.match(await readRaw(late), { status: 408 }, 'also a connection without a request')
  const half = await shake(port)
  half.write('GET / HTTP/1.1\r\n')
  t.match(await readRaw(half), { status: 408 })
})

t.test('answers invalid requests as on a plain connection', async t => {
  const { port } = await startSecure(t)
  const socket = await shake(port)
  socket.write('what is this\r\n\r\n')
  t.match(await readRaw(socket), { status: 400, body: /it is not valid HTTP\/1\.1/ })
  const large = await shake(port)
  large.write(`GET / HTTP/1.1\r\nhost: x\r\nx: ${'a'.repeat(20_000)}\r\n\r\n`)
  t.match(await readRaw(large), { status: 431 })
})

t.test('serves a WebSocket, and ignores a request for h2c', async t => {
  const { port } = await startSecure(t)
  const socket = await shake(port)
  const handshake = [
    'GET /api/echo HTTP/1.1',
    `host: localhost:${port}`,
    `origin: https://localhost:${port}`,
    'connection: upgrade',
    'upgrade: websocket',
    'sec-websocket-version: 13',
    'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=='
  ]
  socket.write(`${handshake.join('\r\n')}\r\n\r\n`)
  const [head] = (await once(socket, 'data')) as [Buffer]
  t.match(head.toString(), /^HTTP\/1\.1 101 /)
  socket.write(Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69]))
  const [frame] = (await once(socket, 'data')) as [Buffer]
  t.same([...frame], [0x81, 2, 0x68, 0x69])
  socket.destroy()
  const wish = await ask(port, '/api/whoami', {
    headers: { connection: 'upgrade, http2-settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABkAAQAAP__' }
  })
  t.equal(wish.status, 200)
})

t.test('ends idle, lasting and early connections when it stops, and lets a reply finish', async t => {
  const { server, port } = await startSecure(t)
  const silent = connect({ port, host: '127.0.0.1' })
  const greeting = connect({ port, host: '127.0.0.1' }, () => greeting.write(Buffer.from([22, 3, 1, 2, 0, 1, 0])))
  const idle = await shake(port)
  const gone: Array<Promise<unknown>> = [silent, greeting, idle].map(readRaw)
  const streaming = request({ host: '127.0.0.1', port, path: '/api/ticks', ca: authority.cert, agent: false }).end()
  const [stream] = (await once(streaming, 'response')) as [IncomingMessage]
  await once(stream, 'data')
  gone.push(new Promise(resolve => stream.on('error', () => {}).on('close', resolve)))
  const slow = ask(port, '/api/slow')
  await sleep(100)
  const closed = server.close({ graceMs: 5000 })
  t.match(await slow, { status: 200, body: { slow: true } })
  await Promise.all([closed, ...gone])
  t.match(await new Promise(resolve => get({ host: '127.0.0.1', port }).on('error', resolve)), { code: 'ECONNREFUSED' })
})

t.test('shows a renewed certificate to the next clients, and keeps existing connections', async t => {
  const { port, files } = await startSecure(t)
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: authority.cert })
  t.teardown(() => agent.destroy())
  const before = (await ask(port, '/api/whoami', { agent })).reply.socket
  const next = makeSigned()
  writeFileSync(files.cert, next.server.cert)
  writeFileSync(files.key, next.server.key)
  await until(() =>
    ask(port, '/api/whoami', { ca: next.authority.cert }).then(
      () => true,
      () => false
    )
  )
  t.equal((await ask(port, '/api/whoami', { agent })).reply.socket, before)
})
