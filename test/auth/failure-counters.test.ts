import t from 'tap'
import { createFailureCounters } from '../../lib/auth/failure-counters.js'

const minuteMs = 60_000

t.test('8 failures in 10 minutes lock a key for 5 minutes', async t => {
  const counters = createFailureCounters()
  for (let i = 1; i < 8; i++) t.equal(counters.count('a', i), false)
  t.equal(counters.lockedMs('a', 8), 0)
  t.equal(counters.count('a', 8), true)
  t.equal(counters.lockedMs('a', 8), 5 * minuteMs)
  t.equal(counters.lockedMs('b', 8), 0)
  t.equal(counters.count('a', 9), false)
  t.equal(counters.lockedMs('a', 9), 5 * minuteMs - 1, 'a failure during the lock does not prolong it')
  t.equal(counters.lockedMs('a', 8 + 5 * minuteMs), 0)
  t.equal(counters.hasFailed('a', 8 + 6 * minuteMs), true)
  t.equal(counters.hasFailed('a', 8 + 15 * minuteMs), false)
})

t.test('old failures do not count', async t => {
  const counters = createFailureCounters()
  for (let i = 0; i < 7; i++) counters.count('a', 0)
  t.equal(counters.hasFailed('a', 10 * minuteMs - 1), true)
  t.equal(counters.hasFailed('a', 10 * minuteMs), false)
  t.equal(counters.count('a', 10 * minuteMs), false)
})

t.test('the number of keys is limited: the one that failed first is forgotten', async t => {
  const counters = createFailureCounters()
  for (let i = 0; i <= 20_000; i++) counters.count(`key ${i}`, 0)
  t.equal(counters.hasFailed('key 0', 0), false)
  t.equal(counters.hasFailed('key 1', 0), true)
})
