import { getEventListeners } from 'node:events'
import t from 'tap'
import { pause } from '../../../lib/store/log/pause.js'

t.test('waits for the time, or for the signal, and leaves nothing behind', async t => {
  const stop = new AbortController()
  const fromMs = performance.now()
  await pause(30, stop.signal)
  t.ok(performance.now() - fromMs >= 29)
  const waiting = pause(60_000, stop.signal)
  setImmediate(() => stop.abort())
  await waiting
  await pause(60_000, stop.signal)
  await pause(-1)
  t.ok(performance.now() - fromMs < 10_000)
  t.equal(getEventListeners(stop.signal, 'abort').length, 0)
})
