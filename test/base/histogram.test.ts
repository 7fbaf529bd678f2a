import t from 'tap'
import { createHistogram } from '../../lib/base/histogram.js'

t.test('counts values up to and including their bounds', async t => {
  const histogram = createHistogram([1, 5, 10])
  t.same(histogram.figures(), { buckets: [1, 5, 10].map(atMost => ({ atMost, count: 0 })), sum: 0, count: 0 })
  for (const value of [0, 1, 1.5, 5, 11]) histogram.observe(value)
  t.same(histogram.figures(), {
    buckets: [
      { atMost: 1, count: 2 },
      { atMost: 5, count: 4 },
      { atMost: 10, count: 4 }
    ],
    sum: 18.5,
    count: 5
  })
})
