import t from 'tap'
import { formatSeconds } from '../../lib/base/duration.js'

for (const [ms, text] of [
  [0, '0.00s'],
  [4, '0.00s'],
  [1234, '1.23s'],
  [61_000, '61.00s'],
  [-5, '0.00s']
] as const) {
  t.test(`${ms} ms is ${text}`, async t => {
    t.equal(formatSeconds(ms), text)
  })
}
