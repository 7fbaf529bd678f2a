import t, { type Test } from 'tap'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import type { Route } from '../../../lib/http/core/route.js'
import {
  type Closed,
  createSender,
  webSocket,
  type WebSocketConnection,
  type WebSocketLimits
} from '../../../lib/http/websocket/socket.js'
import { binary, close, continuation, describeFrame, frame, ping, readFrames, text } from '../../support/frames.js'
import { sendRaw, startServer, type TestServer } from '../../support/http-server.js'
import { until } from '../../support/until.js'
import { breakOff, openWebSocket, type RawWebSocket } from '../../support/websocket.js'
import { type Case, caseLimits, cases } from './cases.js'

interface Echo extends TestServer {
  /** How the connections ended, in order. */
  ends: Closed[]
  ended(count: number): Promise<void>
}

/** Starts a server that returns every message, unless `run` does something else. */
async function startEcho(
  t: Test,
  limits: Partial<WebSocketLimits> = {},
  run = async (connection: WebSocketConnection): Promise<void> => {
    for await (const message of connection.messages()) await connection.send(message)
  }
): Promise<Echo> {
  const ends: Closed[] = []
  let wake = (): void => {}
  const routes: Route[] = [
    {
      method: 'GET',
      path: '/echo',
      auth: 'public',
      handle: () =>
        webSocket({
          limits,
          async run(connection) {
            void connection.closed.then(closed => {
              ends.push(closed)
              wake()
            })
            await run(connection)
          }
        })
    }
  ]
  const started = await startServer(t, routes)
  return {
    ...started,
    ends,
    async ended(count) {
      while (ends.length < count) await new Promise<void>(resolve => (wake = resolve))
    }
  }
}

const open = (echo: Echo, ahead?: Uint8Array): Promise<RawWebSocket> =>
  openWebSocket(`${echo.url}/echo`, ahead === undefined ? {} : { ahead })

/**
 * Returns everything that the server sends. A case that does not end by itself is closed when all expected answers have
 * arrived.
 */
async function answersTo(client: RawWebSocket, { out }: Case): Promise<string[]> {
  if (endsItself(out)) return expected(await client.rest())
  const said: string[] = []
  while (said.length < out.length) said.push((await client.next()) ?? 'the end')
  client.close(3333)
  said.push(...(await client.rest()))
  if (said.pop() !== 'close 3333') throw new Error('the closing handshake was not answered')
  return said
}

function endsItself(out: string[]): boolean {
  return out.at(-1)?.startsWith('close') ?? false
}

/** Removes messages if the case ends with a close frame: whether they are still returned then depends on timing. */
function expected(out: string[]): string[] {
  return endsItself(out) ? out.filter(one => !/^(text|binary)/.test(one)) : out
}

t.test('follows RFC 6455 §5 to §8 over a socket', async t => {
  const echo = await startEcho(t, caseLimits)
  for (const one of cases) {
    t.test(`§${one.section}: ${one.what}`, async t => {
      const whole = await open(echo)
      whole.write(one.bytes)
      t.same(await answersTo(whole, one), expected(one.out), 'whole')

      const ahead = await open(echo, one.bytes)
      t.same(await answersTo(ahead, one), expected(one.out), 'sent together with the handshake')

      // A few at a time, because a connection costs more than the bytes.
      const wrong: number[] = []
      for (let at = 1; at < one.bytes.length; at += Math.ceil(one.bytes.length / 6)) {
        const client = await open(echo)
        client.write(one.bytes.subarray(0, at))
        await turn()
        client.write(one.bytes.subarray(at))
        if ((await answersTo(client, one)).join('\n') !== expected(one.out).join('\n')) wrong.push(at)
      }
      t.same(wrong, [], 'cut')
    })
  }
})

t.test('ends the connection after the closing handshake (§7.1.1), whichever side began it', async t => {
  const echo = await startEcho(t, {}, async connection => {
    for await (const message of connection.messages()) connection.close(4000, String(message))
  })
  const theirs = await open(echo)
  theirs.close(4001)
  t.same(await theirs.rest(), ['close 4001'])
  await echo.ended(1)
  t.same(echo.ends, [{ how: 'peer', code: 4001, reason: '' }])

  const ours = await open(echo)
  ours.say('enough')
  t.equal(await ours.next(), 'close 4000')
  ours.say('too late')
  ours.close(4000)
  t.same(await ours.rest(), [], 'nothing is sent after a close frame')
  await echo.ended(2)
  t.match(echo.ends[1], { how: 'ours', code: 4000, reason: 'enough' })
})

t.test('disconnects a peer that does not answer a close frame', async t => {
  const echo = await startEcho(t, { closeMs: 50 }, async connection => connection.close(1000))
  const client = await open(echo)
  t.same(await client.rest(), ['close 1000'])
})

