import t from 'tap'
import { countOf } from '../../lib/base/count.js'

t.test('writes the noun in singular or plural', async t => {
  t.same(
    [0, 1, 2].map(number => countOf(number, 'error')),
    ['0 errors', '1 error', '2 errors']
  )
  t.same(
    [1, 2].map(number => countOf(number, 'entry', 'entries')),
    ['1 entry', '2 entries']
  )
})
