import t from 'tap'
import { createLane } from '../../lib/notify/lane.js'

t.test('runs some in parallel, the others in order, and refuses too many', async t => {
  const lane = createLane({ keys: 2, shared: 1, perKey: 2, waitingPerKey: 2 })
  const started: number[] = []
  const ends: Array<() => void> = []
  const add = (n: number) =>
    lane.add(
      'one',
      () =>
        new Promise<void>(resolve => {
          started.push(n)
          ends.push(resolve)
        })
    )
  t.same([1, 2, 3, 4, 5].map(add), [true, true, true, true, false])
  t.same(started, [1, 2])
  let isIdle = false
  const idle = lane.idle().then(() => void (isIdle = true))
  ends[1]?.()
  await new Promise(setImmediate)
  t.same(started, [1, 2, 3])
  t.equal(isIdle, false)
  for (let at = 0; at < 4; at++) {
    ends[at]?.()
    await new Promise(setImmediate)
  }
  await idle
  t.same(started, [1, 2, 3, 4])
  await lane.idle()
})

t.test('keys whose work never ends delay only themselves, however many there are', async t => {
  const lane = createLane({ keys: 20, shared: 3, perKey: 3, waitingPerKey: 2 })
  const started: string[] = []
  let release = (): void => {}
  const slow = new Promise<void>(resolve => (release = resolve))
  const addSlow = (key: string) =>
    lane.add(key, async () => {
      started.push(key)
      await slow
    })
  const taken = Array.from({ length: 10 }, (_, n) => [1, 2, 3, 4, 5].map(() => addSlow(`slow ${n}`)))
  t.same(taken[0], [true, true, true, true, true], 'three run, two wait')
  t.same(taken[9], [true, true, true, false, false], 'one runs in its own place, two wait')
  t.equal(started.length, 10 + 3, 'each has its place, and one has more')
  started.length = 0
  for (let n = 0; n < 12; n++) t.ok(lane.add('quick', async () => void started.push(`quick ${n}`)) || n > 2)
  while (started.length < 3) await new Promise(setImmediate)
  t.same(started, ['quick 0', 'quick 1', 'quick 2'])
  release()
  await lane.idle()
})

t.test('keys take turns in what they share, and have a limit', async t => {
  const lane = createLane({ keys: 3, shared: 1, perKey: 2, waitingPerKey: 10 })
  const started: string[] = []
  for (const key of ['a', 'a', 'a', 'b', 'b', 'c']) t.ok(lane.add(key, async () => void started.push(key)))
  t.notOk(
    lane.add('d', async () => {}),
    'too many keys'
  )
  await lane.idle()
  t.same(started, ['a', 'a', 'b', 'c', 'a', 'b'])
})
