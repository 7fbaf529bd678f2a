import t from 'tap'
import { equalities, where } from '../../../lib/store/tables/conditions.js'

t.test('makes a condition of each expression that has a value; undefined means any', async t => {
  t.strictSame(equalities({ a: 'x', b: undefined, 'lower(c)': 'y' }), {
    conditions: ['a = ?', 'lower(c) = ?'],
    values: ['x', 'y']
  })
})

t.test('joins all conditions in a clause, which is empty without any', async t => {
  t.equal(where([]), '')
  t.equal(where(['a = ?', 'b < ?']), 'WHERE a = ? AND b < ?')
})
