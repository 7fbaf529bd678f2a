import t from 'tap'
import { tokenFault } from '../../lib/model/token.js'

t.test('requires 8 to 1024 visible ASCII characters', async t => {
  for (const token of ['12345678', '!~'.repeat(512), 'a-b_c.d+e/f=']) t.equal(tokenFault(token), null)
  for (const token of ['', '1234567', 'a'.repeat(1025), 'with space', 'pässword', '12345678\n'])
    t.type(tokenFault(token), 'string', JSON.stringify(token))
})
