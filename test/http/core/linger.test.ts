import { EventEmitter, once } from 'node:events'
import { Readable } from 'node:stream'
import type { IncomingMessage } from 'node:http'
import t from 'tap'
import { dropRest } from '../../../lib/http/core/linger.js'

const limits = { maxBytes: 10, totalMs: 60_000, idleMs: 60_000 }
const body = (): Readable & IncomingMessage => new Readable({ read() {} }) as Readable & IncomingMessage

t.test('reads the rest of a body to its end', async t => {
  const request = body()
  const dropped = dropRest(request, limits)
  request.push('rest')
  request.push(null)
  t.equal(await dropped, 'read')
  t.equal(await dropRest(request, limits), 'read', 'nothing more arrives')
})

t.test('stops if the client goes away', async t => {
  const request = body()
  const dropped = dropRest(request, limits)
  request.destroy(new Error('reset'))
  t.equal(await dropped, 'gone')
  t.equal(await dropRest(request, limits), 'gone')
})

for (const which of ['totalMs', 'idleMs'] as const) {
  t.test(`stops at ${which}, and leaves no listener`, async t => {
    const request = body()
    request.push('x')
    t.equal(await dropRest(request, { ...limits, [which]: 20 }), 'limit')
    t.equal(EventEmitter.listenerCount(request, 'data'), 0)
    request.destroy()
    await once(request, 'close')
  })
}

t.test('reads nothing more after the limit of bytes', async t => {
  const request = body()
  const dropped = dropRest(request, { ...limits, totalMs: 50 })
  request.push('more than ten bytes')
  await new Promise(resolve => setImmediate(resolve))
  t.ok(request.isPaused())
  t.equal(await dropped, 'limit')
})
