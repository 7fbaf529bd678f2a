import { once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import type { Route } from '../../../lib/http/core/route.js'
import type { Closed, WebSocketConnection, WebSocketLimits } from '../../../lib/http/websocket/socket.js'
import { webSocket } from '../../../lib/http/websocket/reply.js'
import { binary, close, continuation, frame, ping, text } from '../../support/frames.js'
import { startServer, type TestServer } from '../../support/http-server.js'
import { breakOff, openWebSocket, type RawWebSocket } from '../../support/websocket.js'
import { caseLimits, cases, type Case } from './cases.js'

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
