import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { Refusal } from '../../../lib/base/refusal.js'
import { ndjson } from '../../../lib/http/stream/ndjson.js'
import { json, type Reply, type Route } from '../../../lib/http/core/route.js'
import { sendRaw, startServer } from '../../support/http-server.js'
import { until } from '../../support/until.js'

const get = (path: string, reply: () => Reply): Route => ({ method: 'GET', path, auth: 'public', handle: reply })

t.test('writes one value per line', async t => {
  const { url } = await startServer(t, [
    get('/', () =>
      ndjson(async write => {
        await write({ event: 'log', data: 'a\nb' })
        await write({ event: 'status' })
      })
    ),
    get('/none', () => ndjson(async () => {}))
  ])
  const reply = await fetch(url)
  t.match(Object.fromEntries(reply.headers), {
    'content-type': 'application/x-ndjson',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no'
  })
  t.equal(await reply.text(), '{"event":"log","data":"a\\nb"}\n{"event":"status"}\n')
  t.equal(await (await fetch(url, { method: 'HEAD' })).text(), '')
  t.equal(await (await fetch(`${url}/none`)).text(), '')
})

t.test('a lasting stream sends empty lines while there is nothing to write', async t => {
  const { url } = await startServer(t, [
    get('/', () =>
      ndjson(
        async (write, signal) => {
          await write(1)
          await new Promise(resolve => signal.addEventListener('abort', resolve))
          await write(2)
        },
        { isBegun: true, lasting: true, keepAliveMs: 5 }
      )
    )
  ])
  const reader = ((await fetch(url)).body as ReadableStream<Uint8Array>)
    .pipeThrough(new TextDecoderStream())
    .getReader()
  let text = ''
  while (!text.endsWith('\n\n\n')) text += (await reader.read()).value
  t.match(text, /^1\n\n+$/)
  await reader.cancel()
})

t.test('answers a refusal before the first line with an error, and breaks the connection after it', async t => {
  const { url, port, events } = await startServer(t, [
    get('/early', () =>
      ndjson(async () => {
        throw new Refusal('conflict', 'busy', 'Busy')
      })
    ),
    get('/bug', () =>
      ndjson(async () => {
        throw new Error('x')
      })
    ),
    get('/late', () =>
      ndjson(async write => {
        await write(1)
        throw new Error('late')
      })
    )
  ])
  const early = await fetch(`${url}/early`)
  t.equal(early.status, 409)
  t.match(await early.json(), { code: 'busy' })
  t.equal((await fetch(`${url}/bug`)).status, 500)
  const late = await sendRaw(port, 'GET /late HTTP/1.1\r\nHost: a\r\n\r\n')
  t.match(late.body, '1\n')
  t.notMatch(late.body, '\r\n0\r\n', 'the end of the stream is missing')
  t.match(
    events.filter(event => event.kind === 'failure').map(event => (event.error as Error).message),
    ['x', 'late']
  )
  t.match(events.at(-1), { kind: 'request', status: 200, aborted: true })
})

t.test('makes the writer wait for a slow client, and stops it if the client leaves', async t => {
  let written = 0
  let ended: unknown
  const { port, events } = await startServer(t, [
    get('/', () =>
      ndjson(async (write, signal) => {
        try {
          for (;;) {
            await write('x'.repeat(64 * 1024))
            written++
          }
        } catch (error) {
          ended = [error, signal.aborted]
          throw error
        }
      })
    )
  ])
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
  t.match(events, [{ kind: 'request', status: 200, aborted: true }], 'this is not logged as a failure')
})

t.test('disconnects a client that reads nothing for too long', async t => {
  let ended = false
  const { port } = await startServer(
    t,
    [
      get('/', () =>
        ndjson(async write => {
          try {
            for (;;) await write('x'.repeat(64 * 1024))
          } finally {
            ended = true
          }
        })
      )
    ],
    { limits: { stalledMs: 100 } }
  )
  const socket = connect({ port, host: '127.0.0.1' })
  socket.on('error', () => {})
  socket.pause()
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(() => ended)
  t.pass('dropped')
  socket.destroy()
})

t.test('disconnects a client that reads nothing of a complete reply', async t => {
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

t.test('keeps a stream that has nothing to send', async t => {
  const quiet = get('/', () =>
    ndjson(async write => {
      await write(1)
      await sleep(250)
      await write(2)
    })
  )
  const { url } = await startServer(t, [quiet], { limits: { stalledMs: 50 } })
  t.equal(await (await fetch(url)).text(), '1\n2\n')
})
