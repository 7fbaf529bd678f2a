import t from 'tap'
import { createLane } from '../../lib/notify/lane.js'

t.test('a lane runs some abreast, the others in order, and refuses what is too much', async t => {
  const lane = createLane({ abreast: 2, waiting: 2 })
  const started: number[] = []
  const ends: Array<() => void> = []
  const add = (n: number) => lane.add(() => new Promise(resolve => {
    started.push(n)
    ends.push(resolve)
  }))
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
