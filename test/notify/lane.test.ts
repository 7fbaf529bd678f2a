import t from 'tap'
import { createLane } from '../../lib/notify/lane.js'

t.test('runs some in parallel, the others in order, and refuses too many', async t => {
  const lane = createLane({ abreast: 2, perKey: 2, waiting: 2, waitingPerKey: 2 })
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

t.test('a key whose work never ends delays only itself', async t => {
  const lane = createLane({ abreast: 4, perKey: 2, waiting: 10, waitingPerKey: 3 })
  const started: string[] = []
  let release = (): void => {}
  const slow = new Promise<void>(resolve => (release = resolve))
  const addSlow = (n: number) =>
    lane.add('slow', async () => {
      started.push(`slow ${n}`)
      await slow
    })
  t.same(
    [1, 2, 3, 4, 5, 6].map(addSlow),
    [true, true, true, true, true, false],
    'two run, three wait, and the sixth is refused'
  )
  for (let n = 1; n <= 4; n++) t.ok(lane.add(`quick ${n}`, async () => void started.push(`quick ${n}`)))
  await new Promise(setImmediate)
  t.same(started, ['slow 1', 'slow 2', 'quick 1', 'quick 2', 'quick 3', 'quick 4'])
  release()
  await lane.idle()
  t.same(started.slice(6), ['slow 3', 'slow 4', 'slow 5'])
})

t.test('keys take turns', async t => {
  const lane = createLane({ abreast: 1, perKey: 1, waiting: 10, waitingPerKey: 10 })
  const started: string[] = []
  for (const key of ['a', 'a', 'a', 'b', 'b', 'c']) lane.add(key, async () => void started.push(key))
  await lane.idle()
  t.same(started, ['a', 'a', 'b', 'c', 'a', 'b'])
  t.notOk(
    createLane({ abreast: 0, perKey: 1, waiting: 0, waitingPerKey: 1 }).add('a', async () => {}),
    'too many in total'
  )
})