t.test('ends the connection after a violation, although the peer continues', async t => {
  const echo = await startEcho(t, { closeMs: 50 })
  const client = await open(echo)
  client.write(frame({ opcode: 3 }))
  const more = setInterval(() => client.write(frame({ opcode: text, payload: 'more' })), 5)
  t.same(await client.rest(), ['close 1002'])
  clearInterval(more)
  t.match(echo.ends, [{ how: 'failed', code: 1002, error: { code: 'WS_OPCODE' } }])
})

t.test('reports a connection without a close frame as broken: reset, ended, or silent', async t => {
  const echo = await startEcho(t, { pingEveryMs: 50 })
  await breakOff(await open(echo))
  await echo.ended(1)

  const half = await open(echo)
  half.socket.end()
  t.same(
    (await half.rest()).filter(one => one !== 'ping '),
    []
  )
  await echo.ended(2)

  const silent = await open(echo)
  t.equal(await silent.next(), 'ping ')
  t.same(
    (await silent.rest()).filter(one => one !== 'ping '),
    []
  )
  await echo.ended(3)
  t.same(echo.ends, [
    { how: 'broken', reason: 'gone' },
    { how: 'broken', reason: 'gone' },
    { how: 'broken', reason: 'silent' }
  ])
})

t.test('keeps a peer that answers pings', async t => {
  const echo = await startEcho(t, { pingEveryMs: 100 })
  const client = await open(echo)
  const answer = setInterval(() => client.write(frame({ opcode: 10 })), 10)
  t.teardown(() => clearInterval(answer))
  for (let i = 0; i < 5; i++) t.equal(await client.next(), 'ping ')
  client.say('still here')
  let next = await client.next()
  while (next === 'ping ') next = await client.next()
  t.equal(next, 'text still here')
  client.close(1000)
})

t.test('delivers messages that arrived before a close frame, then ends the loop', async t => {
  const got: unknown[] = []
  const echo = await startEcho(t, {}, async connection => {
    for await (const message of connection.messages()) {
      await turn()
      got.push(message)
    }
    got.push('over')
  })
  const client = await open(echo)
  client.write(
    Buffer.concat([
      frame({ opcode: text, payload: 'a' }),
      frame({ opcode: text, fin: false, payload: 'b' }),
      frame({ opcode: ping }),
      frame({ opcode: continuation, payload: 'c' }),
      frame({ opcode: binary, payload: 'd' }),
      frame({ opcode: close })
    ])
  )
  t.same(await client.rest(), ['pong ', 'close'])
  while (got.at(-1) !== 'over') await turn()
  t.same(got, ['a', 'bc', Buffer.from('d'), 'over'])
})

t.test('pauses the sender for a slow reader', async t => {
  let release = (): void => {}
  const held = new Promise<void>(resolve => (release = resolve))
  let taken = 0
  const echo = await startEcho(t, {}, async connection => {
    for await (const message of connection.messages()) {
      taken += message.length
      await held
    }
    await connection.send(String(taken))
  })
  const client = await open(echo)
  const bytes = frame({ opcode: binary, payload: Buffer.alloc(512 * 1024) })
  const total = 200
  for (let i = 0; i < total; i++) client.write(bytes)
  // Data leaves until the buffers of both systems are full.
  let before = -1
  while (client.socket.writableLength !== before) {
    before = client.socket.writableLength
    await new Promise(resolve => setTimeout(resolve, 300))
  }
  t.ok(before > 10 * 1024 * 1024, `${before} bytes wait in the client`)
  release()
  client.close(1000)
  await client.rest()
  t.equal(taken, total * 512 * 1024)
})

t.test('answers a bug in a route with 1011, and logs it', async t => {
  const echo = await startEcho(t, {}, async () => {
    throw new Error('the inside')
  })
  const client = await open(echo)
  t.equal(await client.next(), 'close 1011')
  client.close(1011)
  await client.rest()
  t.match(
    echo.events.filter(event => event.kind === 'failure'),
    [{ error: new Error('the inside'), path: '/echo' }]
  )
})

t.test('sends 1001 when the server stops, and accepts nothing more', async t => {
  const echo = await startEcho(t, { closeMs: 200 })
  const polite = await open(echo)
  const rude = await open(echo)
  const closed = echo.server.close({ graceMs: 60_000 })
  t.equal(await polite.next(), 'close 1001')
  t.equal(await rude.next(), 'close 1001')
  polite.close(1001)
  // The other peer sends nothing, and does not delay the stop.
  await Promise.all([closed, polite.rest(), rude.rest()])
  t.same(
    echo.ends.map(end => end.how),
    ['ours', 'ours']
  )
  t.equal(echo.server.address(), undefined)
})

t.test('serves many connections at once, each with its own messages', async t => {
  const echo = await startEcho(t)
  const clients = await Promise.all(Array.from({ length: 50 }, () => open(echo)))
  await Promise.all(
    clients.map(async (client, i) => {
      for (let j = 0; j < 20; j++) client.say(`${i}:${j}`)
      for (let j = 0; j < 20; j++)
        if ((await client.next()) !== `text ${i}:${j}`) throw new Error(`client ${i} got another's`)
      client.close(1000)
      await once(client.socket, 'close')
    })
  )
  t.equal(echo.ends.length, 50)
})

