import t from 'tap'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '../../lib/base/errors.js'
import { json, type Reply, type Route, type Sink } from '../../lib/http/core/route.js'
import { type Events, eventStream, keptAlive, ndjson } from '../../lib/http/streams.js'
import { sendRaw, startServer } from '../support/http-server.js'
import { until } from '../support/until.js'

/** A sink whose client reads when the test lets it. */
function sinkOf() {
  const written: string[] = []
  const reads: Array<() => void> = []
  let wake = (): void => {}
  const write = (chunk: string | Uint8Array): Promise<void> => {
    written.push(String(chunk))
    wake()
    return new Promise(resolve => reads.push(resolve))
  }
  return {
    sink: { write } as unknown as Sink,
    written,
    read: (): void => reads.splice(0).forEach(resolve => resolve()),
    next: (): Promise<void> => new Promise(resolve => (wake = resolve))
  }
}

t.test('writes the text while there is nothing else, and stops with the stream', async t => {
  const { sink, written, read, next } = sinkOf()
  let end = (): void => {}
  const running = keptAlive(sink, { text: '\n', everyMs: 5 }, async write => {
    const first = write('one')
    read()
    await first
    await new Promise<void>(resolve => (end = resolve))
  })
  await next()
  read()
  await next()
  t.same(written, ['one', '\n', '\n'])
  read()
  end()
  await running
  const count = written.length
  await new Promise(resolve => setTimeout(resolve, 30))
  t.equal(written.length, count)
})

t.test('a client that does not read gets no texts', async t => {
  const { sink, written, read } = sinkOf()
  const running = keptAlive(sink, { text: '\n', everyMs: 5 }, write => write('one'))
  await new Promise(resolve => setTimeout(resolve, 50))
  t.same(written, ['one'])
  read()
  await running
})

t.test('the failure of the stream is that of what runs', async t => {
  const { sink } = sinkOf()
  await t.rejects(
    keptAlive(sink, { text: '\n', everyMs: 5 }, async () => {
      throw new Error('gone')
    }),
    { message: 'gone' }
  )
})

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

const getForSse = (run: (events: Events, signal: AbortSignal) => Promise<void>, keepAliveMs?: number): Route => ({
  method: 'GET',
  path: '/',
  auth: 'public',
  handle: () => eventStream(run, keepAliveMs === undefined ? {} : { keepAliveMs })
})

t.test('formats events', async t => {
  const { url } = await startServer(t, [
    getForSse(async events => {
      await events.send({ event: 'log', data: { data: 'x', at: 1 }, id: 12 })
      await events.send({ data: 'one\ntwo\r\nthree\rfour' })
      await events.send({ event: 'empty', data: '' })
      await events.comment('note')
    })
  ])
  const reply = await fetch(url)
  t.match(Object.fromEntries(reply.headers), {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no'
  })
  t.equal(
    await reply.text(),
    ':open\n\nevent: log\nid: 12\ndata: {"data":"x","at":1}\n\n' +
      'data: one\ndata: two\ndata: three\ndata: four\n\nevent: empty\ndata: \n\n:note\n\n'
  )
})

t.test('sends a long list in parts, with nothing between them', async t => {
  async function* parts() {
    yield ['one', 'two\n']
    await sleep(100)
    yield []
    yield ['three']
  }
  const list = { name: 'lines', parts: parts() }
  const { url } = await startServer(t, [
    getForSse(events => events.sendParts({ event: 'snapshot', data: { size: 3 }, list, id: () => '7@f' }), 20)
  ])
  const text = await (await fetch(url)).text()
  t.equal(text, ':open\n\nevent: snapshot\ndata: {"lines":["one","two\\n","three"],"size":3}\nid: 7@f\n\n')
})

t.test('ends an event whose parts fail, so that the error can follow', async t => {
  async function* parts() {
    yield ['one']
    throw new Error('broken')
  }
  const { url } = await startServer(t, [
    getForSse(async events => {
      const event = { event: 'snapshot', data: {}, list: { name: 'lines', parts: parts() }, id: () => '1' }
      await events.sendParts(event).catch(error => events.send({ event: 'error', data: error.message }))
    })
  ])
  const text = await (await fetch(url)).text()
  t.equal(text, ':open\n\nevent: snapshot\ndata: {"lines":["one"]}\nid: 1\n\nevent: error\ndata: broken\n\n')
})

t.test('refuses a name or an id that would begin another field', async t => {
  const { port, events } = await startServer(t, [getForSse(stream => stream.send({ event: 'a\ndata: b', data: '' }))])
  t.notMatch((await sendRaw(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')).body, 'data: b')
  t.match(events[0], { kind: 'failure' })
})

t.test('sends keep-alive comments', async t => {
  const { url } = await startServer(t, [getForSse(() => sleep(150), 30)])
  const text = await (await fetch(url)).text()
  t.match(text, /^:open\n\n(:keep-alive\n\n){1,5}$/)
})

t.test('opens a stream before its first event, and ends it properly when the server stops', async t => {
  let reason: unknown
  const { url, server, events } = await startServer(t, [
    getForSse(async (_events, signal) => {
      await once(signal, 'abort')
      reason = signal.reason
      throw signal.reason
    })
  ])
  const reply = await fetch(url)
  const closed = server.close({ graceMs: 10_000 })
  t.equal(await reply.text(), ':open\n\n')
  await closed
  t.match(reason, { code: 'stopping' })
  t.match(events, [{ kind: 'request', status: 200, aborted: false }])
})
