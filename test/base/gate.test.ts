import t from 'tap'
import { setImmediate as turn } from 'node:timers/promises'
import { createGate } from '../../lib/base/gate.js'

const never = new AbortController().signal

t.test('admits as many callers as there are places, and the others in order', async t => {
  const gate = createGate({ places: 2 })
  const inside: number[] = []
  const leaves: Array<() => void> = []
  const entering = [0, 1, 2, 3, 4].map(async n => {
    leaves[n] = await gate.enter(never)
    inside.push(n)
  })
  await turn()
  t.strictSame(inside, [0, 1])
  leaves[1]?.()
  leaves[0]?.()
  await turn()
  t.strictSame(inside, [0, 1, 2, 3])
  leaves[2]?.()
  await Promise.all(entering)
  t.strictSame(inside, [0, 1, 2, 3, 4])
})

t.test('a caller that aborts in the queue takes no place', async t => {
  const gate = createGate({ places: 1 })
  const leave = await gate.enter(never)
  const aborter = new AbortController()
  const waiting = gate.enter(aborter.signal)
  aborter.abort(new Error('enough'))
  await t.rejects(waiting, /enough/)
  await t.rejects(gate.enter(AbortSignal.abort(new Error('before'))), /before/)
  leave()
  ;(await gate.enter(never))()
  ;(await gate.enter(never))()
})

t.test('rejects a caller if the queue is full', async t => {
  const gate = createGate({ places: 1, maxWaiting: 1, full: () => new Error('full') })
  const leave = await gate.enter(never)
  const waiting = gate.enter(never)
  await t.rejects(gate.enter(never), /full/)
  leave()
  ;(await waiting)()
})

t.test('an urgent caller goes to the front of the queue, without a signal', async t => {
  const gate = createGate({ places: 1 })
  const leave = await gate.enter()
  const order: string[] = []
  const note = async (name: string, isFirst: boolean) => {
    const leave = await gate.enter(undefined, { isFirst })
    order.push(name)
    leave()
  }
  const entering = [note('a', false), note('b', false), note('urgent', true)]
  leave()
  await Promise.all(entering)
  t.strictSame(order, ['urgent', 'a', 'b'])
})