/** The two ends of a connection on loopback. */
async function connected(t: Test): Promise<{ ours: Socket; theirs: Socket }> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const theirs = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [ours] = (await once(server, 'connection')) as [Socket]
  for (const socket of [ours, theirs]) socket.on('error', () => {})
  t.teardown(() => {
    ours.destroy()
    theirs.destroy()
    server.close()
  })
  return { ours, theirs }
}

t.test('sends whole, unmasked frames with the shortest possible lengths', async t => {
  const stream = new PassThrough()
  const sender = createSender(stream)
  const lengths = [0, 1, 125, 126, 127, 65535, 65536, 70000]
  void sender.message('Hello')
  for (const length of lengths) void sender.message(Buffer.alloc(length, 0x61))
  void sender.message('aé€😀')
  sender.ping()
  sender.close(1001, 'bye')
  stream.end()
  let bytes = Buffer.alloc(0)
  for await (const chunk of stream) bytes = Buffer.concat([bytes, chunk as Buffer])
  t.equal(bytes.subarray(0, 7).toString('hex'), '810548656c6c6f', 'the example of §5.7')
  const frames: string[] = []
  const rest = readFrames(bytes, frame => void frames.push(describeFrame(frame)))
  t.equal(rest.length, 0)
  t.same(frames, [
    'text Hello',
    ...lengths.map(length => `binary ${'61'.repeat(length)}`),
    'text aé€😀',
    'ping ',
    'close 1001'
  ])
})

t.test('cuts the reason of a close frame between characters, and sends no code for 1005', async t => {
  for (const [code, reason, expected] of [
    [1000, '€'.repeat(50), '€'.repeat(41)],
    [1000, 'x'.repeat(200), 'x'.repeat(123)],
    [1000, `${'x'.repeat(122)}é`, 'x'.repeat(122)],
    [1005, '', null]
  ] as const) {
    const stream = new PassThrough()
    createSender(stream).close(code, reason)
    readFrames(stream.read() as Buffer, ({ payload }) => {
      if (expected === null) t.equal(payload.length, 0)
      else t.equal(payload.subarray(2).toString('utf8'), expected)
    })
  }
})

t.test('waits while the peer does not read, and then answers only the last of many pings', async t => {
  const { ours, theirs } = await connected(t)
  const sender = createSender(ours)
  // More than the buffers of both systems can take.
  const sent = 40
  const messages = Array.from({ length: sent }, () => sender.message(Buffer.alloc(1024 * 1024)))
  const sending = Promise.all(messages)
  let isSent = false
  void sending.then(() => (isSent = true))
  const before = ours.writableLength
  for (let i = 0; i < 100_000; i++) sender.pong(Buffer.from(`ping ${i}`))
  t.equal(ours.writableLength, before, 'a flood of pings takes no memory')
  t.equal(isSent, false)

  const frames: string[] = []
  let bytes = Buffer.alloc(0)
  theirs.on('data', piece => {
    bytes = readFrames(
      Buffer.concat([bytes, piece]),
      frame => void frames.push(frame.opcode === 10 ? frame.payload.toString() : 'message')
    ) as Buffer<ArrayBuffer>
  })
  await sending
  while (frames.length < sent + 1) await once(theirs, 'data')
  t.same(
    frames.filter(one => one !== 'message'),
    ['ping 99999']
  )
})

t.test('releases waiting callers when the connection is gone', async t => {
  const { ours, theirs } = await connected(t)
  const sender = createSender(ours)
  const waiting = Array.from({ length: 40 }, () => sender.message(Buffer.alloc(1024 * 1024)))
  theirs.destroy()
  await Promise.all(waiting)
  await sender.message('nobody hears this')
  t.pass('all of them')
})

// handshake.test.ts tests refusals.

t.test('turns the reply of a route into a WebSocket, or explains why not', async t => {
  let ran = 0
  const routes: Route[] = [
    {
      method: 'GET',
      path: '/ws',
      auth: 'public',
      handle: () => webSocket({ protocols: ['chat'], run: async () => void ran++ })
    }
  ]
  const { port, url, events } = await startServer(t, routes)
  const plain = await sendRaw(port, 'GET /ws HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  t.match(plain, { status: 426, body: /upgrade_required/ })
  t.equal(ran, 0)
  const opened = await openWebSocket(`${url}/ws`, { headers: { 'sec-websocket-protocol': 'other, chat' } })
  t.match(opened, { status: 101, headers: { 'sec-websocket-protocol': 'chat' } })
  opened.close(1000)
  await opened.rest()
  t.equal(ran, 1)
  await until(() => events.length >= 2)
  t.same(
    events.map(event => (event.kind === 'request' ? event.status : event.kind)),
    [426, 101]
  )
})
