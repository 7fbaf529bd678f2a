import t from 'tap'
import { countOf } from '../../lib/base/count.js'

t.test('a count agrees with its noun', async t => {
  t.same([0, 1, 2].map(number => countOf(number, 'error')), ['0 errors', '1 error', '2 errors'])
  t.same([1, 2].map(number => countOf(number, 'entry', 'entries')), ['1 entry', '2 entries'])
})
