import t from 'tap'
import { checkSeen } from '../../lib/model/seen.js'

t.test('refuses a change if the record is not in a state that the client expects', async t => {
  t.doesNotThrow(() => checkSeen({}, 'b', 'The tag'))
  t.doesNotThrow(() => checkSeen({ seen: ['a', 'b'] }, 'b', 'The tag'))
  t.throws(() => checkSeen({ seen: ['a'] }, 'b', 'The tag'), {
    kind: 'precondition',
    code: 'changed_since',
    message: 'The tag has changed since the state in If-Match. Read it again'
  })
  t.throws(() => checkSeen({ seen: [] }, 'b', 'The tag'), { code: 'changed_since' })
})
