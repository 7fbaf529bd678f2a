import t from 'tap'
import { getEventListeners } from 'node:events'
import { setImmediate as later } from 'node:timers/promises'
import { aborted, createChanges, createSignal, createTurns, pause } from '../../lib/cluster/signals.js'

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

t.test('work runs one after the other, also after a failure', async t => {
  const turns = createTurns()
  const seen: string[] = []
  const work = (name: string, fails = false) =>
    turns(async () => {
      seen.push(`${name} begins`)
      await later()
      seen.push(`${name} ends`)
      if (fails) throw new Error(name)
      return name
    })
  const all = [work('a'), work('b', true), work('c')]
  t.equal(await all[0], 'a')
  await t.rejects(all[1] as Promise<string>, { message: 'b' })
  t.equal(await all[2], 'c')
  t.same(seen, ['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
})
