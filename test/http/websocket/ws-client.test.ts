import { once } from 'node:events'
import t from 'tap'
import type { Route } from '../../../lib/http/core/route.js'
import { webSocket } from '../../../lib/http/websocket/socket.js'
import { startServer } from '../../support/http-server.js'
import { rivals } from '../../support/rivals.js'
import { adminToken, startServer as startSvc } from '../../support/server.js'
import { noPty, ticketOf } from '../../support/web-terminal.js'

/** The parts of the package `ws` that are used here: a client written by others. */
interface Ws {
  readonly protocol: string
  readonly extensions: string
  send(data: string | Uint8Array, options?: { fin?: boolean }): void
  ping(data?: string): void
  close(code?: number, reason?: string): void
  terminate(): void
  once(event: string, take: (...values: any[]) => void): void
  on(event: string, take: (...values: any[]) => void): void
}
type WsClass = new (
  url: string,
  protocols?: string[],
  options?: { headers?: Record<string, string>; origin?: string }
) => Ws

const load = await rivals({ ws: '8.18.3' })
const skip = load === null ? 'npm could not install the package ws' : false
const WebSocket = load === null ? null : await load<WsClass>('ws')

async function open(...given: ConstructorParameters<WsClass>): Promise<Ws> {
  const socket = new (WebSocket as WsClass)(...given)
  await once(socket as never, 'open')
  return socket
}

const next = async (socket: Ws, event: string): Promise<unknown[]> => (await once(socket as never, event)) as unknown[]

const routes: Route[] = [
  {
    method: 'GET',
    path: '/echo',
    auth: 'public',
    handle: () =>
      webSocket({
        protocols: ['chat'],
        limits: { maxMessageBytes: 20 * 1024 * 1024 },
        async run(connection) {
          for await (const message of connection.messages()) {
            if (message === 'leave') connection.close(4000, 'as you wish')
            else await connection.send(message)
          }
        }
      })
  }
]

t.test('works with a client written by others', { skip }, async t => {
  const { url } = await startServer(t, routes)
  const address = `${url.replace('http', 'ws')}/echo`

  await t.test('returns messages of every size unchanged', async t => {
    const socket = await open(address, ['chat'])
    t.equal(socket.protocol, 'chat')
    t.equal(socket.extensions, '', 'compression is offered and not accepted')
    for (const length of [0, 1, 125, 126, 65535, 65536, 1024 * 1024, 10 * 1024 * 1024]) {
      const message = Buffer.alloc(length, Buffer.from(Array.from({ length: 251 }, (_, i) => i)))
      socket.send(message)
      const [back, isBinary] = (await next(socket, 'message')) as [Buffer, boolean]
      t.ok(isBinary && back.equals(message), `${length} bytes`)
      const text = '€😀é'.repeat(Math.ceil(length / 9)).slice(0, length)
      socket.send(text)
      const [same, isStillBinary] = (await next(socket, 'message')) as [Buffer, boolean]
      t.ok(!isStillBinary && same.toString() === text, `${length} characters`)
    }
    socket.close(1000)
    t.equal((await next(socket, 'close'))[0], 1000)
  })

  await t.test('accepts fragments with a ping between them', async t => {
    const socket = await open(address)
    const pong = next(socket, 'pong')
    socket.send('€ in ', { fin: false })
    socket.ping('are you there')
    socket.send('pieces', { fin: true })
    const [[message], [payload]] = (await Promise.all([next(socket, 'message'), pong])) as [[Buffer], [Buffer]]
    t.equal(message.toString(), '€ in pieces')
    t.equal(payload.toString(), 'are you there')
    socket.terminate()
  })

  await t.test('closes with a code and a reason', async t => {
    const socket = await open(address)
    socket.send('leave')
    const [code, reason] = (await next(socket, 'close')) as [number, Buffer]
    t.same([code, reason.toString()], [4000, 'as you wish'])
  })

  await t.test('refuses with an ordinary reply', async t => {
    const foreign = new (WebSocket as WsClass)(address, [], { origin: 'https://evil.test' })
    const [, response] = (await next(foreign, 'unexpected-response')) as [unknown, { statusCode: number }]
    t.equal(response.statusCode, 403)
    foreign.on('error', () => {})
    foreign.terminate()
  })
})

t.test('serves a terminal to a program', { skip: skip || noPty }, async t => {
  const stage = await startSvc(t, { environment: { SHELL: '/bin/sh', ADMIN_TOKEN: adminToken } })
  const address = `${stage.url.replace('http', 'ws')}/api/terminal/ws`
  for (const [what, socket] of [
    ['with a ticket', await open(`${address}?ticket=${await ticketOf(stage)}`)],
    ['with its token as a subprotocol', await open(address, ['svc-admin-token', adminToken])]
  ] as const) {
    t.test(what, async t => {
      let drawn = ''
      const exited = new Promise<{ exitCode: number }>(resolve => {
        socket.on('message', (bytes: Buffer) => {
          const message = JSON.parse(bytes.toString())
          if (message.type === 'data') drawn += message.data
          if (message.type === 'exit') resolve(message)
        })
      })
      const closed = next(socket, 'close')
      socket.send(JSON.stringify({ type: 'input', data: 'echo hel""lo; exit 5\n' }))
      t.equal((await exited).exitCode, 5)
      t.match(drawn, /hello\r\n/)
      t.equal((await closed)[0], 1000)
    })
  }
})
