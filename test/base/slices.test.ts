import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { createSlices } from '../../lib/base/slices.js'

const busyMs = (ms: number): void => {
  for (const until = performance.now() + ms; performance.now() < until; );
}

t.test('runs pieces at once during a slice, then in order with turns of the loop between', async t => {
  const slices = createSlices({ sliceMs: 2 })
  t.equal(slices.turn(), undefined, 'the first one does not wait')
  const order: number[] = []
  let turns = 0
  const seen = new Set<number>()
  const pieces = Array.from({ length: 50 }, async (_, index) => {
    const turn = slices.turn()
    if (turn !== undefined) await turn
    busyMs(0.5)
    order.push(index)
    seen.add(turns)
  })
  let isOver = false
  const counting = (async () => {
    for (; !isOver; turns++) await nextTurn()
  })()
  await Promise.all(pieces)
  isOver = true
  await counting
  t.same(
    order,
    [...order].sort((a, b) => a - b)
  )
  t.equal(order.length, 50)
  t.ok(seen.size > 3, `pieces ran in ${seen.size} turns`)
  await nextTurn()
  t.equal(slices.turn(), undefined, 'afterwards nothing waits')
})

t.test('a later piece does not overtake those that wait', async t => {
  const slices = createSlices({ sliceMs: 1 })
  await slices.turn()
  busyMs(2)
  const order: string[] = []
  const first = slices.turn()?.then(async () => {
    order.push('first')
    busyMs(2)
    await slices.turn()
    order.push('first again')
  })
  const second = slices.turn()?.then(() => void order.push('second'))
  await Promise.all([first, second])
  t.same(order, ['first', 'second', 'first again'])
})
