import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { createMemory } from '../../../lib/http/core/memory.js'
import { json, type Route } from '../../../lib/http/core/route.js'
import { HttpServer } from '../../../lib/http/core/server.js'
import { eventStream } from '../../../lib/http/streams.js'
import { until } from '../../support/until.js'

const kilobyte = 1024
/** More than the buffers of the system take. */
const largeText = 'x'.repeat(16 * 1024 * kilobyte)
const large = { totalBytes: 50 * 1024 * kilobyte, callerBytes: 20 * 1024 * kilobyte }
const small = { totalBytes: 1024 * kilobyte, callerBytes: 300 * kilobyte }

const routes: Route<string, string>[] = [
  { method: 'POST', path: '/body', auth: 'any', handle: async request => json({ got: await request.json() }) },
  { method: 'GET', path: '/large', auth: 'any', handle: () => json({ text: largeText }) },
  { method: 'GET', path: '/some', auth: 'any', handle: () => json({ text: 'x'.repeat(100 * kilobyte) }) },
  { method: 'GET', path: '/small', auth: 'any', handle: () => json({ ok: true }) },
  {
    method: 'GET',
    path: '/follow',
    auth: 'any',
    handle: () => eventStream((_, signal) => once(signal, 'abort').then(() => {}))
  },
  {
    method: 'GET',
    path: '/follow-much',
    auth: 'any',
    handle: () => eventStream((_, signal) => once(signal, 'abort').then(() => {}), { heldBytes: 140 * kilobyte })
  }
]

async function start(t: Test, memory = small) {
  /** Number of requests that have begun, and that hold nothing any more. */
  const seen = { begun: 0, ended: 0 }
  const server = new HttpServer<string, string>({
    routes,
    base: '',
    authorize(_, { headers }) {
      seen.begun++
      return String(headers.authorization)
    },
    callerOf: name => name,
    trustedProxies: () => [],
    log: ({ kind }) => void (kind === 'request' && seen.ended++),
    limits: { memory }
  })
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 })
  const sockets: Socket[] = []
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    await server.close({ graceMs: 0 })
  })
  return {
    seen,
    async open(text: string): Promise<Client> {
      const socket = connect(port, '127.0.0.1').on('error', () => {})
      sockets.push(socket)
      await once(socket, 'connect')
      const client: Client = { socket, text: '' }
      socket.on('data', (bytes: Buffer) => void (client.text += bytes.toString('latin1')))
      socket.write(text)
      return client
    }
  }
}

interface Client {
  socket: Socket
  text: string
}

const head = (line: string, caller: string, more = ''): string =>
  `${line} HTTP/1.1\r\nhost: x\r\nauthorization: ${caller}\r\n${more}\r\n`
const body = (caller: string, bytes: number): string =>
  head('POST /body', caller, `content-type: application/json\r\ncontent-length: ${bytes}\r\n`)
const statusOf = ({ text }: Client): string => text.slice(9, 12)

t.test('bodies that trickle in hold their announced size, per caller and in all', async t => {
  const { open } = await start(t)
  const mine = [await open(`${body('a', 140 * kilobyte)}"`), await open(`${body('a', 140 * kilobyte)}"`)]
  const third = await open(`${body('a', 140 * kilobyte)}"`)
  await until(() => third.text.includes('\r\n\r\n'))
  t.equal(statusOf(third), '429')
  t.match(third.text, /retry-after: 5/)
  t.match(third.text, /too_much_at_once/)
  for (const caller of ['b', 'c', 'd']) {
    mine.push(await open(`${body(caller, 140 * kilobyte)}"`), await open(`${body(caller, 100 * kilobyte)}"`))
  }
  const late = await open(`${body('e', 200 * kilobyte)}"`)
  await until(() => late.text.includes('\r\n\r\n'))
  t.equal(statusOf(late), '503')
  t.match(late.text, /server_full/)
  const small = await open(`${body('e', 4)}"ok"`)
  await until(() => small.text.includes('"got"'))
  t.equal(statusOf(small), '200', 'a small request goes on')
  for (const { socket } of mine) socket.destroy()
  await until(async () => {
    const again = await open(`${body('a', 280 * kilobyte)}"`)
    again.socket.write(`${'x'.repeat(280 * kilobyte - 2)}"`)
    await until(() => again.text.includes('\r\n\r\n'))
    return statusOf(again) === '200'
  })
})

t.test('answers that nobody reads count, and those of the others are sent', async t => {
  const { open } = await start(t, large)
  const deaf = await open('')
  deaf.socket.pause()
  deaf.socket.write(head('GET /large', 'a'))
  await until(async () => {
    const more = await open(head('GET /large', 'a'))
    await until(() => more.text.includes('\r\n\r\n'))
    more.socket.destroy()
    return statusOf(more) === '429'
  })
  const other = await open(head('GET /large', 'b'))
  await until(() => other.text.length > largeText.length)
  t.equal(statusOf(other), '200')
  deaf.socket.destroy()
  await until(async () => {
    const again = await open(head('GET /large', 'a'))
    await until(() => again.text.includes('\r\n\r\n'))
    return statusOf(again) === '200'
  })
})

t.test('streams take a place, and give it back when their client leaves', async t => {
  const { open } = await start(t)
  const streams: Client[] = []
  for (let i = 0; i < 4; i++) {
    const stream = await open(head('GET /follow', 'a'))
    await until(() => stream.text.includes(':open'))
    streams.push(stream)
  }
  const fifth = await open(head('GET /follow', 'a'))
  await until(() => fifth.text.includes('\r\n\r\n'))
  t.equal(statusOf(fifth), '429')
  const other = await open(head('GET /follow', 'b'))
  await until(() => other.text.includes(':open'))
  streams[0]?.socket.destroy()
  await until(async () => {
    const again = await open(head('GET /follow', 'a'))
    await until(() => again.text.includes('\r\n\r\n'))
    return statusOf(again) === '200'
  })
})

t.test('a stream with large blocks takes a larger place', async t => {
  const { open } = await start(t)
  for (let i = 0; i < 2; i++) {
    const stream = await open(head('GET /follow-much', 'a'))
    await until(() => stream.text.includes(':open'))
  }
  const third = await open(head('GET /follow-much', 'a'))
  await until(() => third.text.includes('\r\n\r\n'))
  t.equal(statusOf(third), '429')
})

t.test('a hundred clients in random order leave nothing behind', async t => {
  const budget = createMemory(small)
  t.throws(() => budget.claim({ caller: 'a' }, 301 * kilobyte), { code: 'too_much_at_once' })
  const { open, seen } = await start(t)
  let seed = 11
  const random = (below: number): number => (seed = (seed * 48271) % 2147483647) % below
  const clients = await Promise.all(
    Array.from({ length: 100 }, async (_, i) => {
      const caller = `c${i % 7}`
      const kinds = [head('GET /some', caller), `${body(caller, 50 * kilobyte)}"`, head('GET /follow', caller)]
      return await open(kinds[random(kinds.length)] as string)
    })
  )
  await until(() => seen.begun === clients.length)
  for (const { socket } of clients) random(2) === 0 ? socket.destroy() : socket.pause()
  for (const { socket } of clients) socket.destroy()
  await until(() => seen.ended === clients.length)
  // All that a caller may have, by one request of each.
  for (let i = 0; i < 7; i++) {
    const whole = await open(`${body(`c${i}`, 290 * kilobyte)}"${'x'.repeat(290 * kilobyte - 2)}"`)
    await until(() => whole.text.includes('\r\n\r\n'))
    t.equal(statusOf(whole), '200', `c${i}`)
  }
})
