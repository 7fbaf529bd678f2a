import t from 'tap'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { PassThrough } from 'node:stream'
import { createSlices } from '../../../lib/base/async.js'
import { clientGone, createSink } from '../../../lib/http/core/exchange.js'

/** A sink onto a response whose buffer has ten bytes. */
function stage() {
  const heads: string[] = []
  const controller = new AbortController()
  const response = Object.assign(new PassThrough({ highWaterMark: 10 }), {
    headersSent: false,
    flushHeaders: () => heads.push('flushed')
  })
  const writeHead = (): void => {
    heads.push('head')
    response.headersSent = true
  }
  const { signal } = controller
  const sink = createSink({
    response: response as unknown as ServerResponse,
    signal,
    slices: createSlices(),
    writeHead
  })
  return { sink, response, heads, controller }
}

t.test('sends the head once, with the first write or before', async t => {
  const { sink, heads, response } = stage()
  sink.sendHead()
  sink.sendHead()
  await sink.write('a')
  await sink.write('b')
  t.same(heads, ['head', 'flushed'])
  t.equal(String(response.read()), 'ab')
})

t.test('makes the writer wait for a full buffer', async t => {
  const { sink, response } = stage()
  let isWritten = false
  const writing = sink.write('x'.repeat(50)).then(() => (isWritten = true))
  await new Promise(resolve => setTimeout(resolve, 20))
  t.notOk(isWritten)
  response.resume()
  await once(response, 'drain')
  await writing
  t.ok(isWritten)
})

t.test('rejects the pending and every later write if the client leaves', async t => {
  const { sink, controller } = stage()
  const writing = sink.write('x'.repeat(50))
  controller.abort(clientGone())
  await t.rejects(writing, { code: 'aborted' })
  await t.rejects(sink.write('y'), { code: 'aborted' })
})
