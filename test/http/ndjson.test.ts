import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { Refusal } from '../../lib/base/refusal.js'
import { ndjson } from '../../lib/http/ndjson.js'
import { json } from '../../lib/http/route.js'
import type { Reply, Route } from '../../lib/http/route.js'
import { sendRaw, startServer } from '../support/http-server.js'
import { until } from '../support/until.js'

const get = (path: string, reply: () => Reply): Route => ({ method: 'GET', path, auth: 'public', handle: reply })

t.test('one value a line', async t => {
  const { url } = await startServer(t, [
    get('/', () => ndjson(async write => {
      await write({ event: 'log', data: 'a\nb' })
      await write({ event: 'status' })
    })),
    get('/none', () => ndjson(async () => {}))
  ])
  const reply = await fetch(url)
  t.match(Object.fromEntries(reply.headers), {
    'content-type': 'application/x-ndjson', 'cache-control': 'no-store', 'x-accel-buffering': 'no'
  })
  t.equal(await reply.text(), '{"event":"log","data":"a\\nb"}\n{"event":"status"}\n')
  t.equal(await (await fetch(url, { method: 'HEAD' })).text(), '')
  t.equal(await (await fetch(`${url}/none`)).text(), '')
})

t.test('a refusal before the first line is an ordinary error, a failure after it breaks the connection', async t => {
  const { url, port, events } = await startServer(t, [
    get('/early', () => ndjson(async () => { throw new Refusal('conflict', 'busy', 'Busy') })),
    get('/bug', () => ndjson(async () => { throw new Error('x') })),
    get('/late', () => ndjson(async write => {
      await write(1)
      throw new Error('late')
    }))
  ])
  const early = await fetch(`${url}/early`)
  t.equal(early.status, 409)
  t.match(await early.json(), { code: 'busy' })
  t.equal((await fetch(`${url}/bug`)).status, 500)
  const late = await sendRaw(port, 'GET /late HTTP/1.1\r\nHost: a\r\n\r\n')
  t.match(late.body, '1\n')
  t.notMatch(late.body, '\r\n0\r\n', 'the end of the stream is missing')
  t.match(events.filter(event => event.kind === 'failure').map(event => (event.error as Error).message), ['x', 'late'])
  t.match(events.at(-1), { kind: 'request', status: 200, aborted: true })
})

t.test('a slow client holds the writer back; one that leaves stops it', async t => {
  let written = 0
  let ended: unknown
  const { port, events } = await startServer(t, [get('/', () => ndjson(async (write, signal) => {
    try {
      for (;;) {
        await write('x'.repeat(64 * 1024))
        written++
      }
    } catch (error) {
      ended = [error, signal.aborted]
      throw error
    }
  }))])
  const socket = connect({ port, host: '127.0.0.1' })
  socket.pause()
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  let before = -1
  while (before !== written || written === 0) {
    before = written
    await sleep(100)
  }
  t.ok(written < 1000, `${written} lines of 64 KiB fit into the buffers`)
  socket.destroy()
  await until(() => ended !== undefined)
  t.match(ended, [{ code: 'aborted' }, true])
  await until(() => events.length > 0)
  t.match(events, [{ kind: 'request', status: 200, aborted: true }], 'which is no failure')
})

t.test('a client that takes nothing for too long is dropped', async t => {
  let ended = false
  const { port } = await startServer(t, [get('/', () => ndjson(async write => {
    try {
      for (;;) await write('x'.repeat(64 * 1024))
    } finally {
      ended = true
    }
  }))], { limits: { stalledMs: 100 } })
  const socket = connect({ port, host: '127.0.0.1' })
  socket.on('error', () => {})
  socket.pause()
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(() => ended)
  t.pass('dropped')
  socket.destroy()
})

t.test('so is one that takes nothing of a reply that is whole', async t => {
  const large: Route = { method: 'GET', path: '/', auth: 'public', handle: () => json('x'.repeat(32 * 1024 * 1024)) }
  const { port, server } = await startServer(t, [large], { limits: { stalledMs: 100 } })
  const socket = connect({ port, host: '127.0.0.1' })
  socket.on('error', () => {})
  socket.pause()
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await sleep(400)
  await server.close({ graceMs: 60_000 })
  t.pass('dropped: nothing is left to wait for')
  socket.destroy()
})

t.test('a stream that has nothing to say goes on', async t => {
  const quiet = get('/', () => ndjson(async write => {
    await write(1)
    await sleep(250)
    await write(2)
  }))
  const { url } = await startServer(t, [quiet], { limits: { stalledMs: 50 } })
  t.equal(await (await fetch(url)).text(), '1\n2\n')
})
