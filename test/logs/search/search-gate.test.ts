import t from 'tap'
import { createSearchGate } from '../../../lib/logs/search/search-gate.js'

t.test('runs and queues a limited number of searches, and refuses the next one with a time to wait', async t => {
  const gate = createSearchGate(1, 1)
  const signal = new AbortController().signal
  const leave = await gate.enter(signal)
  const waiting = gate.enter(signal)
  await t.rejects(async () => gate.enter(signal), {
    kind: 'too_many',
    code: 'too_many_searches',
    retryAfterSeconds: 5
  })
  leave()
  const leaveToo = await waiting
  leaveToo()
})
