import t from 'tap'
import { getEventListeners } from 'node:events'
import { setImmediate as nextTurn, setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import {
  abortForMany,
  callAll,
  closing,
  createActivity,
  createGate,
  createSlices,
  gather,
  perObject,
  withAnySignal,
  createDoor
} from '../../lib/base/async.js'
import { isCrowded } from '../support/listened.js'

t.test('counts work until it settles, whether it succeeds or fails', async t => {
  const activity = createActivity()
  let end = (): void => {}
  const first = activity.during(() => new Promise<string>(resolve => (end = () => resolve('done'))))
  const second = activity.during(async () => {
    throw new Error('broken')
  })
  t.same([activity.now, activity.total], [2, 2])
  await t.rejects(second, { message: 'broken' })
  t.same([activity.now, activity.total], [1, 2])
  end()
  t.equal(await first, 'done')
  t.same([activity.now, activity.total], [0, 2])
})

t.test('closes in reverse order and returns the result', async t => {
  const order: string[] = []
  const result = await closing(async defer => {
    defer(() => order.push('first opened'))
    defer(async () => order.push('second opened'))
    return 7
  })
  t.equal(result, 7)
  t.same(order, ['second opened', 'first opened'])
})

t.test('closes everything after a failure, and throws the first error', async t => {
  const order: string[] = []
  const failed = closing(async defer => {
    defer(() => order.push('closed'))
    defer(() => {
      throw new Error('while closing')
    })
    throw new Error('while working')
  })
  await t.rejects(failed, { message: 'while working' })
  t.same(order, ['closed'])
})

t.test('throws the error of a close if the work succeeded', async t => {
  const failed = closing(async defer => {
    defer(() => Promise.reject(new Error('not flushed')))
  })
  await t.rejects(failed, { message: 'not flushed' })
})

t.test('calls every function in turn and throws the first error', async t => {
  const order: string[] = []
  const step = (name: string, error?: string) => async () => {
    order.push(name)
    if (error !== undefined) throw new Error(error)
  }
  const throws = () => {
    throw new Error('second')
  }
  await t.rejects(callAll([step('a'), step('b', 'first'), throws, step('c')]), { message: 'first' })
  t.strictSame(order, ['a', 'b', 'c'])
  await callAll([step('d')])
})

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

t.test('makes the value once for each object, even undefined', async t => {
  const asked: object[] = []
  const made = perObject((key: { n: number }) => {
    asked.push(key)
    return key.n === 0 ? undefined : [key.n]
  })
  const [one, other, none] = [{ n: 1 }, { n: 1 }, { n: 0 }]
  t.equal(made(one), made(one))
  t.not(made(one), made(other), 'equal objects are different ones')
  t.equal(made(none), made(none))
  t.same(asked, [one, other, none])
})

const aborted = (signal: AbortSignal): Promise<unknown> =>
  new Promise(resolve => (signal.aborted ? resolve(signal.reason) : (signal.onabort = () => resolve(signal.reason))))

t.test('aborts with the first signal and its reason, and leaves no listener', async t => {
  const [one, other] = [new AbortController(), new AbortController()]
  const signals = [one.signal, other.signal]
  const reason = new Error('enough')
  const running = withAnySignal({ signals }, aborted)
  other.abort(reason)
  t.equal(await running, reason)
  t.equal(await withAnySignal({ signals }, aborted), reason, 'one that was aborted before')
  t.equal(await withAnySignal({ signals: [one.signal], withinMs: 60_000 }, async () => 'done'), 'done')
  await t.rejects(
    withAnySignal({ signals: [one.signal] }, async () => {
      throw reason
    }),
    reason
  )
  t.equal(getEventListeners(one.signal, 'abort').length, 0)
})

t.test('aborts after a time', async t => {
  const never = new AbortController().signal
  t.match(await withAnySignal({ signals: [never], withinMs: 1 }, aborted), { name: 'TimeoutError' })
})

t.test('joins pieces of any size, and holds at least what it keeps before it keeps it', async t => {
  for (const announced of [0, 5, 3000, 100_000]) {
    let held = 0
    const gathered = gather(announced, bytes => (held += bytes))
    t.ok(held >= announced, 'the announced size is held before the first byte')
    const all = Buffer.from(Array.from({ length: 3000 }, (_, i) => i % 251))
    for (let at = 0, size = 1; at < all.length; at += size, size = (size * 7) % 101) {
      gathered.add(all.subarray(at, at + size))
      if (held < gathered.length) t.fail(`${held} held, ${gathered.length} kept`)
    }
    t.ok(gathered.bytes().equals(all))
    t.ok(held <= Math.max(announced, 3 * all.length), `not much more is held: ${held}`)
  }
})

t.test('one piece of the announced size is not copied', async t => {
  const piece = Buffer.from('whole')
  const gathered = gather(piece.length, () => {})
  gathered.add(piece)
  t.equal(gathered.bytes().buffer, piece.buffer)
})

t.test('what `hold` throws is thrown before bytes are kept', async t => {
  const gathered = gather(0, bytes => {
    if (bytes > 600) throw new Error('no room')
  })
  t.throws(() => gathered.add(Buffer.alloc(2000)), /no room/)
  t.equal(gathered.length, 0)
})

t.test('many may wait for the signal of a controller for many, without a warning of Node', async t => {
  t.equal(await isCrowded(abortForMany().signal), false)
})

t.test('makes a part once, when it is first needed', async t => {
  let made = 0
  const door = createDoor(async () => ({ number: ++made }))
  t.equal(door.opened(), undefined)
  t.equal(door.asked(), undefined)
  t.equal(made, 0)
  const [one, two] = await Promise.all([door(), door()])
  t.equal(one, two)
  t.equal(await door(), one)
  t.equal(await door.asked(), one)
  t.equal(door.opened(), one)
  t.equal(made, 1)
})

t.test('tries again after a failure', async t => {
  let tries = 0
  const door = createDoor(async () => {
    if (++tries === 1) throw new Error('too many open files')
    return 'made'
  })
  await t.rejects(door(), /too many open files/)
  t.equal(door.opened(), undefined)
  t.equal(await door(), 'made')
})

t.test('makes a part that nobody needs a second later, and keeps a failure of that to itself', async t => {
  const door = createDoor(async () => 'made')
  const broken = createDoor(async () => {
    throw new Error('broken')
  })
  while (door.opened() === undefined) await sleep(20)
  await t.rejects(broken(), /broken/, 'who needs it is told')
})
