import t from 'tap'
import { aborted, createChanges, createSignal } from '../../../lib/store/log/signals.js'

t.test('what waits for a signal goes on when it is fired, or told to stop', async t => {
  const fired = createSignal()
  const stop = new AbortController()
  const stopped = fired.wait(stop.signal)
  const waiting = fired.wait(new AbortController().signal)
  stop.abort()
  await stopped
  await aborted(stop.signal)
  fired.fire()
  await waiting
  await fired.wait(new AbortController().signal)
  t.pass('a signal stays fired')
})

t.test('a change is looked at by everybody who waits', async t => {
  const changes = createChanges()
  const { signal } = new AbortController()
  let at = 0
  const seen: number[] = []
  const both = [1, 2].map(n => changes.until(() => at >= n, signal).then(() => seen.push(n)))
  for (at = 1; at <= 2; at++) {
    changes.happened()
    await both[at - 1]
    t.equal(seen.at(-1), at)
  }
  await changes.until(() => true, signal)

  const stop = new AbortController()
  const given = changes.until(() => false, stop.signal)
  stop.abort(new Error('enough'))
  await t.rejects(given, /enough/)
  await t.rejects(
    changes.until(() => {
      throw new Error('outdated')
    }, signal),
    /outdated/
  )
})
