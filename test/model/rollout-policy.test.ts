import t from 'tap'
import { givenPolicy, storedPolicy } from '../../lib/model/policy-keys.js'
import { defaultRolloutPolicy } from '../../lib/model/rollout.js'
import { givenRolloutPolicy, rolloutPolicy } from '../../lib/model/rollout-policy.js'

t.test('absent keys get their defaults in the policy of a project, and stay absent in a push', async t => {
  const given = { canary: 2, pause: 'approve', order: null }
  t.same(rolloutPolicy(given, 'rollout'), { ...defaultRolloutPolicy, canary: 2, pause: 'approve' })
  t.same(givenRolloutPolicy(given, 'rollout'), given)
})

t.test('a policy of a project that repeats the defaults is stored: it binds pushes', async t => {
  t.same(storedPolicy({ rollout: { canary: 1, onFailure: 'halt' } }, 'policy'), { rollout: defaultRolloutPolicy })
  t.match(storedPolicy({ rollout: { then: '100%' } }, 'policy'), { rollout: { then: '100%', canary: 1 } })
  t.same(storedPolicy({ rollout: null }, 'policy'), {})
})

t.test('an invalid key is refused by its name', async t => {
  const wrong: Array<[unknown, string]> = [
    [[], 'policy.rollout'],
    [{ canary: 0 }, 'policy.rollout.canary'],
    [{ canary: '1' }, 'policy.rollout.canary'],
    [{ then: '0' }, 'policy.rollout.then'],
    [{ then: '0%' }, 'policy.rollout.then'],
    [{ then: '101%' }, 'policy.rollout.then'],
    [{ then: '10001' }, 'policy.rollout.then'],
    [{ then: 25 }, 'policy.rollout.then'],
    [{ pause: -1 }, 'policy.rollout.pause'],
    [{ pause: 1.5 }, 'policy.rollout.pause'],
    [{ pause: 'asks' }, 'policy.rollout.pause'],
    [{ pause: 7 * 86_400 + 1 }, 'policy.rollout.pause'],
    [{ maxFailures: -1 }, 'policy.rollout.maxFailures'],
    [{ maxUnreachable: 'half' }, 'policy.rollout.maxUnreachable'],
    [{ onFailure: 'ignore' }, 'policy.rollout.onFailure'],
    [{ order: 'no spaces' }, 'policy.rollout.order'],
    [{ waves: 3 }, 'policy.rollout.waves']
  ]
  for (const [rollout, field] of wrong)
    t.throws(() => givenPolicy({ rollout }, 'policy'), { code: 'invalid_field', field }, JSON.stringify(rollout))
  for (const rollout of [{ maxUnreachable: '0' }, { then: '1' }, { pause: 0 }, { order: 'topology/zone' }])
    t.doesNotThrow(() => givenPolicy({ rollout }, 'policy'), JSON.stringify(rollout))
})
