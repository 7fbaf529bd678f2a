import t from 'tap'
import { perObject } from '../../lib/base/per-object.js'

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
