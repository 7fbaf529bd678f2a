import t from 'tap'
import { hasLostRight } from '../../lib/model/audit.js'

t.test('an actor has lost its right if it would not be accepted again, also because it has expired', async t => {
  const asked: boolean[] = []
  const checkAgain = (finishes: boolean): void => {
    asked.push(finishes)
    if (asked.length > 1) throw new Error('Revoked')
  }
  const actor = { name: 'token:ci', ip: null, checkAgain }
  t.same([hasLostRight(actor), hasLostRight(actor), hasLostRight({ name: 'local', ip: null })], [false, true, false])
  t.same(asked, [false, false])
})
