import t from 'tap'
import { createSearchGate } from '../../../lib/logs/search/search-gate.js'

const never = new AbortController().signal

t.test('runs and queues a limited number of searches, and refuses the next one with a time to wait', async t => {
  const gate = createSearchGate({ places: 1, perCaller: 2, maxWaiting: 1 })
  const leave = await gate.enter('a', never)
  t.notOk(gate.isWanted())
  const waiting = gate.enter('b', never)
  await t.rejects(gate.enter('c', never), { kind: 'too_many', code: 'too_many_searches', retryAfterSeconds: 5 })
  t.ok(gate.isWanted())
  leave()
  const leaveToo = await waiting
  t.notOk(gate.isWanted())
  leaveToo()
})

t.test('one caller has a part of the places, and waits by itself for more', async t => {
  const gate = createSearchGate({ places: 3, perCaller: 2, maxWaiting: 2 })
  const first = await gate.enter('a', never)
  await gate.enter('a', never)
  const gone = new AbortController()
  const third = gate.enter('a', gone.signal)
  const fourth = gate.enter('a', never)
  await t.rejects(gate.enter('a', never), { code: 'too_many_searches' })
  t.notOk(gate.isWanted(), 'nobody else waits')
  const other = await gate.enter('b', never)
  gone.abort(new Error('has left'))
  await t.rejects(third, { message: 'has left' })
  first()
  other()
  await fourth
  await gate.enter('b', never)
})
