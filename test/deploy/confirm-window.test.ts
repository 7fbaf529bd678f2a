import { getEventListeners } from 'node:events'
import t from 'tap'
import { openWindow } from '../../lib/deploy/confirm-window.js'

const never = new AbortController().signal

t.test('ends confirmed, or when its time has passed', async t => {
  const confirmed = openWindow({ ms: 60_000, nowMs: 0 })
  t.equal(confirmed.until, '1970-01-01T00:01:00.000Z')
  const decided = confirmed.decided(never)
  t.ok(confirmed.confirm())
  t.ok(confirmed.confirm(), 'again')
  t.ok(await decided)
  const missed = openWindow({ ms: 20, nowMs: 0 })
  t.notOk(await missed.decided(never))
  t.notOk(missed.confirm(), 'too late')
  t.notOk(await openWindow({ ms: -5, nowMs: 0 }).decided(never), 'a window that has already ended')
})

t.test('a change of the clock does not affect it', async t => {
  const now = Date.now
  t.teardown(() => (Date.now = now))
  const window = openWindow({ ms: 60_000, nowMs: Date.now() })
  const decided = window.decided(never)
  Date.now = () => now() + 3_600_000
  await new Promise(resolve => setTimeout(resolve, 20))
  t.ok(window.confirm(), 'the clock was set forward')
  t.ok(await decided)
})

t.test('an abort rejects with its reason, unless the confirmation came first', async t => {
  const stop = new AbortController()
  const aborted = openWindow({ ms: 60_000, nowMs: 0 })
  const decided = aborted.decided(stop.signal)
  stop.abort(new Error('cancelled'))
  await t.rejects(decided, { message: 'cancelled' })
  t.notOk(aborted.confirm())
  t.equal(getEventListeners(stop.signal, 'abort').length, 0)
  const first = openWindow({ ms: 60_000, nowMs: 0 })
  first.confirm()
  t.ok(await first.decided(stop.signal))
})
