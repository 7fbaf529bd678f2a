import t from 'tap'
import { isGoing, rolloutStates } from '../../lib/model/rollout.js'

t.test('a rollout goes on unless it was halted or has ended', async t => {
  t.same(rolloutStates.filter(isGoing), ['preparing', 'swapping', 'pausing', 'approval', 'reverting'])
})
