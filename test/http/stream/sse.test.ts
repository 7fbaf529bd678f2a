import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Route } from '../../../lib/http/core/route.js'
import { eventStream, type Events } from '../../../lib/http/stream/sse.js'
import { sendRaw, startServer } from '../../support/http-server.js'

const get = (run: (events: Events, signal: AbortSignal) => Promise<void>, keepAliveMs?: number): Route => ({
  method: 'GET',
  path: '/',
  auth: 'public',
  handle: () => eventStream(run, keepAliveMs === undefined ? {} : { keepAliveMs })
})

t.test('formats events', async t => {
  const { url } = await startServer(t, [
    get(async events => {
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
    get(events => events.sendParts({ event: 'snapshot', data: { size: 3 }, list, id: () => '7@f' }), 20)
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
    get(async events => {
      const event = { event: 'snapshot', data: {}, list: { name: 'lines', parts: parts() }, id: () => '1' }
      await events.sendParts(event).catch(error => events.send({ event: 'error', data: error.message }))
    })
  ])
  const text = await (await fetch(url)).text()
  t.equal(text, ':open\n\nevent: snapshot\ndata: {"lines":["one"]}\nid: 1\n\nevent: error\ndata: broken\n\n')
})

t.test('refuses a name or an id that would begin another field', async t => {
  const { port, events } = await startServer(t, [get(stream => stream.send({ event: 'a\ndata: b', data: '' }))])
  t.notMatch((await sendRaw(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')).body, 'data: b')
  t.match(events[0], { kind: 'failure' })
})

t.test('sends keep-alive comments', async t => {
  const { url } = await startServer(t, [get(() => sleep(150), 30)])
  const text = await (await fetch(url)).text()
  t.match(text, /^:open\n\n(:keep-alive\n\n){1,5}$/)
})

t.test('opens a stream before its first event, and ends it properly when the server stops', async t => {
  let reason: unknown
  const { url, server, events } = await startServer(t, [
    get(async (_events, signal) => {
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
